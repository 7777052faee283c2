/* Runs a command under the collector. */
#ifndef PSTAR_COLLECT_LAUNCH_H
#define PSTAR_COLLECT_LAUNCH_H

#include <glib.h>

enum launch_error {
    LAUNCH_ERROR_COMMAND /* it cannot be started */
};
#define LAUNCH_ERROR launch_error_quark()
GQuark launch_error_quark(void);

/* Runs `command` (NULL-terminated, found by PATH) with the library injected, passes signals on to
 * it and waits for its end. The library records `iterations` into `output` (see collect/window.h);
 * `range` names the ranges that are iterations, or is NULL to find them. `launch_ns` is
 * window_launch_time. Returns waitpid's status, or -1 on error, also if the library is not found
 * (library_file_find). */
int launch(char **command, const char *output, const char *iterations, const char *range,
           gint64 launch_ns, GError **error);

/* Sets the environment so that PyTorch in the command allocates each tensor from the driver
 * (cudaMallocAsync), where a profiler sees it. Keeps the user's other settings. Returns a note
 * about it, to be freed with g_free. Not thread-safe. */
char *allocator_show_tensors(void);

#endif
