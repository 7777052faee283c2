#include "collect/written.h"

#include "collect/window.h"
#include "traces/trace_file.h"

#include <string.h>

/* Whether `name` is window_output's for some process. */
static bool is_output(const char *name, const char *pattern)
{
    g_autofree char *of_none = window_output(pattern, 0);
    size_t common = 0;
    while (name[common] == of_none[common] && name[common] != '\0')
        common++;
    g_autofree char *of_some = window_output(pattern, g_ascii_strtoull(name + common, NULL, 10));
    return strcmp(name, of_some) == 0;
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
