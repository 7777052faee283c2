#include "planner/answers/questions.h"

#include "planner/answers/budgets.h"
#include "planner/answers/requests.h"
#include "traces/printable.h"
#include "traces/size.h"

#include <math.h>
#include <string.h>

uint32_t question_count(const struct question_options *options)
{
    return !!options->model + !!options->torch + !!options->max_model + !!options->max_batch +
           !!options->min_memory + !!options->sensitivity + (options->min_gpus > 0);
}

bool question_is_about_models(const struct question_options *options)
{
    return options->model || options->max_model || options->max_batch;
}

const char *question_usage(const struct question_options *options)
{
    if (question_count(options) > 1)
        return "one question at a time";
    if (options->precision && strcmp(options->precision, "fp32") != 0 &&
        strcmp(options->precision, "bf16") != 0)
        return "--precision is fp32 or bf16";
    if (options->batch && !options->model && !options->max_model)
        return "--batch goes with --model and --max-model";
    if (options->sequence && !question_is_about_models(options))
        return "--seq goes with --model, --max-model and --max-batch";
    if (options->precision && !options->torch && !question_is_about_models(options))
        return "--precision goes with --model, --torch, --max-model and --max-batch";
    return NULL;
}

bool question_read_machine(const struct question *question, uint32_t ranks, uint32_t nodes,
                           struct platform **platform, struct costs **costs, GError **error)
{
    *platform = question->platform_path ? platform_read(question->platform_path, error) : NULL;
    if ((question->platform_path && !*platform) ||
        (*platform && (ranks > 1 || nodes) &&
         !platform_spread_ranks(*platform, ranks, nodes, error)) ||
        !(*costs = costs_new(*platform, question->link, error))) {
        g_clear_pointer(platform, platform_free);
        return false;
    }
    if (*platform && question->link)
        platform_keep_apart(*platform);
    return true;
}

/* Returns whether every shell reads the text as one word, as it stands. */
static bool is_plain_word(const char *text)
{
    const char *plain = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_-./=,+:%@";
    return *text && strspn(text, plain) == strlen(text);
}

char *question_word(const char *text)
{
    g_autofree char *quoted = is_plain_word(text) ? g_strdup(text) : g_shell_quote(text);
    return text_printable(quoted);
}

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

/* Returns the best plan for the given budgets. */
static struct search_result *reference(const struct question *question, bool *stopped,
                                       GError **error)
{
    struct search_result *result = search_plan(question->trace, question->search, error);
    if (!result || !result->stopped)
        return result;
    *stopped = true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
    search_result_free(result);
    return NULL;
}

/* Returns the arena together with what libraries hold on the device. */
static uint64_t device_memory(const struct question *question, uint64_t arena_bytes)
{
    return arena_bytes + question->trace->library_bytes;
}

static void print_plan(const struct question *question, const char *what, const struct plan *plan,
                       double base, FILE *out)
{
    g_autofree char *device =
        size_format(device_memory(question, min_memory_taken(plan, MIN_DEVICE_MEMORY)));
    g_autofree char *host = size_format(min_memory_taken(plan, MIN_HOST_MEMORY));
    double seconds = plan->predicted.iteration_seconds;
    fprintf(out, "  %-20s %12s %12s %10.4g %+8.2f %%\n", what, device, host, seconds,
            100 * (seconds / base - 1));
}

/* Prints the least budget of one memory, or that of the best plan if no smaller one suffices. */
static bool answer_least(const struct question *question, const struct plan *best,
                         enum min_memory_kind memory, double most_seconds, FILE *out)
{
    bool stopped = false;
    struct search_result *result = min_memory_find(question->trace, question->search, best, memory,
                                                   most_seconds, &stopped);
    if (!stopped)
        print_plan(question,
                   memory == MIN_DEVICE_MEMORY ? "least device memory" : "least host memory",
                   result ? result->plan : best, best->predicted.iteration_seconds, out);
    search_result_free(result);
    return !stopped;
}

static bool answer_min_memory(const struct question *question, FILE *out, bool *stopped,
                              GError **error)
{
    double share;
    struct search_result *best = NULL;
    if (!parse_share(question->asked->min_memory, &share, error) ||
        !(best = reference(question, stopped, error)))
        return false;
    double most = best->plan->predicted.iteration_seconds * (1 + share);
    fprintf(out, "At most %g %% slower than the best plan:\n", 100 * share);
    fprintf(out, "  %-20s %12s %12s %10s\n", "", "device", "host", "step s");
    print_plan(question, "best plan", best->plan, best->plan->predicted.iteration_seconds, out);
    *stopped = !answer_least(question, best->plan, MIN_DEVICE_MEMORY, most, out) ||
               !answer_least(question, best->plan, MIN_HOST_MEMORY, most, out);
    if (*stopped)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
    search_result_free(best);
    return !*stopped;
}

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

static bool answer_sensitivity(const struct question *question, FILE *out, bool *stopped,
                               GError **error)
{
    struct costs *costs[SENSITIVITY_LINKS] = {NULL};
    struct sensitivity sensitivity;
    struct search_result *best = NULL;
    uint64_t device_budget = device_memory(question, question->search->device_budget);
    bool ok = read_links(question, costs, error) && (best = reference(question, stopped, error));
    if (ok &&
        !sensitivity_find(question->trace, question->search, best->plan, costs, &sensitivity)) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
        ok = false;
        *stopped = true;
    }
    if (ok)
        print_sensitivity(&sensitivity, device_budget, out);
    ok = ok && sensitivity_draw(&sensitivity, device_budget, question->asked->sensitivity, error);
    search_result_free(best);
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
        costs_free(costs[l]);
    return ok;
}

bool question_answer(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    if (question->asked->model || question->asked->torch)
        return question_model(question, out, stopped, error);
    if (question->asked->max_model)
        return question_max_model(question, out, stopped, error);
    if (question->asked->max_batch)
        return question_max_batch(question, out, stopped, error);
    if (question->asked->min_gpus > 0)
        return question_min_gpus(question, out, stopped, error);
    bool ok = question->asked->min_memory ? answer_min_memory(question, out, stopped, error)
                                          : answer_sensitivity(question, out, stopped, error);
    if (!ok)
        least_name_choices(question->trace, question->search, error);
    return ok;
}
