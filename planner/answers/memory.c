/* Questions about memory and the link: the least memory that is nearly as fast, and what more would
 * save. Of several ranks each stage is searched that the answer may choose. */
#include "base/size.h"
#include "models/derive.h"
#include "planner/answers/budgets.h"
#include "planner/answers/questions.h"
#include "planner/answers/requests.h"
#include "sim/operator_times.h"

#include <math.h>
#include <string.h>

/* ---- the stages of several ranks ---- */

static void stage_clear(void *data)
{
    struct budget_stage *stage = data;
    trace_free(stage->trace);
    search_result_free(stage->best);
}

static const struct budget_stage *stage_at(const GArray *stages, guint index)
{
    return &g_array_index(stages, struct budget_stage, index);
}

/* Adds the stage, unless ranks cannot train so. Buckets in stage 2 are those of stage 1. */
static void add_stage(const struct question *question, GArray *stages, struct run_stage together)
{
    const struct trace *traced = question->trace;
    struct trace *trace = model_trace_of_rank(traced, traced->ranks, together,
                                              question->search->platform, NULL);
    struct run_stage made = trace ? run_stage_of(trace) : (struct run_stage){0};
    if (trace && made.stage == together.stage && !(made.stage == 2 && made.fast)) {
        const struct budget_stage stage = {.trace = trace};
        operator_times_leave_exchanges(trace, question->search->costs);
        g_array_append_val(stages, stage);
    } else {
        trace_free(trace);
    }
}

/* Lists the stages that the answer may choose: the trace's only, if one was given or if it is not
 * known what the others cost. */
static GArray *list_stages(const struct question *question)
{
    const struct platform *platform = question->search->platform;
    bool any = question->stage == RUN_ANY_STAGE && question->trace->ranks > 1 && platform &&
               platform_knows_exchanges(platform);
    bool fast = question->fast || run_stage_of(question->trace).fast;
    GArray *stages = g_array_new(FALSE, FALSE, sizeof(struct budget_stage));
    g_array_set_clear_func(stages, stage_clear);
    for (int stage = 3; any && stage >= (fast ? 0 : 2); stage--)
        add_stage(question, stages, (struct run_stage){(uint8_t)stage, fast});
    if (!stages->len) {
        const struct budget_stage traced = {.trace = trace_copy(question->trace)};
        g_array_append_val(stages, traced);
    }
    return stages;
}

/* Fails with what the stage that needs the least device memory lacks. */
static void refuse(const struct question *question, const GArray *stages, GError **error)
{
    const struct trace *least = NULL;
    uint64_t least_bytes = UINT64_MAX;
    for (guint i = 0; i < stages->len; i++) {
        const struct trace *trace = stage_at(stages, i)->trace;
        uint64_t bytes = requirement_device_bytes(trace, question->search, NULL);
        if (!least || bytes < least_bytes) {
            least = trace;
            least_bytes = bytes;
        }
    }
    search_result_free(search_plan(least, question->search, error));
    least_name_choices(least, question->search, error);
}

/* Searches the plan of each stage for the given budgets. Sets *chosen to the stage of the best one.
 * Fails if no stage has a plan. */
static bool plan_stages(const struct question *question, GArray *stages, guint *chosen,
                        bool *stopped, GError **error)
{
    const struct plan *best = NULL;
    for (guint i = 0; i < stages->len && !*stopped; i++) {
        struct budget_stage *stage = &g_array_index(stages, struct budget_stage, i);
        stage->best = search_plan(stage->trace, question->search, NULL);
        *stopped = stage->best && stage->best->stopped;
        if (stage->best && objective_prefers(OBJECTIVE_TIME, stage->best->plan, best)) {
            best = stage->best->plan;
            *chosen = i;
        }
    }
    if (*stopped)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
    else if (!best)
        refuse(question, stages, error);
    return best && !*stopped;
}

/* ---- the least memory ---- */

/* Parses "5%" or "5"; at least 0. */
static bool parse_share(const char *text, double *share, GError **error)
{
    char *end;
    double percent = g_ascii_strtod(text, &end);
    if (end != text && (!*end || !strcmp(end, "%")) && percent >= 0 && percent <= 1e6) {
        *share = percent / 100;
        return true;
    }
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "--min-memory: '%s' is no percentage", text);
    return false;
}

/* Returns the arena together with what libraries hold on the device. */
static uint64_t device_memory(const struct question *question, uint64_t arena_bytes)
{
    return arena_bytes + question->trace->library_bytes;
}

/* The plan of an answer, and how its ranks train together. */
struct least_plan {
    struct search_result *result; /* NULL if it is the stage's best plan */
    const struct budget_stage *stage;
};

static const struct plan *plan_of(const struct least_plan *least)
{
    return least->result ? least->result->plan : least->stage->best->plan;
}

static void print_plan(const struct question *question, const char *what, const struct plan *plan,
                       const struct trace *trace, double base, FILE *out)
{
    g_autofree char *device =
        size_format(device_memory(question, min_memory_taken(plan, MIN_DEVICE_MEMORY)));
    g_autofree char *host = size_format(min_memory_taken(plan, MIN_HOST_MEMORY));
    double seconds = plan->predicted.iteration_seconds;
    struct run_stage together = run_stage_of(trace);
    fprintf(out, "  %-20s %12s %12s %10.4g %+8.2f %%", what, device, host, seconds,
            100 * (seconds / base - 1));
    if (trace->ranks > 1)
        fprintf(out, "  in stage %u%s", together.stage, together.fast ? " with fast sums" : "");
    fputc('\n', out);
}

/* Finds the plan of any stage that takes the least of one memory, or the best plan if no stage
 * needs less. Returns false if a person stopped it. */
static bool find_least(const struct question *question, const GArray *stages,
                       enum min_memory_kind memory, double most_seconds, struct least_plan *least)
{
    bool stopped = false;
    for (guint i = 0; i < stages->len && !stopped; i++) {
        struct least_plan other = {.stage = stage_at(stages, i)};
        const struct search_result *best = other.stage->best;
        if (!best || best->plan->predicted.iteration_seconds > most_seconds)
            continue;
        other.result = min_memory_find(other.stage->trace, question->search, best->plan, memory,
                                       most_seconds, &stopped);
        if (!least->stage ||
            min_memory_taken(plan_of(&other), memory) < min_memory_taken(plan_of(least), memory)) {
            search_result_free(least->result);
            *least = other;
        } else {
            search_result_free(other.result);
        }
    }
    return !stopped;
}

/* Prints the plan that takes the least of one memory. Returns false if a person stopped it. */
static bool print_least(const struct question *question, const GArray *stages,
                        enum min_memory_kind memory, const struct plan *best, double most_seconds,
                        struct least_plan *least, FILE *out)
{
    bool ok = find_least(question, stages, memory, most_seconds, least);
    if (ok)
        print_plan(question,
                   memory == MIN_DEVICE_MEMORY ? "least device memory" : "least host memory",
                   plan_of(least), least->stage->trace, best->predicted.iteration_seconds, out);
    return ok;
}

/* Prints the command that searches a plan for what the found one takes. A search may refuse exactly
 * the host memory that a plan takes, because it chooses which chunks have a place there before it
 * has a plan. So the host's budget is the one that the plan was found with. */
static void print_command(const struct question *question, enum min_memory_kind memory,
                          const struct least_plan *least, FILE *out)
{
    const struct plan *plan = plan_of(least);
    uint32_t ranks = question->trace->ranks;
    bool device = memory == MIN_DEVICE_MEMORY;
    fprintf(out, "Plan for the least %s memory: ", device ? "device" : "host");
    question_print_plan_command(question, ranks > 1 ? ranks : question->gpus, question->nodes,
                                run_stage_of(least->stage->trace),
                                device_memory(question, device ? min_memory_taken(plan, memory)
                                                               : question->search->device_budget),
                                plan->host_budget, true, out);
}

static bool answer_least(const struct question *question, const GArray *stages,
                         const struct plan *best, double most_seconds, FILE *out)
{
    struct least_plan device = {0}, host = {0};
    bool ok = print_least(question, stages, MIN_DEVICE_MEMORY, best, most_seconds, &device, out) &&
              print_least(question, stages, MIN_HOST_MEMORY, best, most_seconds, &host, out);
    if (ok) {
        print_command(question, MIN_DEVICE_MEMORY, &device, out);
        print_command(question, MIN_HOST_MEMORY, &host, out);
    }
    search_result_free(device.result);
    search_result_free(host.result);
    return ok;
}

bool question_min_memory(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    double share;
    if (!parse_share(question->asked->min_memory, &share, error))
        return false;
    g_autoptr(GArray) stages = list_stages(question);
    guint chosen;
    if (!plan_stages(question, stages, &chosen, stopped, error))
        return false;
    const struct plan *best = stage_at(stages, chosen)->best->plan;
    double most = best->predicted.iteration_seconds * (1 + share);
    fprintf(out, "At most %g %% slower than the best plan:\n", 100 * share);
    fprintf(out, "  %-20s %12s %12s %10s\n", "", "device", "host", "step s");
    print_plan(question, "best plan", best, stage_at(stages, chosen)->trace,
               best->predicted.iteration_seconds, out);
    *stopped = !answer_least(question, stages, best, most, out);
    if (*stopped)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
    return !*stopped;
}

/* ---- sensitivity ---- */

static double saved(const struct sensitivity *s, uint32_t link, uint32_t memory)
{
    return 100 * (1 - s->seconds[link][memory] / s->seconds[0][0]);
}

static void print_sensitivity(const struct sensitivity *s, uint64_t device_budget, FILE *out)
{
    fprintf(out,
            "One GB more of device memory saves %.2f %% of a step, a link %g times as fast %.2f "
            "%%, both %.2f %%.\n",
            saved(s, 0, 1), sensitivity_links[1], saved(s, 1, 0), saved(s, 1, 1));
    fprintf(out, "  %-14s", "device memory");
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++) {
        g_autofree char *head = g_strdup_printf("link x %g", sensitivity_links[l]);
        fprintf(out, "  %10s step s  saved", head);
    }
    fputc('\n', out);
    for (uint32_t m = 0; m < SENSITIVITY_MEMORIES; m++) {
        g_autofree char *memory = size_format(device_budget + s->more[m]);
        fprintf(out, "  %-14s", memory);
        for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
            fprintf(out, "  %17.4g %5.1f %%", s->seconds[l][m], saved(s, l, m));
        fputc('\n', out);
    }
}

/* Entries are NULL if reading failed. */
static bool read_links(const struct question *question, struct costs **costs, GError **error)
{
    uint32_t ranks = MAX(question->trace->ranks, 1);
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++) {
        struct platform *platform;
        if (!question_read_machine(question, ranks, question->nodes, &platform, &costs[l], error))
            return false;
        platform_free(platform);
        costs_speed_up(costs[l], sensitivity_links[l]);
    }
    return true;
}

bool question_sensitivity(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    struct costs *costs[SENSITIVITY_LINKS] = {NULL};
    struct sensitivity sensitivity;
    g_autoptr(GArray) stages = list_stages(question);
    guint chosen;
    uint64_t device_budget = device_memory(question, question->search->device_budget);
    bool ok = read_links(question, costs, error) &&
              plan_stages(question, stages, &chosen, stopped, error);
    if (ok && !sensitivity_find(stage_at(stages, 0), stages->len, question->search, costs,
                                &sensitivity)) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
        ok = false;
        *stopped = true;
    }
    if (ok)
        print_sensitivity(&sensitivity, device_budget, out);
    ok = ok && sensitivity_draw(&sensitivity, device_budget, question->asked->sensitivity, error);
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
        costs_free(costs[l]);
    return ok;
}
