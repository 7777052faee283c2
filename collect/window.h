/* Which iterations are recorded, and where to: what pstar-collect hands to the library that it
 * injects, through the environment. */
#ifndef PSTAR_COLLECT_WINDOW_H
#define PSTAR_COLLECT_WINDOW_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define WINDOW_OUTPUT_VARIABLE     "PSTAR_COLLECT_OUTPUT"
#define WINDOW_ITERATIONS_VARIABLE "PSTAR_COLLECT_ITERATIONS"
#define WINDOW_RANGE_VARIABLE      "PSTAR_COLLECT_RANGE"     /* not set: found */
#define WINDOW_LAUNCH_VARIABLE     "PSTAR_COLLECT_LAUNCH_NS" /* window_launch_time */

/* Iterations [first, end), counted from 0 in the order in which the program begins them. */
struct window {
    uint64_t first, end;
    bool whole_run; /* from the begin of the program to its end, whatever its iterations */
};

enum window_error { WINDOW_ERROR_SYNTAX };
#define WINDOW_ERROR window_error_quark()
GQuark window_error_quark(void);

/* "A:B" with A < B, or "all". */
bool window_parse(const char *text, struct window *window, GError **error);

/* `pattern` with, in the file's name, %p replaced by the process's id, %r by its rank and %% by %;
 * any other % stays, and so do the folders. Free with g_free. */
char *window_output(const char *pattern, uint64_t process, uint64_t rank);

/* The process's number among those of its run, as torchrun, MPI or Slurm have set it; 0 without. */
uint64_t window_rank(void);

/* Now, in nanoseconds of the clock by which files are dated. Returns when files that change are
 * dated later than that: none that changed before is. */
int64_t window_launch_time(void);

/* So that of the processes of a run one alone looks for a file and begins it: a handle, which close
 * gives back. -1: the folder is not to be locked. */
int window_lock_folder(const char *path);

/* When the file last changed, by that clock; -1: it is not there. */
int64_t window_file_changed(const char *path);

#endif
