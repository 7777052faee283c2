#include "planner/answers/questions.h"

#include "base/printable.h"
#include "base/size.h"

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

void question_print_plan_command(const struct question *question, uint32_t gpus, uint32_t nodes,
                                 struct run_stage together, uint64_t device_budget,
                                 uint64_t host_budget, bool as_traced, FILE *out)
{
    static const char traced[] = " --recompute traced --offload-activations traced --embedding "
                                 "traced --bytes-per-parameter traced --state-blocks traced";
    g_autofree char *trace = question_word(question->trace_path);
    g_autofree char *platform = question->platform_path ? question_word(question->platform_path)
                                                        : NULL;
    g_autofree char *link = question->link ? question_word(question->link) : NULL;
    g_autofree char *device = size_exact(device_budget);
    g_autofree char *host = host_budget == UINT64_MAX ? g_strdup("unlimited")
                                                      : size_exact(host_budget);
    bool fast = question->fast || together.fast;
    fprintf(out, "pstar-plan %s", trace);
    if (gpus)
        fprintf(out, " --gpus %u", gpus);
    if (nodes)
        fprintf(out, " --nodes %u", nodes);
    if (gpus > 1)
        fprintf(out, " --stage %u%s", together.stage, fast ? " --reduction fast" : "");
    fprintf(out, " --device-memory %s --host-memory %s%s%s%s%s%s -o plan.json\n", device, host,
            platform ? " --platform " : "", platform ? platform : "", link ? " --link " : "",
            link ? link : "", as_traced ? traced : "");
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
    return question->asked->min_memory ? question_min_memory(question, out, stopped, error)
                                       : question_sensitivity(question, out, stopped, error);
}
