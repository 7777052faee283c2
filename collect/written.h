/* What a run left behind, as the launcher finds it. */
#ifndef PSTAR_COLLECT_WRITTEN_H
#define PSTAR_COLLECT_WRITTEN_H

#include <glib.h>

enum written { WRITTEN_NOTHING, WRITTEN_PARTIAL, WRITTEN_WHOLE };

/* Of the traces `output`, in which %p stands for any process (collect/window.h), those that changed
 * after `launch_ns`, a window_launch_time: whole only where all are. *path, to free with g_free, is
 * one that is partial or cannot be read, then with the error. */
enum written written_since(const char *output, gint64 launch_ns, char **path, GError **error);

#endif
