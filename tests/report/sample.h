/* Small files of every kind that a report takes, in a folder of their own. */
#ifndef PSTAR_TESTS_REPORT_SAMPLE_H
#define PSTAR_TESTS_REPORT_SAMPLE_H

#include "chunks/plan.h"

#define SAMPLE_TENSORS     4
#define SAMPLE_CHUNK_BYTES 1024 /* one tensor in each list, exactly */

/* Everything but the activations, 400 bytes for each tensor's forward until its backward, and the
 * gradient list: three lists of 4 KiB. A quarter of that does not fit beside them. */
#define SAMPLE_DEVICE_BYTES 9000

/* Names that would break out of HTML, of a gnuplot string, of a shell and of a terminal. */
#define SAMPLE_EVIL "</script><script>alert('1')</script>&\"`id`$(id)\x1b[31m\\n{/*0 x}"

/* A step of 40 ms under a plain offload that waits for every copy: forward computes for 4 ms; in
 * backward each of the operators (2 ms) waits 1 ms for the gradient's copy to the host; then the
 * host updates for 20 ms, and only after it the parameters come back, in 4 ms of 1 KiB copies. */
#define SAMPLE_STEP_MS 40

struct sample {
    char *folder, *trace, *plan, *sweep, *timeline, *run, *policy_run; /* paths */
};

/* A trace of forward, backward and update of SAMPLE_TENSORS tensors, with `suffix` at the end of
 * its model's and its operators' names; the caller's, to trace_free. */
struct trace *sample_trace(const char *suffix);

/* The plan of policy opt for it; the caller's, to plan_free. */
struct plan *sample_plan(const struct trace *trace, uint64_t device_budget);

/* Writes all kinds of files, which share configurations: the run is the plan's, the policy run is
 * that of an entry of the sweep. */
struct sample *sample_new(const char *suffix);

/* Removes the folder with everything in it. */
void sample_free(struct sample *sample);

/* A path in the folder; with `text`, a file of it written there. Free with g_free. */
char *sample_path(const struct sample *sample, const char *name);
char *sample_file(const struct sample *sample, const char *name, const char *text);

/* A file's contents, in which nothing may be missing. Free with g_free. */
char *sample_read(const char *path);

/* Files and folders in `folder`. */
unsigned sample_count(const char *folder);

#endif
