#include "collect/machine.h"

#include <glib.h>
#include <string.h>

/* NULL where the kernel does not say. */
static char *processor_name(void)
{
    char *text;
    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL))
        return NULL;
    char *name = NULL;
    char *line = strstr(text, "model name");
    char *colon = !line ? NULL : strchr(line, ':');
    if (colon)
        name = g_strstrip(g_strndup(colon + 1, strcspn(colon + 1, "\n")));
    g_free(text);
    return name;
}

char *machine_name(void)
{
    char *processor = processor_name();
    char *name = g_strdup_printf("%s, %u processors", !processor ? "unknown" : processor,
                                 g_get_num_processors());
    g_free(processor);
    return name;
}

char *machine_program(void)
{
    char *path = g_file_read_link("/proc/self/exe", NULL);
    char *name = !path ? g_strdup("unknown") : g_path_get_basename(path);
    char *valid = g_utf8_make_valid(name, -1);
    g_free(name);
    g_free(path);
    return valid;
}
