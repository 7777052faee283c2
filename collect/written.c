#include "collect/written.h"

#include "collect/window.h"
#include "traces/trace_file.h"

#include <string.h>

/* Whether `name` is window_output's for some process and rank. */
static bool is_output(const char *name, const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        bool number = pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'r');
        bool percent = pattern[0] == '%' && pattern[1] == '%';
        if (number ? !g_ascii_isdigit(*name) : *name != *pattern)
            return false;
        name += number ? strspn(name, "0123456789") : 1;
        pattern += number || percent;
    }
    return *name == '\0';
}

enum written written_since(const char *output, gint64 launch_ns, char **path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(output);
    g_autofree char *pattern = g_path_get_basename(output);
    GDir *entries = g_dir_open(folder, 0, NULL);
    enum written written = WRITTEN_NOTHING;
    const char *name;
    while (entries && written != WRITTEN_PARTIAL && (name = g_dir_read_name(entries))) {
        g_autofree char *file = g_build_filename(folder, name, NULL);
        if (!is_output(name, pattern) || window_file_changed(file) <= launch_ns)
            continue;
        bool partial = true;
        bool known = trace_is_partial(file, &partial, error);
        written = known && !partial ? WRITTEN_WHOLE : WRITTEN_PARTIAL;
        if (written == WRITTEN_PARTIAL)
            *path = g_steal_pointer(&file);
    }
    g_clear_pointer(&entries, g_dir_close);
    return written;
}
