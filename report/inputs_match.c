/* Refuses plans and logs of another model than that of the other files. */
#include "report/inputs.h"
#include "report/report.h"

/* What a file says of the step that it is about. */
struct step_of {
    const char *path;
    const char *model, *precision; /* NULL: unknown */
    uint32_t batch, sequence;      /* 0: unknown */
};

static struct step_of step_of_trace(const struct input_trace *input)
{
    const struct trace *trace = input->trace;
    return (struct step_of){input->path, trace->model, trace->precision, trace->batch,
                            trace->sequence};
}

static struct step_of step_of_plan(const struct input_plan *input)
{
    const struct plan *plan = input->plan;
    return (struct step_of){input->path, plan->model, plan->precision, plan->batch, plan->sequence};
}

static bool texts_differ(const char *a, const char *b)
{
    return a && b && !g_str_equal(a, b);
}

static bool numbers_differ(uint32_t a, uint32_t b)
{
    return a && b && a != b;
}

/* Returns what both say differently, or NULL. If a file names no model, nothing else is compared.
 * Free with g_free. */
static char *difference(const struct step_of *a, const struct step_of *b)
{
    static const char form[] = "the %s is %s in the one and %s in the other";
    if (!a->model || !b->model)
        return NULL;
    if (texts_differ(a->model, b->model))
        return g_strdup_printf(form, "model", a->model, b->model);
    if (texts_differ(a->precision, b->precision))
        return g_strdup_printf(form, "precision", a->precision, b->precision);
    bool batches = numbers_differ(a->batch, b->batch);
    if (!batches && !numbers_differ(a->sequence, b->sequence))
        return NULL;
    return g_strdup_printf("the %s is %u in the one and %u in the other",
                           batches ? "batch" : "sequence", batches ? a->batch : a->sequence,
                           batches ? b->batch : b->sequence);
}

/* Returns false if there are others, and `one` differs from all of them. */
static bool matches_any(const struct step_of *one, const GArray *others, GError **error)
{
    g_autofree char *first = NULL;
    for (guint i = 0; i < others->len; i++) {
        g_autofree char *differs = difference(one, &g_array_index(others, struct step_of, i));
        if (!differs)
            return true;
        if (!first)
            first = g_steal_pointer(&differs);
    }
    if (first)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                    "%s and %s are not of the same step: %s", one->path,
                    g_array_index(others, struct step_of, 0).path, first);
    return !first;
}

/* Appends the steps of traces and timelines. */
static void append_steps(GArray *steps, const struct report_inputs *inputs)
{
    for (guint t = 0; t < inputs->traces->len; t++) {
        struct step_of step = step_of_trace(g_ptr_array_index(inputs->traces, t));
        g_array_append_val(steps, step);
    }
    for (guint t = 0; t < inputs->tracks->len; t++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, t);
        struct step_of step = {.path = tracks->origin, .model = tracks->model};
        g_array_append_val(steps, step);
    }
}

bool inputs_match(const struct report_inputs *inputs, GError **error)
{
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(struct step_of));
    bool ok = true;
    append_steps(steps, inputs);
    for (guint p = 0; ok && p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        const struct step_of plan = step_of_plan(input);
        ok = input->trace || matches_any(&plan, steps, error);
    }
    for (guint p = 0; ok && p < inputs->plans->len; p++) {
        struct step_of plan = step_of_plan(g_ptr_array_index(inputs->plans, p));
        g_array_append_val(steps, plan);
    }
    for (guint r = 0; ok && r < inputs->runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(inputs->runs, r);
        const struct step_of step = {.path = run->origin, .model = run->model};
        ok = matches_any(&step, steps, error);
    }
    return ok;
}
