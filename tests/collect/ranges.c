/* A program without our annotations. It makes NVTX ranges of all kinds: nested, in two threads,
 * ASCII and wide, with and without domains, registered strings and payloads. */
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

struct many {
    pthread_t thread;
    int index, ranges;
};

static void *make_many(void *data)
{
    const struct many *many = (const struct many *)data;
    nvtxEventAttributes_t event = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .payloadType = NVTX_PAYLOAD_TYPE_INT32,
        .payload.iValue = many->index,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = "many",
    };
    for (int i = 0; i < many->ranges; i++) {
        nvtxRangePushEx(&event);
        nvtxRangePop();
    }
    return NULL;
}

static void make_many_in_threads(int threads, int ranges)
{
    struct many *many = calloc((size_t)threads, sizeof *many);
    for (int i = 0; i < threads; i++) {
        many[i].index = i;
        many[i].ranges = ranges;
        if (pthread_create(&many[i].thread, NULL, make_many, &many[i]) != 0)
            abort();
    }
    for (int i = 0; i < threads; i++)
        pthread_join(many[i].thread, NULL);
    free(many);
}

int main(int argc, char **argv)
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
    if (argc == 3)
        make_many_in_threads(atoi(argv[1]), atoi(argv[2]));
    printf("levels %d %d\n", outer, inner);
    return 3;
}
