/* Advice about a step under plain offloading that waits for every copy. */
#include "report/contents.h"
#include "tests/report/sample.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>
#include <utime.h>

static const struct advice *advice_with(const struct contents *contents, const char *part)
{
    for (guint i = 0; i < contents->advice->len; i++) {
        const struct advice *advice = g_ptr_array_index(contents->advice, i);
        if (strstr(advice->claim, part) || strstr(advice->detail, part))
            return advice;
    }
    g_error("no advice says \"%s\"", part);
}

static struct contents *contents_of(const char *const *paths, struct report_inputs **inputs)
{
    GError *error = NULL;
    *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    return contents_new(*inputs);
}

static void test_openings(void)
{
    struct sample *sample = sample_new("");
    const char *const paths[] = {sample->timeline, sample->trace, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    g_assert_cmpstr(contents->verdict, ==,
                    "A step takes 40.0 ms, and the device waits for 70 % of it, mostly for the "
                    "optimizer on the host");
    const struct advice *first = g_ptr_array_index(contents->advice, 0);
    g_assert_cmpstr(first->claim, ==,
                    "The device waits for the optimizer on the host for 20.0 ms, 50 % of the step");
    g_assert_nonnull(strstr(advice_with(contents, "Interleave")->command, "pstar-plan"));
    const struct advice *flush = advice_with(contents, "Copy gradients to the host asynchronously");
    g_assert_nonnull(strstr(flush->claim, "4.00 ms, 10 % of the step"));
    g_assert_nonnull(strstr(flush->detail, "backward (4.00 ms)"));
    const struct advice *link = advice_with(contents, "The link is mostly idle during the update");
    g_assert_cmpstr(link->plot, ==, "link");
    const struct advice *freed = advice_with(contents, "backward frees");
    g_assert_nonnull(strstr(freed->claim, "1.56 KiB")); /* four activations of 400 bytes */
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* A step that always computes gets no advice about waiting. */
static void test_busy(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *timeline =
        sample_file(sample, "busy.json",
                    "{\"otherData\": {\"iteration_seconds\": 2}, \"traceEvents\": [{\"ph\": \"M\", "
                    "\"name\": \"thread_name\", \"tid\": 0, \"args\": {\"name\": \"compute\"}},"
                    "{\"ph\": \"X\", \"tid\": 0, \"ts\": 0, \"dur\": 1980000, \"name\": \"f\", "
                    "\"args\": {\"phase\": \"forward\"}}]}");
    const char *const paths[] = {timeline, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    g_assert_cmpstr(contents->verdict, ==,
                    "A step takes 2.00 s, and the device computes nearly all of the time");
    g_assert_cmpuint(contents->advice->len, ==, 0);
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* With a plan, the advice says what it gains. With a sweep, it names the best entry. */
static void test_choices(void)
{
    struct sample *sample = sample_new("");
    const char *const paths[] = {sample->timeline, sample->trace, sample->sweep, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    const struct advice *best = advice_with(contents, "a step would take 16.0 ms");
    g_assert_nonnull(strstr(best->claim, "60 % less"));
    g_assert_cmpstr(best->plot, ==, "bars");
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

static bool says(const struct contents *contents, const char *part)
{
    for (guint i = 0; i < contents->advice->len; i++)
        if (strstr(((const struct advice *)contents->advice->pdata[i])->claim, part))
            return true;
    return false;
}

static void set_time(const char *path, time_t seconds)
{
    struct utimbuf times = {seconds, seconds};
    g_assert_cmpint(g_utime(path, &times), ==, 0);
}

/* A plan that is predicted to take 10 ms. */
static void write_timed_plan(const struct sample *sample)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    GError *error = NULL;
    plan->predicted.iteration_seconds = 0.010;
    plan_write(plan, sample->plan, &error);
    g_assert_no_error(error);
    plan_free(plan);
    trace_free(trace);
}

/* Another first loss tells a run's log apart. */
static void begin_at(const char *path, const char *loss)
{
    g_autofree char *log = NULL;
    g_assert_true(g_file_get_contents(path, &log, NULL, NULL));
    g_auto(GStrv) parts = g_strsplit(log, "\"loss\": 5.500000", 2);
    g_assert_cmpuint(g_strv_length(parts), ==, 2);
    g_autofree char *changed = g_strdup_printf("%s\"loss\": %s%s", parts[0], loss, parts[1]);
    g_assert_true(g_file_set_contents(path, changed, -1, NULL));
}

static bool loss_is_from(const struct contents *contents, const char *from)
{
    for (guint i = 0; i < contents->highlights->len; i++) {
        const struct highlight *highlight = contents->highlights->pdata[i];
        if (strcmp(highlight->question, "Loss") == 0)
            return g_str_has_prefix(highlight->detail, from);
    }
    return false;
}

/* The newest run is what the verdict and the advice are about, in any order of the files. What it
 * did already is no advice: the sample's run is that of the plan. */
static void test_newest(void)
{
    struct sample *sample = sample_new("");
    const char *const paths[] = {sample->run, sample->trace, sample->policy_run, sample->plan,
                                 NULL};
    struct report_inputs *inputs;
    write_timed_plan(sample);
    begin_at(sample->policy_run, "7.700000");
    set_time(sample->run, 1000);
    set_time(sample->policy_run, 2000);
    struct contents *contents = contents_of(paths, &inputs);
    g_assert_nonnull(strstr(contents->verdict,
                            "policy_run.jsonl takes 20.5 ms, and the device waits "
                            "for 24 % of it"));
    g_assert_true(says(contents, "With the plan a step takes 10.0 ms"));
    g_assert_true(loss_is_from(contents, "from 7.7 "));
    contents_free(contents);
    inputs_free(inputs);

    set_time(sample->run, 3000);
    contents = contents_of(paths, &inputs);
    g_assert_nonnull(strstr(contents->verdict, " of run.jsonl takes 20.5 ms"));
    g_assert_false(says(contents, "With the plan"));
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* The log of a run alone says how long a step takes and waits. */
static void test_log(void)
{
    struct sample *sample = sample_new("");
    const char *const paths[] = {sample->run, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    g_assert_cmpstr(contents->verdict, ==,
                    "A step takes 20.5 ms, and the device waits for 24 % of it");
    g_assert_true(says(contents, "The device waits for 5.00 ms, 24 % of the step"));
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* Adds a recording that computes for 10 ms, moves these bytes for 5 ms, and waits for them. */
static void add_recording(struct report_inputs *inputs, uint64_t h2d, uint64_t d2h)
{
    struct tracks *tracks = tracks_new("recorded.pstar");
    tracks->measured = tracks->known[TRACK_COMPUTE] = true;
    tracks->known[TRACK_H2D] = tracks->known[TRACK_D2H] = true;
    tracks->seconds = 0.015;
    tracks_add(tracks, TRACK_COMPUTE, 0, 0.010, "forward");
    tracks_add(tracks, TRACK_H2D, 0.010, 0.015, "H2D")->bytes = h2d;
    tracks_add(tracks, TRACK_D2H, 0, 0.001, "D2H")->bytes = d2h;
    tracks_complete(tracks);
    g_ptr_array_add(inputs->tracks, tracks);
}

/* A recording that moved what each step of the log moved says what the device waits for; one that
 * moved something else is of another run. */
static void test_recorded(void)
{
    struct sample *sample = sample_new("");
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    const char *const paths[] = {sample->run, NULL};
    for (int same = 0; same < 2; same++) {
        GError *error = NULL;
        struct report_inputs *inputs = inputs_read(paths, &error);
        g_assert_no_error(error);
        add_recording(inputs, plan->predicted.h2d_bytes + (same ? 1 : 1000),
                      plan->predicted.d2h_bytes);
        struct contents *contents = contents_new(inputs);
        g_assert_cmpint(says(contents, "waits for copies to the device for 5.00 ms"), ==, same);
        g_assert_cmpint(says(contents, "The device waits for 5.00 ms"), ==, !same);
        g_assert_false(says(contents, "in the simulation"));
        contents_free(contents);
        inputs_free(inputs);
    }
    plan_free(plan);
    trace_free(trace);
    sample_free(sample);
}

/* The sweep's steps take 16 ms, and those of the newest run 4 ms: no entry is advised. */
static void test_slower(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *text = sample_read(sample->policy_run);
    GString *log = g_string_new(text);
    g_string_replace(log, "\"iteration_seconds\": 0.0", "\"iteration_seconds\": 0.00", 0);
    g_string_replace(log, "\"policy\": \"fifo\"", "\"policy\": \"lru\"", 0);
    g_autofree char *fast = sample_file(sample, "fast.jsonl", log->str);
    const char *const paths[] = {fast, sample->sweep, sample->trace, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    g_assert_nonnull(strstr(contents->verdict, "A step takes 2.05 ms"));
    g_assert_false(says(contents, "would take"));
    g_assert_false(says(contents, "Chunks of"));
    contents_free(contents);
    inputs_free(inputs);
    g_string_free(log, TRUE);
    sample_free(sample);
}

/* Steps of two models are not compared. */
static void test_models(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *text = sample_read(sample->timeline);
    GString *timeline = g_string_new(text);
    g_string_replace(timeline, "\"model\": \"sample\"", "\"model\": \"other\"", 0);
    g_autofree char *other = sample_file(sample, "other.json", timeline->str);
    const char *const paths[] = {sample->timeline, other, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    g_assert_true(g_str_has_suffix(contents->comparison,
                                   "are steps of different models or batches, so neither is "
                                   "faster."));
    for (guint i = 0; i < contents->tables->len; i++)
        g_assert_cmpstr(((const struct text_table *)contents->tables->pdata[i])->title, !=,
                        "Side by side");
    contents_free(contents);
    inputs_free(inputs);
    g_string_free(timeline, TRUE);
    sample_free(sample);
}

/* A trace of PyTorch: the command prints settings that PyTorch's users can take. */
static void test_torch(void)
{
    struct sample *sample = sample_new("");
    struct trace *trace = sample_trace("");
    GError *error = NULL;
    g_free(trace->producer);
    trace->producer = g_strdup("PyTorch profiler");
    g_remove(sample->trace);
    trace_write(trace, sample->trace, &error);
    g_assert_no_error(error);
    const char *const paths[] = {sample->timeline, sample->trace, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    const struct advice *first = g_ptr_array_index(contents->advice, 0);
    g_assert_true(g_str_has_prefix(first->command, "pstar-plan "));
    g_assert_true(g_str_has_suffix(first->command, " -o plan.json --emit fsdp"));
    g_assert_true(says(contents, "A plan says what FSDP or DeepSpeed should keep"));
    for (guint i = 0; i < contents->advice->len; i++)
        g_assert_null(strstr(
            ((const struct advice *)g_ptr_array_index(contents->advice, i))->detail, "pstar-run"));
    for (guint i = 0; i < contents->missing->len; i++)
        g_assert_null(
            strstr(g_array_index(contents->missing, struct missing, i).reason, "pstar-run"));
    contents_free(contents);
    inputs_free(inputs);
    trace_free(trace);
    sample_free(sample);
}

static const struct highlight *highlight_of(const struct contents *contents, const char *question)
{
    for (guint i = 0; i < contents->highlights->len; i++) {
        const struct highlight *highlight = g_ptr_array_index(contents->highlights, i);
        if (!strcmp(highlight->question, question))
            return highlight;
    }
    g_error("no highlight \"%s\"", question);
}

/* Bytes are exact; the time, which is off, is said apart from them. */
static void test_exact(void)
{
    struct sample *sample = sample_new("");
    const char *const paths[] = {sample->trace, sample->plan, sample->run, NULL};
    struct report_inputs *inputs;
    write_timed_plan(sample);
    struct contents *contents = contents_of(paths, &inputs);
    const struct highlight *bytes = highlight_of(contents, "Predicted bytes, copies and peaks");
    g_assert_cmpstr(bytes->answer, ==, "exact");
    g_assert_null(strstr(bytes->detail, "time"));
    g_assert_cmpstr(highlight_of(contents, "Predicted step time")->answer, ==, "within 105 %");
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/advice/openings", test_openings);
    g_test_add_func("/report/advice/busy", test_busy);
    g_test_add_func("/report/advice/choices", test_choices);
    g_test_add_func("/report/advice/newest", test_newest);
    g_test_add_func("/report/advice/log", test_log);
    g_test_add_func("/report/advice/recorded", test_recorded);
    g_test_add_func("/report/advice/slower", test_slower);
    g_test_add_func("/report/advice/models", test_models);
    g_test_add_func("/report/advice/torch", test_torch);
    g_test_add_func("/report/advice/exact", test_exact);
    return g_test_run();
}
