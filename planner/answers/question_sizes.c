#include "planner/answers/question_sizes.h"

#include "models/synth.h"
#include "planner/answers/budgets.h"
#include "planner/answers/family.h"
#include "planner/answers/largest.h"
#include "traces/size.h"

#include <string.h>

static const char *precision_of(const struct question *question)
{
    return question->asked->precision ? question->asked->precision : "bf16";
}

static uint32_t sequence_of(const struct question *question, const struct model_config *config)
{
    return question->asked->sequence ? (uint32_t)question->asked->sequence : config->positions;
}

static struct trace *synthesise(const struct question *question, const struct model_config *config,
                                uint32_t batch, enum largest_way way, GError **error)
{
    g_autofree uint8_t *all = g_new(uint8_t, config->layers);
    memset(all, 1, config->layers);
    const struct model_job job = {.batch = batch,
                                  .sequence = sequence_of(question, config),
                                  .micro_batches = 1,
                                  .precision = strcmp(precision_of(question), "bf16") ? MODEL_FP32
                                                                                      : MODEL_BF16,
                                  .recompute = way >= LARGEST_RECOMPUTED ? all : NULL,
                                  .offload = way == LARGEST_OFFLOADED ? all : NULL};
    return model_synthesise(config, &job, question->search->platform, error);
}

/* What the sizes are of. */
struct question_sizes {
    const struct question *question;
    const struct family *family;       /* NULL: micro-batches of `config` */
    const struct model_config *config; /* of all micro-batches */
};

static uint32_t batch_of(const struct question *question)
{
    return question->asked->batch ? (uint32_t)question->asked->batch : 1;
}

static struct trace *make_model(void *data, uint32_t value, enum largest_way way, GError **error)
{
    const struct question_sizes *sizes = data;
    struct family_member *member = family_take(sizes->family, value - 1);
    struct trace *trace = synthesise(sizes->question, member->config, batch_of(sizes->question),
                                     way, error);

    family_member_free(member);
    return trace;
}

static struct trace *make_batch(void *data, uint32_t value, enum largest_way way, GError **error)
{
    const struct question_sizes *sizes = data;
    return synthesise(sizes->question, sizes->config, value, way, error);
}

static const struct {
    const char *in_words, *options; /* of pstar-trace synth */
} ways[LARGEST_WAYS] = {
    {"nothing computed again", ""},
    {"all layers computed again", " --recompute all"},
    {"all layers computed again and offloaded", " --recompute all --offload-activations all"}};

/* How it is trained, and what that takes. */
static void print_plan(const struct question *question, const struct model_config *config,
                       const struct largest *largest, FILE *out)
{
    const struct search_options *budget = question->search;
    const struct plan *plan = largest->result->plan;
    uint32_t tokens = largest->trace->batch * largest->trace->sequence;
    g_autofree char *device = size_format(min_memory_taken(plan, MIN_DEVICE_MEMORY));
    g_autofree char *host = size_format(min_memory_taken(plan, MIN_HOST_MEMORY));
    g_autofree char *of_device = size_format(budget->device_budget);
    g_autofree char *of_host = size_format(budget->host_budget);

    fprintf(out, "  %s, %.3g billion parameters, micro-batch %u, sequence %u, %s, %s\n",
            config->name, (double)model_config_parameters(config) * 1e-9, largest->trace->batch,
            largest->trace->sequence, precision_of(question), ways[largest->way].in_words);
    fprintf(out, "  takes %s of %s on the device, %s of %s on the host\n", device, of_device, host,
            of_host);
    fprintf(out, "  a step takes %.4g s, %.4g s of it stalled: %.4g tokens a second\n",
            plan->predicted.iteration_seconds, plan->predicted.stall_seconds,
            tokens / plan->predicted.iteration_seconds);
}

/* The commands that make the plan. */
static void print_commands(const struct question *question, const char *config,
                           const struct largest *largest, FILE *out)
{
    const struct search_options *budget = question->search;
    g_autofree char *model = g_shell_quote(config);
    g_autofree char *platform = g_shell_quote(question->platform_path);
    g_autofree char *link = question->link ? g_shell_quote(question->link) : NULL;

    fprintf(out,
            "Its plan: pstar-trace synth --model %s --batch %u --seq %u --precision %s%s "
            "--platform %s -o largest.pstar\n"
            "          pstar-plan largest.pstar --device-memory %" G_GUINT64_FORMAT
            " --host-memory %" G_GUINT64_FORMAT " --platform %s%s%s -o plan.json\n",
            model, largest->trace->batch, largest->trace->sequence, precision_of(question),
            ways[largest->way].options, platform, budget->device_budget, budget->host_budget,
            platform, link ? " --link " : "", link ? link : "");
}

bool question_max_model(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    struct family *family = family_read(question->asked->max_model, error);
    struct question_sizes sizes = {question, family, NULL};
    struct largest largest;

    if (!family)
        return false;
    struct largest_job job = {question->search, make_model, &sizes, family_count(family),
                              family->members != NULL};
    bool ok = largest_find(&job, &largest, error);
    *stopped = largest.stopped;
    if (ok) {
        struct family_member *member = family_take(family, largest.value - 1);
        fprintf(out, "The largest model that fits: %s\n", member->name);
        print_plan(question, member->config, &largest, out);
        if (largest.beyond) {
            struct family_member *next = family_take(family, largest.value);
            fprintf(out, "%s would not fit: %s\n", next->name, largest.beyond->message);
            family_member_free(next);
        } else if (!family->members) {
            fprintf(out, "Deeper ones are not tried\n");
        }
        if (member->path)
            print_commands(question, member->path, &largest, out);
        family_member_free(member);
    }
    largest_clear(&largest);
    family_free(family);
    return ok;
}

bool question_max_batch(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    struct model_config *config = model_config_read(question->asked->max_batch, error);
    struct question_sizes sizes = {question, NULL, config};
    struct largest largest;

    if (!config)
        return false;
    struct largest_job job = {question->search, make_batch, &sizes, UINT32_MAX - 1, false};
    bool ok = largest_find(&job, &largest, error);
    *stopped = largest.stopped;
    if (ok) {
        fprintf(out, "The largest micro-batch that fits: %u\n", largest.value);
        print_plan(question, config, &largest, out);
        if (largest.beyond)
            fprintf(out, "%u would not fit: %s\n", largest.value + 1, largest.beyond->message);
        print_commands(question, question->asked->max_batch, &largest, out);
    }
    largest_clear(&largest);
    model_config_free(config);
    return ok;
}
