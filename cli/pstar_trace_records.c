/* Prints what pstar-trace shows of a file without an iteration: the records, and the devices' work.
 */
#include "base/printable.h"
#include "cli/pstar_trace.h"
#include "traces/activity/activity_summary.h"
#include "traces/activity/guess.h"
#include "traces/summary.h"
#include "traces/trace_file.h"

#include <stdio.h>

static GPtrArray *list_missing(const struct records *records, const struct activity *activity,
                               const struct activity_summary *summary, const char *path)
{
    GPtrArray *missing = g_ptr_array_new_with_free_func(g_free);
    bool partial = false;
    if (trace_is_partial(path, &partial, NULL) && partial)
        g_ptr_array_add(missing,
                        g_strdup("the end: the traced run ended within the recorded window"));
    if (!records->unknown)
        g_ptr_array_add(missing, g_strdup("the iteration: the traced program did not annotate its "
                                          "tensors and operators"));
    records_missing(records, missing);
    activity_summary_missing(summary, activity, missing);
    return missing;
}

static void print_json(const struct records *records, const struct activity *activity,
                       const struct activity_summary *summary,
                       const struct guessed_iteration *guessed, const GPtrArray *missing,
                       const char *path)
{
    g_autofree char *shown_path = g_filename_display_name(path);
    g_autoptr(GArray) iterations = summary_iterations(records);
    json_t *sentences = json_array();
    for (guint i = 0; i < missing->len; i++)
        json_array_append_new(sentences, json_string((const char *)g_ptr_array_index(missing, i)));
    pstar_trace_print_json(
        json_pack("{s:s, s:I, s:I, s:s*, s:o, s:o, s:o, s:o}", "trace", shown_path, "nvtx_events",
                  (json_int_t)records->event_count, "samples", (json_int_t)records->sample_count,
                  "iterations_by", records->iterations_by, "iterations",
                  summary_iterations_json(iterations), "guessed", guess_json(guessed), "activity",
                  activity_summary_json(summary, activity), "missing", sentences));
}

static void print(const struct records *records, const struct activity_summary *summary,
                  const struct guessed_iteration *guessed, const GPtrArray *missing,
                  const char *path)
{
    g_autoptr(GArray) iterations = summary_iterations(records);
    text_print_line(stdout, "%s", path);
    activity_summary_print(summary, stdout);
    if (guessed)
        guess_print(guessed, stdout);
    summary_print_iterations(iterations, stdout);
    if (records->iterations_by)
        text_print_line(stdout, "%-18s %s", "steps found by", records->iterations_by);
    printf("%-18s %u NVTX events, %u samples\n", "recorded", records->event_count,
           records->sample_count);
    for (guint i = 0; i < missing->len; i++)
        text_print_line(stdout, "%-18s %s", i == 0 ? "missing" : "",
                        (const char *)g_ptr_array_index(missing, i));
}

void pstar_trace_info_records(const struct records *records, const struct activity *activity,
                              const char *path, bool as_json)
{
    struct activity_summary *summary = activity_summary_new(activity, records);
    g_autoptr(GPtrArray) missing = list_missing(records, activity, summary, path);
    struct guessed_iteration *guessed = guess_iteration(activity, records);
    if (as_json)
        print_json(records, activity, summary, guessed, missing, path);
    else
        print(records, summary, guessed, missing, path);
    guess_free(guessed);
    activity_summary_free(summary);
}

bool pstar_trace_check_records(const struct records *records, const char *path, GError **error)
{
    struct activity *activity = activity_read(path, ACTIVITY_ALL, error);
    bool partial = false;
    bool ok = activity && trace_is_partial(path, &partial, error);
    if (ok)
        text_print_line(
            stdout,
            "%s: a valid%s trace without an iteration: %u NVTX events, %u kernels, %u copies", path,
            partial ? ", partial" : "", records->event_count, activity->kernel_count,
            activity->copy_count);
    activity_free(activity);
    return ok;
}
