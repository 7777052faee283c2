#include "base/printable.h"
#include "base/size.h"
#include "models/config.h"
#include "models/synth.h"
#include "planner/answers/budgets.h"
#include "planner/answers/questions.h"
#include "planner/search/search.h"

#include <string.h>

/* ---- models that differ in size only, from the smallest to the largest ---- */

struct family_member {
    char *name; /* of the file without ".json", or for example "40 layers" */
    char *path; /* of the file; NULL if it is the base with another number of layers */
    struct model_config *config;
};

struct family {
    GPtrArray *members;        /* struct family_member, by parameters; NULL if depth varies */
    struct model_config *base; /* the model whose layers vary, or NULL */
};

/* The ways to keep activations that backward needs. */
enum largest_way {
    LARGEST_KEPT,
    LARGEST_RECOMPUTED, /* all layers are computed again */
    LARGEST_INPUTS,     /* all layers are recomputed, and their inputs may be offloaded */
    LARGEST_OFFLOADED,  /* no layer is recomputed, and all activations may be offloaded */
    LARGEST_WAYS
};

/* A search for the largest size for which there is a plan. */
struct largest_job {
    const struct search_options *options; /* of each search; without layouts */
    /* Makes the trace of size `value`, or returns NULL if there is no such size. The caller frees
     * it. */
    struct trace *(*make)(void *data, uint32_t value, enum largest_way way, uint32_t stage,
                          GError **error);
    void *data;
    uint32_t stage;        /* of several ranks that may need the least memory; 0 with one */
    uint32_t first_faster; /* this and later ones before `stage` may be faster; `stage` if none */
    uint32_t most;         /* sizes are 1 to `most` */
    bool unordered; /* a larger size may need less memory: try sizes from the largest down instead
                       of bisecting */
};

struct largest {
    uint32_t value;
    enum largest_way way; /* the faster of the first two, or else the first that has a plan */
    uint32_t stage;       /* of several ranks: the faster one */
    struct trace *trace;  /* of the value */
    struct search_result *result; /* plan of a full search */
    GError *beyond;               /* why the next larger size does not fit; may be NULL */
    bool stopped;                 /* by a person */
};

/* Deeper models would take many minutes to plan. */
enum { MOST_LAYERS = 512 };

/* Takes ownership of the name. */
static struct family_member *member_new(char *name, const char *path,
                                        const struct model_config *config)
{
    struct family_member *member = g_new(struct family_member, 1);
    member->name = name;
    member->path = g_strdup(path);
    member->config = model_config_copy(config);
    return member;
}

static void family_member_free(struct family_member *member)
{
    if (!member)
        return;
    g_free(member->name);
    g_free(member->path);
    model_config_free(member->config);
    g_free(member);
}

static void family_free(struct family *family);

static bool add_file(struct family *family, const char *path, GError **error)
{
    g_autofree char *file = g_path_get_basename(path);
    struct model_config *config = model_config_read(path, error);
    if (!config)
        return false;
    *strrchr(file, '.') = '\0';
    g_ptr_array_add(family->members, member_new(g_strdup(file), path, config));
    model_config_free(config);
    return true;
}

static int by_parameters(const void *left, const void *right)
{
    const struct family_member *a = *(struct family_member *const *)left;
    const struct family_member *b = *(struct family_member *const *)right;
    uint64_t l = model_config_parameters(a->config), r = model_config_parameters(b->config);
    return l != r ? (l > r) - (l < r) : strcmp(a->name, b->name);
}

static bool add_files(struct family *family, const char *prefix, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(prefix);
    const char *slash = strrchr(prefix, G_DIR_SEPARATOR), *begin = slash ? slash + 1 : prefix;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, error);
    const char *file;
    bool ok = dir != NULL;
    while (ok && (file = g_dir_read_name(dir)))
        if (g_str_has_prefix(file, begin) && g_str_has_suffix(file, ".json")) {
            g_autofree char *path = g_build_filename(folder, file, NULL);
            ok = add_file(family, path, error);
        }
    if (ok && !family->members->len) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s*.json: there are no such files",
                    prefix);
        ok = false;
    }
    g_ptr_array_sort(family->members, by_parameters);
    return ok;
}

/* `what` is a config.json, or a folder that holds one, whose number of layers varies. Otherwise it
 * is the beginning of the paths of several configs, such as models/configs/patrickstar. Fails with
 * MODEL_ERROR_CONFIG if there are none. */
static struct family *family_read(const char *what, GError **error)
{
    struct family *family = g_new0(struct family, 1);
    g_autofree char *inside = g_build_filename(what, "config.json", NULL);
    bool ok;
    if (g_file_test(what, G_FILE_TEST_IS_REGULAR) || g_file_test(inside, G_FILE_TEST_EXISTS)) {
        ok = (family->base = model_config_read(what, error)) != NULL;
    } else {
        family->members = g_ptr_array_new_with_free_func((GDestroyNotify)family_member_free);
        ok = add_files(family, what, error);
    }
    if (ok)
        return family;
    family_free(family);
    return NULL;
}

static void family_free(struct family *family)
{
    if (!family)
        return;
    if (family->members)
        g_ptr_array_unref(family->members);
    model_config_free(family->base);
    g_free(family);
}

/* Returns the number of members or, if depth varies, the most layers that a model may have. */
static uint32_t family_count(const struct family *family)
{
    return family->members ? family->members->len : MOST_LAYERS;
}

/* Returns a copy of member `index`, from 0. Free it with family_member_free. */
static struct family_member *family_take(const struct family *family, uint32_t index)
{
    if (family->members) {
        const struct family_member *member = g_ptr_array_index(family->members, index);
        return member_new(g_strdup(member->name), member->path, member->config);
    }
    struct model_config config = *family->base;
    config.layers = index + 1;
    g_autofree char *name = model_config_describe(&config);
    config.name = name;
    return member_new(g_strdup_printf("%u layers", config.layers), NULL, &config);
}

/* Returns UINT64_MAX if host memory lacks, or if there is no such size. */
static uint64_t needed_with(const struct largest_job *job, uint32_t value, enum largest_way way)
{
    struct trace *trace = job->make(job->data, value, way, job->stage, NULL);
    uint64_t needed = trace ? requirement_device_bytes(trace, job->options, NULL) : UINT64_MAX;
    trace_free(trace);
    return needed;
}

/* The error comes from the way that needs the least device memory. */
static bool fits(const struct largest_job *job, uint32_t value, GError **error)
{
    enum largest_way least = LARGEST_RECOMPUTED;
    uint64_t least_needed = UINT64_MAX;
    for (int way = LARGEST_KEPT; way < LARGEST_WAYS; way++) {
        uint64_t needed = needed_with(job, value, (enum largest_way)way);
        if (needed <= job->options->device_budget)
            return true;
        if (needed < least_needed) {
            least_needed = needed;
            least = (enum largest_way)way;
        }
    }
    struct trace *trace = job->make(job->data, value, least, job->stage, error);
    bool met = trace && requirement_is_met(trace, job->options, error);
    trace_free(trace);
    return met;
}

static uint32_t scan(const struct largest_job *job)
{
    uint32_t value = job->most;
    while (value && !fits(job, value, NULL))
        value--;
    return value;
}

static uint32_t bisect(const struct largest_job *job)
{
    uint32_t low = 0, high = 1; /* low fits, high does not */

    while (high <= job->most && fits(job, high, NULL)) {
        low = high;
        high = high > job->most / 2 ? job->most + 1 : 2 * high;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (middle <= job->most && fits(job, middle, NULL))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Keeps the plan if it is faster than the one before. Returns false if a person stopped it. */
static bool try(const struct largest_job *job, uint32_t value, enum largest_way way, uint32_t stage,
                struct largest *largest)
{
    struct trace *trace = job->make(job->data, value, way, stage, NULL);
    struct search_result *result = trace ? search_plan(trace, job->options, NULL) : NULL;
    bool stopped = result && result->stopped;
    if (result && !stopped &&
        objective_prefers(OBJECTIVE_TIME, result->plan,
                          largest->result ? largest->result->plan : NULL)) {
        search_result_free(largest->result);
        trace_free(largest->trace);
        largest->result = g_steal_pointer(&result);
        largest->trace = g_steal_pointer(&trace);
        largest->way = way;
        largest->stage = stage;
    }
    search_result_free(result);
    trace_free(trace);
    return !stopped;
}

/* Tries every useful way. Returns false if a person stopped it. */
static bool try_ways(const struct largest_job *job, uint32_t value, struct largest *largest)
{
    uint32_t stage = job->stage;
    bool ok = try(job, value, LARGEST_KEPT, stage, largest) &&
              try(job, value, LARGEST_RECOMPUTED, stage, largest) &&
              (largest->result || try(job, value, LARGEST_INPUTS, stage, largest)) &&
              (largest->result || try(job, value, LARGEST_OFFLOADED, stage, largest));
    largest->value = value;
    for (stage = job->first_faster; ok && largest->result && stage < job->stage; stage++)
        ok = try(job, value, LARGEST_KEPT, stage, largest) &&
             try(job, value, LARGEST_RECOMPUTED, stage, largest);
    return ok;
}

/* Finds the largest size for which a full search finds a plan. Fails with what the smallest size
 * lacks if there is none, and with PLAN_ERROR_INVALID if a person stopped it, which sets `stopped`.
 * The caller always clears *largest with largest_clear. */
static bool largest_find(const struct largest_job *job, struct largest *largest, GError **error)
{
    uint32_t value = job->unordered ? scan(job) : bisect(job);
    *largest = (struct largest){0};
    for (; value && !largest->result; value--) {
        if (!try_ways(job, value, largest)) {
            largest->stopped = true;
            g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
            return false;
        }
    }
    if (!largest->result) {
        if (fits(job, 1, error))
            g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, "no plan was found");
        return false;
    }
    if (largest->value < job->most)
        fits(job, largest->value + 1, &largest->beyond);
    return true;
}

static void largest_clear(struct largest *largest)
{
    search_result_free(largest->result);
    trace_free(largest->trace);
    g_clear_error(&largest->beyond);
    *largest = (struct largest){0};
}

static const char *precision_of(const struct question *question)
{
    return question->asked->precision ? question->asked->precision : "bf16";
}

static uint32_t sequence_of(const struct question *question, const struct model_config *config)
{
    return question->asked->sequence ? question->asked->sequence : config->positions;
}

static uint32_t ranks_of(const struct question *question)
{
    return MAX(question->gpus, 1);
}

static struct trace *synthesise(const struct question *question, const struct model_config *config,
                                uint32_t batch, enum largest_way way, uint32_t stage,
                                GError **error)
{
    const bool recompute = way == LARGEST_RECOMPUTED || way == LARGEST_INPUTS;
    g_autofree uint8_t *all = g_new(uint8_t, config->layers);
    memset(all, 1, config->layers);
    const struct model_job job = {.choices = {.batch = batch,
                                              .micro_batches = ranks_of(question),
                                              .stage = (uint8_t)stage,
                                              .fast = question->fast,
                                              .recompute = recompute ? all : NULL,
                                              .offload = way >= LARGEST_INPUTS ? all : NULL},
                                  .sequence = sequence_of(question, config),
                                  .ranks = ranks_of(question),
                                  .precision = strcmp(precision_of(question), "bf16") ? MODEL_FP32
                                                                                      : MODEL_BF16};
    return model_synthesise(config, &job, question->search->platform, error);
}

/* The question, and the models whose sizes it asks for. */
struct question_sizes {
    const struct question *question;
    const struct family *family;       /* NULL if sizes are micro-batches of `config` */
    const struct model_config *config; /* of all micro-batches */
};

static uint32_t batch_of(const struct question *question)
{
    return question->asked->batch ? question->asked->batch : 1;
}

static struct trace *make_model(void *data, uint32_t value, enum largest_way way, uint32_t stage,
                                GError **error)
{
    const struct question_sizes *sizes = data;
    struct family_member *member = family_take(sizes->family, value - 1);
    struct trace *trace = synthesise(sizes->question, member->config, batch_of(sizes->question),
                                     way, stage, error);
    family_member_free(member);
    return trace;
}

static struct trace *make_batch(void *data, uint32_t value, enum largest_way way, uint32_t stage,
                                GError **error)
{
    const struct question_sizes *sizes = data;
    return synthesise(sizes->question, sizes->config, value, way, stage, error);
}

static const struct {
    const char *in_words, *options; /* of pstar-trace synth */
} ways[LARGEST_WAYS] = {
    {"no layer recomputed", ""},
    {"all layers recomputed", " --recompute all"},
    {"all layers recomputed and offloaded", " --recompute all --offload-activations all"},
    {"all layers offloaded", " --offload-activations all"}};

/* Prints how the model is trained, and what that takes. */
static void print_plan(const struct question *question, const struct model_config *config,
                       const struct largest *largest, FILE *out)
{
    const struct search_options *budget = question->search;
    const struct plan *plan = largest->result->plan;
    const struct platform_spread *spread = &budget->platform->spread;
    uint32_t ranks = ranks_of(question);
    uint64_t tokens = (uint64_t)largest->trace->batch * largest->trace->sequence * ranks;
    g_autofree char *device = size_format(min_memory_taken(plan, MIN_DEVICE_MEMORY));
    g_autofree char *host = size_format(min_memory_taken(plan, MIN_HOST_MEMORY));
    g_autofree char *of_device = size_format(budget->device_budget);
    g_autofree char *of_host = size_format(budget->host_budget);
    text_print_line(out, "  %s, %.3g billion parameters, micro-batch %u, sequence %u, %s, %s",
                    config->name, (double)model_config_parameters(config) * 1e-9,
                    largest->trace->batch, largest->trace->sequence, precision_of(question),
                    ways[largest->way].in_words);
    if (ranks > 1)
        fprintf(out, "  on %u GPUs of %u node%s, in stage %u%s, each with a micro-batch\n", ranks,
                spread->nodes, spread->nodes == 1 ? "" : "s", largest->stage,
                run_stage_of(largest->trace).fast ? " with fast sums" : "");
    fprintf(out, "  takes %s of %s on the device, %s of %s on the host%s\n", device, of_device,
            host, of_host, ranks > 1 ? ", for each GPU" : "");
    fprintf(out, "  a step takes %.4g s, %.4g s of it stalled: %.4g tokens a second\n",
            plan->predicted.iteration_seconds, plan->predicted.stall_seconds,
            (double)tokens / plan->predicted.iteration_seconds);
}

/* Prints the commands that make the plan. */
static void print_commands(const struct question *question, const char *config,
                           const struct largest *largest, FILE *out)
{
    const struct search_options *budget = question->search;
    g_autofree char *model = question_word(config);
    g_autofree char *platform = question_word(question->platform_path);
    g_autofree char *link = question->link ? question_word(question->link) : NULL;
    g_autofree char *device = size_exact(budget->device_budget);
    g_autofree char *host = budget->host_budget == UINT64_MAX ? g_strdup("unlimited")
                                                              : size_exact(budget->host_budget);
    g_autofree char *ranks = question->gpus > 1
                                 ? g_strdup_printf(" --gpus %u --nodes %u --stage %u%s",
                                                   question->gpus, budget->platform->spread.nodes,
                                                   largest->stage,
                                                   question->fast ? " --reduction fast" : "")
                                 : g_strdup("");
    fprintf(out,
            "Its plan: pstar-trace synth --model %s --batch %u --seq %u --precision %s%s "
            "--platform %s -o largest.pstar\n"
            "          pstar-plan largest.pstar --device-memory %s --host-memory %s --platform "
            "%s%s%s%s "
            "-o plan.json\n",
            model, largest->trace->batch, largest->trace->sequence, precision_of(question),
            ways[largest->way].options, platform, device, host, platform, link ? " --link " : "",
            link ? link : "", ranks);
}

/* Ranks that share parameters need the least memory. */
static void choose_stages(const struct question *question, struct largest_job *job)
{
    if (question->gpus <= 1)
        return;
    bool any = question->stage == RUN_ANY_STAGE;
    job->stage = job->first_faster = any ? 3 : question->stage;
    if (any && platform_knows_exchanges(question->search->platform))
        job->first_faster = question->fast ? 0 : 2;
}

bool question_max_model(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    struct family *family = family_read(question->asked->max_model, error);
    struct question_sizes sizes = {question, family, NULL};
    struct largest largest;
    if (!family)
        return false;
    struct largest_job job = {.options = question->search,
                              .make = make_model,
                              .data = &sizes,
                              .most = family_count(family),
                              .unordered = family->members != NULL};
    choose_stages(question, &job);
    bool ok = largest_find(&job, &largest, error);
    *stopped = largest.stopped;
    if (ok) {
        struct family_member *member = family_take(family, largest.value - 1);
        text_print_line(out, "The largest model that fits: %s", member->name);
        print_plan(question, member->config, &largest, out);
        if (largest.beyond) {
            struct family_member *next = family_take(family, largest.value);
            text_print_line(out, "%s would not fit: %s", next->name, largest.beyond->message);
            family_member_free(next);
        } else if (!family->members) {
            fprintf(out, "Deeper models are not tried\n");
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
    struct largest_job job = {
        .options = question->search, .make = make_batch, .data = &sizes, .most = UINT32_MAX - 1};
    choose_stages(question, &job);
    bool ok = largest_find(&job, &largest, error);
    *stopped = largest.stopped;
    if (ok) {
        fprintf(out, "The largest micro-batch that fits: %u\n", largest.value);
        print_plan(question, config, &largest, out);
        if (largest.beyond)
            text_print_line(out, "%u would not fit: %s", largest.value + 1,
                            largest.beyond->message);
        print_commands(question, question->asked->max_batch, &largest, out);
    }
    largest_clear(&largest);
    model_config_free(config);
    return ok;
}
