/* Small files of every kind that a report takes, in a folder of their own. */
#ifndef PSTAR_TESTS_REPORT_SAMPLE_H
#define PSTAR_TESTS_REPORT_SAMPLE_H

#include "chunks/plan.h"

#define SAMPLE_TENSORS     4
#define SAMPLE_CHUNK_BYTES 1024 /* exactly one tensor in each list */

/* Everything but the activations and the gradient list is three lists of 4 KiB. Activations take
 * 400 bytes for each tensor, from its forward to its backward. A quarter of the lists does not fit
 * beside them. */
#define SAMPLE_DEVICE_BYTES 9000

/* With this budget host memory changes over the step. */
#define SAMPLE_LITTLE_BYTES 6500

/* A name that would break out of HTML, a gnuplot string, a shell and a terminal. */
#define SAMPLE_EVIL "</script><script>alert('1')</script>&\"`id`$(id)\x1b[31m\\n{/*0 x}"

/* A step of 40 ms under plain offloading that waits for every copy. Forward computes for 4 ms. Each
 * operator of backward computes for 2 ms and waits 1 ms for its gradient's copy to the host. The
 * host then updates for 20 ms. Only then the parameters return, in copies of 1 KiB that take 4 ms.
 */
#define SAMPLE_STEP_MS 40

struct sample {
    char *folder, *trace, *plan, *sweep, *timeline, *run, *policy_run; /* paths */
};

/* Returns a trace of forward, backward and update of SAMPLE_TENSORS tensors. `suffix` ends the
 * names of its model and its operators. Free with trace_free. */
struct trace *sample_trace(const char *suffix);

/* Returns its plan by policy opt. Free with plan_free. */
struct plan *sample_plan(const struct trace *trace, uint64_t device_budget);

/* Writes all kinds of files with common configurations: the run is that of the plan, and the policy
 * run is that of an entry of the sweep. */
struct sample *sample_new(const char *suffix);

/* Removes the folder and everything in it. */
void sample_free(struct sample *sample);

/* Return a path in the folder; the second also writes `text` there. Free with g_free. */
char *sample_path(const struct sample *sample, const char *name);
char *sample_file(const struct sample *sample, const char *name, const char *text);

/* Returns the contents of a file that must exist. Free with g_free. */
char *sample_read(const char *path);

/* Returns the number of files and folders in `folder`. */
unsigned sample_count(const char *folder);

#endif
