/* Entry points of the injected library. NVTX loads it at the first annotation and calls
 * InitializeInjectionNvtx2 once for each shared object that makes annotations. The functions below
 * fill NVTX's function tables; they convert NVTX's types. CUDA's driver loads the library when it
 * is initialised and calls InitializeInjection. */
#include "collect/collector.h"
#include "collect/harmless.h"

#include <link.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* NVTX's callbacks carry no context, so there is one collector per process. NULL if nothing is
 * recorded. */
static struct collector *collector;

static const struct collector_domain *domain_of(nvtxDomainHandle_t handle)
{
    return !handle ? collector_default_domain()
                   : (const struct collector_domain *)(const void *)handle;
}

static char *from_wide(const wchar_t *text)
{
    char *narrow = !text
                       ? NULL
                       : g_ucs4_to_utf8((const gunichar *)(const void *)text, -1, NULL, NULL, NULL);
    return !narrow ? g_strdup("") : narrow;
}

static uint8_t payload_type(int32_t type)
{
    return type >= RECORD_UINT64 && type <= RECORD_FLOAT ? (uint8_t)type : RECORD_NO_PAYLOAD;
}

/* Converts the attributes of an event. Free *wide after use. */
static struct annotation annotation_of(const nvtxEventAttributes_t *attributes, char **wide)
{
    *wide = NULL;
    if (!attributes)
        return (struct annotation){0};
    struct annotation annotation = {
        .category = attributes->category,
        .payload_type = payload_type(attributes->payloadType),
        .payload = attributes->payload.ullValue,
    };
    if (attributes->messageType == NVTX_MESSAGE_TYPE_ASCII)
        annotation.text = attributes->message.ascii;
    else if (attributes->messageType == NVTX_MESSAGE_TYPE_UNICODE)
        annotation.text = *wide = from_wide(attributes->message.unicode);
    else if (attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
        annotation.registered =
            (const struct record_string *)(const void *)attributes->message.registered;
    return annotation;
}

static struct annotation text_only(const char *text)
{
    return (struct annotation){.text = text};
}

static void NVTX_API domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    char *wide;
    struct annotation annotation = annotation_of(attributes, &wide);
    collector_mark(collector, domain_of(domain), &annotation);
    g_free(wide);
}

static int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    char *wide;
    struct annotation annotation = annotation_of(attributes, &wide);
    int level = collector_push(collector, domain_of(domain), &annotation);
    g_free(wide);
    return level;
}

static int NVTX_API domain_pop(nvtxDomainHandle_t domain)
{
    return collector_pop(collector, domain_of(domain));
}

static nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain,
                                           const nvtxEventAttributes_t *attributes)
{
    char *wide;
    struct annotation annotation = annotation_of(attributes, &wide);
    uint64_t range = collector_start(collector, domain_of(domain), &annotation);
    g_free(wide);
    return range;
}

static void NVTX_API domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t range)
{
    (void)domain;
    collector_end(collector, range);
}

static nvtxDomainHandle_t NVTX_API domain_create(const char *name)
{
    return (nvtxDomainHandle_t)(void *)collector_domain(collector, !name ? "" : name);
}

static nvtxDomainHandle_t NVTX_API domain_create_wide(const wchar_t *name)
{
    char *narrow = from_wide(name);
    nvtxDomainHandle_t domain = domain_create(narrow);
    g_free(narrow);
    return domain;
}

static nvtxStringHandle_t NVTX_API domain_register(nvtxDomainHandle_t domain, const char *text)
{
    (void)domain;
    return (nvtxStringHandle_t)(void *)collector_string(collector, !text ? "" : text);
}

static nvtxStringHandle_t NVTX_API domain_register_wide(nvtxDomainHandle_t domain,
                                                        const wchar_t *text)
{
    char *narrow = from_wide(text);
    nvtxStringHandle_t string = domain_register(domain, narrow);
    g_free(narrow);
    return string;
}

static void NVTX_API domain_name_category(nvtxDomainHandle_t domain, uint32_t category,
                                          const char *name)
{
    collector_name_category(collector, domain_of(domain), category, !name ? "" : name);
}

static void NVTX_API domain_name_category_wide(nvtxDomainHandle_t domain, uint32_t category,
                                               const wchar_t *name)
{
    char *narrow = from_wide(name);
    domain_name_category(domain, category, narrow);
    g_free(narrow);
}

/* Functions without a domain. */

static void NVTX_API mark_attributes(const nvtxEventAttributes_t *attributes)
{
    domain_mark(NULL, attributes);
}

static void NVTX_API mark(const char *text)
{
    struct annotation annotation = text_only(text);
    collector_mark(collector, collector_default_domain(), &annotation);
}

static void NVTX_API mark_wide(const wchar_t *text)
{
    char *narrow = from_wide(text);
    mark(narrow);
    g_free(narrow);
}

static int NVTX_API push_attributes(const nvtxEventAttributes_t *attributes)
{
    return domain_push(NULL, attributes);
}

static int NVTX_API push(const char *text)
{
    struct annotation annotation = text_only(text);
    return collector_push(collector, collector_default_domain(), &annotation);
}

static int NVTX_API push_wide(const wchar_t *text)
{
    char *narrow = from_wide(text);
    int level = push(narrow);
    g_free(narrow);
    return level;
}

static int NVTX_API pop(void)
{
    return collector_pop(collector, collector_default_domain());
}

static nvtxRangeId_t NVTX_API start_attributes(const nvtxEventAttributes_t *attributes)
{
    return domain_start(NULL, attributes);
}

static nvtxRangeId_t NVTX_API start(const char *text)
{
    struct annotation annotation = text_only(text);
    return collector_start(collector, collector_default_domain(), &annotation);
}

static nvtxRangeId_t NVTX_API start_wide(const wchar_t *text)
{
    char *narrow = from_wide(text);
    nvtxRangeId_t range = start(narrow);
    g_free(narrow);
    return range;
}

static void NVTX_API end(nvtxRangeId_t range)
{
    collector_end(collector, range);
}

static void NVTX_API name_category(uint32_t category, const char *name)
{
    domain_name_category(NULL, category, name);
}

static void NVTX_API name_category_wide(uint32_t category, const wchar_t *name)
{
    domain_name_category_wide(NULL, category, name);
}

struct hook {
    unsigned id; /* index in the module's table */
    NvtxFunctionPointer function;
};

#define HOOK(id, function)                    \
    {                                         \
        (id), (NvtxFunctionPointer)(function) \
    }

static const struct hook core[] = {
    HOOK(NVTX_CBID_CORE_MarkEx, mark_attributes),
    HOOK(NVTX_CBID_CORE_MarkA, mark),
    HOOK(NVTX_CBID_CORE_MarkW, mark_wide),
    HOOK(NVTX_CBID_CORE_RangeStartEx, start_attributes),
    HOOK(NVTX_CBID_CORE_RangeStartA, start),
    HOOK(NVTX_CBID_CORE_RangeStartW, start_wide),
    HOOK(NVTX_CBID_CORE_RangeEnd, end),
    HOOK(NVTX_CBID_CORE_RangePushEx, push_attributes),
    HOOK(NVTX_CBID_CORE_RangePushA, push),
    HOOK(NVTX_CBID_CORE_RangePushW, push_wide),
    HOOK(NVTX_CBID_CORE_RangePop, pop),
    HOOK(NVTX_CBID_CORE_NameCategoryA, name_category),
    HOOK(NVTX_CBID_CORE_NameCategoryW, name_category_wide),
};

static const struct hook core2[] = {
    HOOK(NVTX_CBID_CORE2_DomainMarkEx, domain_mark),
    HOOK(NVTX_CBID_CORE2_DomainRangeStartEx, domain_start),
    HOOK(NVTX_CBID_CORE2_DomainRangeEnd, domain_end),
    HOOK(NVTX_CBID_CORE2_DomainRangePushEx, domain_push),
    HOOK(NVTX_CBID_CORE2_DomainRangePop, domain_pop),
    HOOK(NVTX_CBID_CORE2_DomainNameCategoryA, domain_name_category),
    HOOK(NVTX_CBID_CORE2_DomainNameCategoryW, domain_name_category_wide),
    HOOK(NVTX_CBID_CORE2_DomainRegisterStringA, domain_register),
    HOOK(NVTX_CBID_CORE2_DomainRegisterStringW, domain_register_wide),
    HOOK(NVTX_CBID_CORE2_DomainCreateA, domain_create),
    HOOK(NVTX_CBID_CORE2_DomainCreateW, domain_create_wide),
};

static bool install(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module,
                    const struct hook *hooks, size_t count)
{
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks->GetModuleFunctionTable(module, &table, &size))
        return false;
    for (size_t i = 0; i < count; i++)
        if (hooks[i].id < size)
            *table[hooks[i].id] = hooks[i].function;
    return true;
}

static void close_at_exit(void)
{
    collector_close(collector);
}

static void before_fork(void)
{
    collector_before_fork(collector);
}

static void in_parent(void)
{
    collector_after_fork(collector, false);
}

static void in_child(void)
{
    collector_after_fork(collector, true);
}

/* Returns whether the program is linked statically with the C library. Libraries then get a second
 * C library whose linker has not run: thread-local variables have no memory, and using them crashes
 * the program. */
static bool is_linked_statically(void)
{
    return _r_debug.r_version == 0;
}

/* Runs once per process. */
static void *set_up(void *unused)
{
    (void)unused;
    if (is_linked_statically()) {
        harmless_say("the program is linked statically, so that the collector cannot be injected "
                     "into it: it goes on untraced");
        return NULL;
    }
    const char *output = getenv(WINDOW_OUTPUT_VARIABLE);
    const char *iterations = getenv(WINDOW_ITERATIONS_VARIABLE);
    const char *launch = getenv(WINDOW_LAUNCH_VARIABLE);
    struct window window;
    gint64 launch_ns;
    if (!output || !iterations || !launch || !window_parse(iterations, &window, NULL) ||
        !g_ascii_string_to_signed(launch, 10, 0, G_MAXINT64, &launch_ns, NULL)) {
        harmless_say(WINDOW_OUTPUT_VARIABLE
                     ", " WINDOW_ITERATIONS_VARIABLE " and " WINDOW_LAUNCH_VARIABLE
                     " are not set as pstar-collect sets them: nothing is recorded");
        return NULL;
    }
    char *path = window_output(output, (uint64_t)getpid(), window_rank());
    collector = collector_new(path, window, getenv(WINDOW_RANGE_VARIABLE), launch_ns);
    g_free(path);
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(close_at_exit);
    return collector;
}

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);

static bool is_set_up(void)
{
    static GOnce once = G_ONCE_INIT;
    return g_once(&once, set_up, NULL) != NULL;
}

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    if (!is_set_up())
        return 0;
    const NvtxExportTableCallbacks *callbacks =
        (const NvtxExportTableCallbacks *)get_export_table(NVTX_ETID_CALLBACKS);
    return callbacks && callbacks->struct_size >= sizeof *callbacks &&
           install(callbacks, NVTX_CB_MODULE_CORE, core, G_N_ELEMENTS(core)) &&
           install(callbacks, NVTX_CB_MODULE_CORE2, core2, G_N_ELEMENTS(core2));
}

__attribute__((visibility("default"))) int InitializeInjection(void);

int InitializeInjection(void)
{
    if (is_set_up())
        collector_use_device(collector, close_at_exit);
    return 1;
}
