/* A program that knows nothing of pstar: NVTX ranges of all kinds, nested, in two threads, ASCII
 * and wide, with and without domains, registered strings and payloads. */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *other_thread(void *range)
{
    nvtxRangePushA("in the other thread");
    nvtxRangePop();
    nvtxRangeEnd(*(nvtxRangeId_t *)range);
    return NULL;
}

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
    nvtxDomainNameCategoryA(domain, 7, "input");
    nvtxEventAttributes_t event = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .category = 7,
        .payloadType = NVTX_PAYLOAD_TYPE_DOUBLE,
        .payload.dValue = 0.5,
        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
        .message.registered = nvtxDomainRegisterStringA(domain, "registered"),
    };
    int outer = nvtxRangePushA("outer");
    int inner = nvtxRangePushW(L"größer");
    nvtxDomainRangePushEx(domain, &event);
    nvtxMarkA("mark");
    nvtxRangePop(); /* of the default domain: the wide one */
    nvtxDomainRangePop(domain);
    nvtxRangeId_t range = nvtxRangeStartA("across threads");
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_thread, &range) != 0)
        return 1;
    pthread_join(thread, NULL);
    nvtxRangePop();
    nvtxRangePop(); /* one too many */
    printf("levels %d %d\n", outer, inner);
    return 3;
}
