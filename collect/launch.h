/* Runs a command under the collector. */
#ifndef PSTAR_COLLECT_LAUNCH_H
#define PSTAR_COLLECT_LAUNCH_H

#include <glib.h>

enum launch_error {
    LAUNCH_ERROR_COMMAND /* it cannot be started */
};
#define LAUNCH_ERROR launch_error_quark()
GQuark launch_error_quark(void);

/* Starts `command` (NULL-terminated, found by PATH) so that the library records `iterations`, which
 * are the ranges named `range` (NULL: found), into `output` (see collect/window.h), passes signals
 * on to it, and waits for its end. `launch_ns` is window_launch_time. The result is waitpid's
 * status, or -1 on error: also where the library is not found (library_file_find). */
int launch(char **command, const char *output, const char *iterations, const char *range,
           gint64 launch_ns, GError **error);

/* Which allocator PyTorch takes in the command. */

/* Asks PyTorch, by this process's environment, for the allocator that gets each tensor from the
 * driver (cudaMallocAsync), where a profiler sees it; what else the user has configured stays. Says
 * so on stderr. Not safe once there are threads. */
void allocator_show_tensors(void);

#endif
