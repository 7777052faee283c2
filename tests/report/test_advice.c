/* Advice about a step under plain offloading that waits for every copy. */
#include "report/contents.h"
#include "tests/report/sample.h"

#include <string.h>

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
    const char *const paths[] = {sample->timeline, sample->trace, sample->sweep, sample->run, NULL};
    struct report_inputs *inputs;
    struct contents *contents = contents_of(paths, &inputs);
    const struct advice *best = advice_with(contents, "a step would take 16.0 ms");
    g_assert_nonnull(strstr(best->claim, "60 % less"));
    g_assert_cmpstr(best->plot, ==, "bars");
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
    return g_test_run();
}
