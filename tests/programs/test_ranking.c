/* What pstar-sim calls the best: by time where times are known, or by what is asked. The plan and
 * the timeline that it writes are the best one's, and the report marks the same one. */
#include "workshop.h"

#include <math.h>
#include <string.h>

#define SIMULATE                                                               \
    "pstar-sim run.pstar --platform " PROJECT_DIR "/platforms/a100-40gb.json " \
    "--device-memory 40% --policy opt,fifo --strategy zero-offload,interleave,resident "

/* One row of a sweep's JSON and of the plan that was written. */
struct result {
    char *maker; /* a policy's or a strategy's name */
    double seconds, traffic, peak;
};

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static struct result result_of(const json_t *row)
{
    const char *policy = json_string_value(json_object_get(row, "policy"));
    const char *strategy = json_string_value(json_object_get(row, "strategy"));
    return (struct result){g_strdup(policy ? policy : strategy), number(row, "iteration_seconds"),
                           number(row, "h2d_bytes") + number(row, "d2h_bytes"),
                           number(row, "peak_device_bytes")};
}

/* Returns the row with the least of a figure, and how many rows fit. */
static struct result best_by(const struct workshop *workshop, size_t figure, unsigned *fitting)
{
    json_t *root = workshop_read_json(workshop, "sweep.json"), *row;
    struct result best = {NULL, INFINITY, INFINITY, INFINITY};
    size_t i;
    *fitting = 0;
    json_array_foreach (json_object_get(root, "results"), i, row) {
        struct result result = result_of(row);
        bool fits = json_is_true(json_object_get(row, "fits"));
        *fitting += fits;
        if (fits && *(double *)((char *)&result + figure) < *(double *)((char *)&best + figure)) {
            g_free(best.maker);
            best = result;
        } else {
            g_free(result.maker);
        }
    }
    json_decref(root);
    return best;
}

static unsigned count_lines(const char *text, const char *with)
{
    unsigned count = 0;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++)
        count += strstr(*line, with) != NULL;
    return count;
}

static char *line_with(const char *text, const char *start)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++)
        if (g_str_has_prefix(*line, start))
            return g_strdup(*line);
    g_error("no line begins with '%s':\n%s", start, text);
}

static struct workshop *open_workshop(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                      "bf16 --platform " PROJECT_DIR "/platforms/a100-40gb.json -o run.pstar");
    return workshop;
}

static void test_objectives(void)
{
    static const struct {
        const char *option, *legend;
        size_t figure;
    } objectives[] = {
        {"", "* takes the least time", offsetof(struct result, seconds)},
        {"--objective time ", "* takes the least time", offsetof(struct result, seconds)},
        {"--objective traffic ", "* moves the fewest bytes", offsetof(struct result, traffic)},
        {"--objective memory ", "* has the lowest peak", offsetof(struct result, peak)}};
    struct workshop *workshop = open_workshop();
    double seconds[G_N_ELEMENTS(objectives)];
    for (size_t i = 0; i < G_N_ELEMENTS(objectives); i++) {
        g_autofree char *command = g_strconcat(SIMULATE "--json sweep.json --emit-plan plan.json "
                                                        "--timeline step.json ",
                                               objectives[i].option, NULL);
        struct outcome outcome = workshop_run_well(workshop, command);
        unsigned fitting;
        struct result best = best_by(workshop, objectives[i].figure, &fitting);
        g_autofree char *marked = line_with(outcome.out, "* "), *of_maker = NULL;
        g_assert_nonnull(strstr(marked, best.maker));
        g_assert_nonnull(strstr(outcome.out, objectives[i].legend));
        json_t *plan = workshop_read_json(workshop, "plan.json");
        struct result planned = result_of(json_object_get(plan, "predicted"));
        /* files have 10 digits */
        g_assert_cmpfloat_with_epsilon(*(double *)((char *)&planned + objectives[i].figure) /
                                           *(double *)((char *)&best + objectives[i].figure),
                                       1, 1e-9);
        json_decref(plan);

        struct outcome report = workshop_run_well(workshop,
                                                  "pstar-report run.pstar sweep.json --text");
        of_maker = g_strconcat(best.maker, " *", NULL);
        g_assert_cmpuint(count_lines(report.out, of_maker), ==, 1);
        seconds[i] = planned.seconds;
        outcome_clear(&report);
        outcome_clear(&outcome);
        g_free(best.maker);
        g_free(planned.maker);
    }
    g_assert_cmpfloat(seconds[0], ==, seconds[1]);
    g_assert_cmpfloat(seconds[0], <, seconds[2]); /* so that the objectives differ at all */
    workshop_free(workshop);
}

/* A size that is said to be the least fits, though the strategy keeps more on a larger device.
 * Without a best row no mark is explained. */
static void test_least(void)
{
    static const char simulate[] =
        "pstar-sim run.pstar --strategy patrickstar --chunk-size 2KiB:64KiB --device-memory ";
    struct workshop *workshop = open_workshop();
    g_autofree char *little = g_strconcat(simulate, "380KiB --json sweep.json", NULL);
    struct outcome outcome = workshop_run(workshop, little);
    g_assert_cmpint(outcome.status, ==, 3);
    g_assert_null(strstr(outcome.out, "takes the least time"));
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *row;
    size_t i;
    json_array_foreach (json_object_get(sweep, "results"), i, row) {
        json_int_t least = json_integer_value(json_object_get(row, "least_device_memory_bytes"));
        json_int_t chunk = json_integer_value(json_object_get(row, "chunk_bytes"));
        g_assert_cmpint(least, >, 0);
        workshop_must_run_format(
            workshop,
            "pstar-sim run.pstar --strategy patrickstar --chunk-size %" G_GINT64_FORMAT
            "B --device-memory %" G_GINT64_FORMAT "B",
            (gint64)chunk, (gint64)least);
    }
    json_decref(sweep);
    outcome_clear(&outcome);
    workshop_free(workshop);
}

static void test_top(void)
{
    struct workshop *workshop = open_workshop();
    struct outcome ten = workshop_run_well(workshop, SIMULATE "--json sweep.json");
    unsigned fitting;
    struct result best = best_by(workshop, offsetof(struct result, seconds), &fitting);
    g_assert_cmpuint(fitting, >, 10);
    g_assert_cmpuint(count_lines(ten.out, " MiB ") + count_lines(ten.out, " KiB "), >=, 10);
    g_autofree char *more = g_strdup_printf("  %u more fit; --top all shows them\n", fitting - 10);
    g_assert_nonnull(strstr(ten.out, more));
    g_autofree char *refused = line_with(ten.out, "  13 of 65 do not fit: 13 need more device "
                                                  "memory, at least ");
    g_assert_nonnull(refused);
    g_assert_nonnull(strstr(ten.out, "  the best of other policies and strategies: "));
    g_assert_cmpuint(count_lines(ten.out, "does not fit"), ==, 0);

    struct outcome all = workshop_run_well(workshop, SIMULATE "--top all");
    g_assert_cmpuint(count_lines(all.out, "resident "), ==, 13);
    g_assert_cmpuint(count_lines(all.out, "does not fit: needs "), ==, 13);
    g_assert_null(strstr(all.out, "more fit"));
    struct outcome two = workshop_run_well(workshop, SIMULATE "--top 2");
    /* three lines above the rows; every row of the shorter table is one of the longer */
    g_auto(GStrv) few = g_strsplit(two.out, "\n", -1);
    g_auto(GStrv) many = g_strsplit(ten.out, "\n", -1);
    for (int i = 0; i < 5; i++)
        g_assert_cmpstr(few[i], ==, many[i]);
    g_assert_nonnull(strstr(few[5], "more fit"));
    struct outcome none = workshop_run(workshop, SIMULATE "--top 0");
    g_assert_cmpint(none.status, ==, 2);
    g_free(best.maker);
    outcome_clear(&ten);
    outcome_clear(&all);
    outcome_clear(&two);
    outcome_clear(&none);
    workshop_free(workshop);
}

/* Without durations, times are those of copies alone, and nothing is ranked by them. */
static void test_untimed(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "bf16 -o run.pstar");
    struct outcome outcome = workshop_run_well(workshop, "pstar-sim run.pstar --device-memory 40%");
    g_assert_nonnull(strstr(outcome.out, "* moves the fewest bytes"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ranking/objectives", test_objectives);
    g_test_add_func("/ranking/least", test_least);
    g_test_add_func("/ranking/top", test_top);
    g_test_add_func("/ranking/untimed", test_untimed);
    return g_test_run();
}
