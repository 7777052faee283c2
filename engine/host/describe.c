#include "engine/host/describe.h"

#include <glib.h>
#include <string.h>
#include <unistd.h>

/* "Intel(R) Xeon(R) Processor", as the kernel names it. */
static char *processor(void)
{
    g_autofree char *text = NULL;
    if (g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL)) {
        const char *name = strstr(text, "model name");
        const char *colon = name ? strchr(name, ':') : NULL;
        if (colon)
            return g_strstrip(g_strndup(colon + 1, strcspn(colon + 1, "\n")));
    }
    return g_strdup("processor of an unknown name");
}

char *cpu_describe(uint64_t *bytes)
{
    g_autofree char *name = processor();
    *bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    return g_strdup_printf("CPU, %ld cores, %s", sysconf(_SC_NPROCESSORS_ONLN), name);
}
