/* Says which iterations are recorded, and into which file. pstar-collect passes this to the
 * injected library in the environment. */
#ifndef PSTAR_COLLECT_WINDOW_H
#define PSTAR_COLLECT_WINDOW_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define WINDOW_OUTPUT_VARIABLE     "PSTAR_COLLECT_OUTPUT"
#define WINDOW_ITERATIONS_VARIABLE "PSTAR_COLLECT_ITERATIONS"
#define WINDOW_RANGE_VARIABLE      "PSTAR_COLLECT_RANGE" /* not set if iterations are to be found */
#define WINDOW_LAUNCH_VARIABLE     "PSTAR_COLLECT_LAUNCH_NS" /* window_launch_time */

/* Iterations [first, end), counted from 0 in the order in which they begin. */
struct window {
    uint64_t first, end;
    bool whole_run; /* from the begin of the program to its end */
};

enum window_error { WINDOW_ERROR_SYNTAX };
#define WINDOW_ERROR window_error_quark()
GQuark window_error_quark(void);

/* Parses "A:B" with A < B, or "all". */
bool window_parse(const char *text, struct window *window, GError **error);

/* Returns `pattern` with %p in the file name replaced by the process id, %r by the rank and %% by
 * %. Any other % stays, and folders are not changed. Free with g_free. */
char *window_output(const char *pattern, uint64_t process, uint64_t rank);

/* Returns the rank that torchrun, MPI or Slurm has set for the process; 0 if there is none. */
uint64_t window_rank(void);

/* Returns the current time in nanoseconds of the clock that dates files. Waits until files that
 * change from now on get a later date than the result. */
int64_t window_launch_time(void);

/* Locks the folder of `path`, so that only one process of a run at a time looks for the file and
 * creates it. Returns a descriptor to close, or -1 if the folder cannot be locked. */
int window_lock_folder(const char *path);

/* Returns when the file last changed, by the same clock; -1 if it does not exist. */
int64_t window_file_changed(const char *path);

#endif
