#include "chunks/plan_check.h"

bool plan_refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "plan: %s", reason);
    return false;
}

static bool differs(GError **error, const char *what, const char *of_plan, const char *of_run)
{
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_OTHER_RUN,
                "the plan was made for another run: %s is %s in the plan, %s here", what, of_plan,
                of_run);
    return false;
}

static bool same_text(GError **error, const char *what, const char *of_plan, const char *of_run)
{
    return !g_strcmp0(of_plan, of_run) ||
           differs(error, what, of_plan ? of_plan : "unknown", of_run ? of_run : "unknown");
}

static bool same_number(GError **error, const char *what, uint32_t of_plan, uint32_t of_run)
{
    g_autofree char *plan_text = g_strdup_printf("%u", of_plan);
    g_autofree char *run_text = g_strdup_printf("%u", of_run);
    return same_text(error, what, plan_text, run_text);
}

/* What the digest covers is said for people too, and must not tell them something else. */
static bool check_head(const struct plan *plan, const struct trace *trace, GError **error)
{
    return same_text(error, "the precision", plan->precision, trace->precision) &&
           same_number(error, "the batch", plan->batch, trace->batch) &&
           same_number(error, "the sequence", plan->sequence, trace->sequence) &&
           same_number(error, "the number of micro-batches", plan->micro_batches,
                       trace->micro_batches);
}

static bool check_run(const struct plan *plan, const struct trace *trace, GError **error)
{
    g_autofree char *digest = trace_digest(trace);
    if (!g_strcmp0(plan->digest, digest))
        return check_head(plan, trace, error);
    return same_text(error, "the model", plan->model, trace->model) &&
           check_head(plan, trace, error) &&
           same_text(error,
                     "the structure (recomputation, what runs on the host, bytes a parameter)",
                     plan->digest, digest);
}

static bool check_choices(const struct plan *plan, const struct trace *trace, GError **error)
{
    if (!plan->choices)
        return true;
    struct run_choices *choices = run_choices_of(trace);
    bool same = run_choices_equal(plan->choices, choices);
    run_choices_free(choices);
    return same || plan_refuse(error, "choices: not what the run recomputes and runs on the host");
}

bool plan_check(const struct plan *plan, const struct trace *trace, GError **error)
{
    return check_run(plan, trace, error) && check_choices(plan, trace, error) &&
           plan_check_layout(plan, trace, error) && plan_check_schedule(plan, trace, error);
}
