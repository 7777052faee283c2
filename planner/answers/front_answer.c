#include "base/output_file.h"
#include "base/printable.h"
#include "base/size.h"
#include "base/terminal.h"
#include "planner/answers/front.h"
#include "platforms/shipped.h"

#include <string.h>

static const char *const resources[MOVER_QUEUES] = {
    [MOVER_COMPUTE] = "compute",        [MOVER_H2D] = "link to device",
    [MOVER_D2H] = "link to host",       [MOVER_HOST] = "host update",
    [MOVER_NETWORK] = "network",        [MOVER_NVME_READ] = "NVMe reads",
    [MOVER_NVME_WRITE] = "NVMe writes",
};

static double tokens_per_second(const struct front_step *step, double seconds)
{
    return (double)step->batch * step->sequence * step->ranks / seconds;
}

static double way_tokens(const struct front *front, const struct front_way *way)
{
    return tokens_per_second(&front->step, way->figures.iteration_seconds);
}

/* Returns the resource that works longest, leaving out `other`, which may be MOVER_QUEUES. */
static int busiest(const struct front_way *way, int other)
{
    int most = other == 0;
    for (int queue = 0; queue < MOVER_QUEUES; queue++)
        if (queue != other && way->busy[queue] > way->busy[most])
            most = queue;
    return most;
}

/* Returns what binds a way, in words. Free it with g_free. */
static char *binds(const struct front *front, const struct front_way *way)
{
    const double nearly = 0.75;
    if (!way->fits && (way->lacks_host || !way->device_bytes))
        return g_strdup("host memory");
    if (!way->fits) {
        g_autofree char *more = size_format(way->device_bytes - front->step.search->device_budget);
        return g_strdup_printf("device memory: needs %s more", more);
    }
    int first = busiest(way, MOVER_QUEUES), second = busiest(way, first);
    g_autofree char *text = g_strdup_printf("%s %.0f %%", resources[first], 100 * way->busy[first]);
    return way->busy[second] < nearly * way->busy[first]
               ? g_steal_pointer(&text)
               : g_strdup_printf("%s, %s %.0f %%", text, resources[second],
                                 100 * way->busy[second]);
}

/* ---- the screen ---- */

/* Returns a rate as people read it. Free it with g_free. */
static char *rate_text(double rate)
{
    const double large = 1000;
    return g_strdup_printf(rate < large ? "%.3g" : "%.0f", rate);
}

static void print_verdict(const struct front *front, FILE *out)
{
    const struct front_way *fastest = front_fastest(front), *best = front_best_strategy(front);
    const struct front_way *resident = front_resident(front);
    g_autofree char *rate = fastest ? rate_text(way_tokens(front, fastest)) : NULL;
    fputs(terminal_begin(out, fastest ? TERMINAL_BEST : TERMINAL_ERROR), out);
    if (!fastest)
        fputs("It does not train here.", out);
    else if (resident->fits)
        fprintf(out, "It trains here with everything resident, at up to %s tokens a second.", rate);
    else
        fprintf(out, "It trains here with part of it on the host%s, at up to %s tokens a second.",
                fastest->figures.peak_nvme_bytes ? " and in NVMe" : "", rate);
    fputs(terminal_end(out), out);
    if (best && best != resident && best != fastest) {
        g_autofree char *strategy = rate_text(way_tokens(front, best));
        fprintf(out, " The best strategy, %s, has %s.", best->name, strategy);
    }
    fputc('\n', out);
}

static void print_step(const struct front *front, FILE *out)
{
    const struct front_step *step = &front->step;
    const struct search_options *search = step->search;
    struct trace *trace = front_trace(step, false, NULL);
    uint64_t parameters = step->parameters;
    uint64_t model = trace ? trace_model_bytes(trace) : 0;
    g_autofree char *device = size_format(search->device_budget);
    g_autofree char *host = search->host_budget == UINT64_MAX ? g_strdup("unlimited")
                                                              : size_format(search->host_budget);
    g_autofree char *data = size_format(model);
    fprintf(out, "  %-8s micro-batch %u%s, sequence %u%s, %s", "step", step->batch,
            front->batch_chosen ? " (chosen)" : "", step->sequence,
            front->sequence_chosen ? " (chosen)" : "",
            step->precision == MODEL_BF16 ? "bf16" : "fp32");
    if (step->ranks > 1)
        fprintf(out, ", on each of %u GPUs", step->ranks);
    fprintf(out, "\n  %-8s %s of model data%s, %.3g bytes a parameter\n", "model", data,
            step->ranks > 1 ? " a GPU" : "", (double)model / (double)parameters);
    fprintf(out, "  %-8s %s for a step on the device, %s on the host", "memory", device, host);
    if (step->nvme_bytes) {
        g_autofree char *nvme = size_format(step->nvme_bytes);
        fprintf(out, ", %s in NVMe", nvme);
    }
    fprintf(out, "%s\n", step->ranks > 1 ? ", of each GPU" : "");
    trace_free(trace);
}

static void print_way(const struct front *front, const struct front_way *way, FILE *out)
{
    bool best = way == front_fastest(front);
    g_autofree char *what = binds(front, way);
    g_autofree char *name = g_strconcat(way->name, way->recomputes ? " (r)" : "", NULL);
    g_autofree char *device = way->device_bytes ? size_format(way->device_bytes) : g_strdup("?");
    fprintf(out, "%s%s %-19s %11s ", best ? terminal_begin(out, TERMINAL_BEST) : "",
            best ? "*" : " ", name, device);
    if (way->fits) {
        g_autofree char *host = size_format(way->host_bytes);
        g_autofree char *moved = size_format(figures_traffic(&way->figures));
        g_autofree char *rate = rate_text(way_tokens(front, way));
        g_autofree char *nvme = size_format(way->figures.peak_nvme_bytes);
        fprintf(out, "%11s ", host);
        if (front->step.nvme_bytes)
            fprintf(out, "%11s ", nvme);
        fprintf(out, "%11s %9.4g %9s", moved, way->figures.iteration_seconds, rate);
    } else {
        fprintf(out, "%*s", front->step.nvme_bytes ? 55 : 43, "does not fit");
    }
    fprintf(out, "  %s%s\n", what, best ? terminal_end(out) : "");
}

/* Says which choices the plan does not have. */
static void print_not_looked_at(const struct front_step *step, FILE *out)
{
    if (!step->given && step->batch > 1)
        fputs("  smaller micro-batches: not looked at; the second command does with "
              "--micro-batch any\n",
              out);
    if (step->given && !(step->choices & RUN_MICRO_BATCHES))
        fprintf(out,
                "  %s%ssmaller micro-batches: not looked at, because the trace's model is not one "
                "that pstar describes\n",
                step->choices & RUN_RECOMPUTE ? "" : "recomputation, ",
                step->choices & RUN_OFFLOAD ? "" : "offloaded activations, ");
}

static void print_ways(const struct front *front, FILE *out)
{
    const struct front_way *plan = front_plan(front);
    fprintf(out, "\n  %-19s %11s %11s %s%11s %9s %9s  %s\n", "", "device", "host",
            front->step.nvme_bytes ? "       NVMe " : "", "moved", "step s", "tokens/s",
            "what binds");
    for (guint i = 0; i < front->ways->len; i++)
        print_way(front, g_ptr_array_index(front->ways, i), out);
    if (front_fastest(front))
        fputs(
            front->step.choices & RUN_RECOMPUTE
                ? "  (r): all layers are recomputed, because that is faster or nothing else fits; "
                  "moved: over the link, both ways\n"
                : "  moved: over the link, both ways\n",
            out);
    if (plan->choices)
        fprintf(out, "  the plan %s\n", plan->choices);
    print_not_looked_at(&front->step, out);
    if (front->stopped)
        fprintf(out, "  the search was stopped before its end; the %s below goes on\n",
                front->step.given ? "command" : "second command");
    if (front->estimated)
        operator_times_print_band(&front->band, front->band_seconds[0], front->band_seconds[1],
                                  out);
}

static void print_remedies(const struct front *front, FILE *out)
{
    fputs(front->remedies->len ? "\nAny of these would make it fit:\n"
                               : "\nNothing that was tried makes it fit.\n",
          out);
    for (guint i = 0; i < front->remedies->len; i++) {
        const struct front_remedy *remedy = g_ptr_array_index(front->remedies, i);
        fprintf(out, "  %s%s%s\n", remedy->option, remedy->gain ? ": " : "",
                remedy->gain ? remedy->gain : "");
    }
}

/* ---- commands ---- */

/* Returns the platform as a word of a command: its name if it is shipped. */
static char *platform_word(const char *path)
{
    g_autofree char *file = g_path_get_basename(path);
    g_autofree char *name = g_strndup(file, strcspn(file, "."));
    g_autofree char *shipped = platform_shipped_path(name);
    return question_word(shipped && strcmp(shipped, path) == 0 ? name : path);
}

enum { COMMANDS = 3, BYTES = 256 };

/* Returns whether pstar-run can carry the plan out. */
static bool is_run(const struct front_step *step)
{
    return !step->given && model_config_predicts_next(step->config);
}

/* Returns whether the plan keeps anything in NVMe. */
static bool in_nvme(const struct front *front)
{
    return front_plan(front)->figures.peak_nvme_bytes > 0;
}

/* Returns whether nothing fits but strategies, and of several ranks, whose sums are fast. */
static bool needs_fast_sums(const struct front *front)
{
    return front->step.ranks > 1 && !front_plan(front)->fits;
}

/* Returns the commands that make the trace and the plan, and train with it. Ends with NULL. */
static char **commands_of(const struct front *front, const struct question *question)
{
    const struct front_step *step = &front->step;
    g_autofree char *model = step->given ? NULL : question_word(question->asked->model);
    g_autofree char *platform = platform_word(question->platform_path);
    g_autofree char *link = question->link ? question_word(question->link) : NULL;
    g_autofree char *trained = question->asked->train ? question_word(question->asked->train)
                                                      : NULL;
    g_autofree char *shape = g_strdup_printf("%s%s%s--batch %u --seq %u --precision %s",
                                             trained ? "--train " : "", trained ? trained : "",
                                             trained ? " " : "", step->batch, step->sequence,
                                             step->precision == MODEL_BF16 ? "bf16" : "fp32");
    g_autoptr(GString) machine = g_string_new(NULL);
    g_string_printf(machine, "--platform %s", platform);
    if (link)
        g_string_append_printf(machine, " --link %s", link);
    if (step->ranks > 1)
        g_string_append_printf(machine, " --gpus %u", step->ranks);
    if (question->nodes)
        g_string_append_printf(machine, " --nodes %u", question->nodes);
    if (question->fast || needs_fast_sums(front))
        g_string_append(machine, " --reduction fast");
    if (question->device_given) {
        g_autofree char *size = size_exact(step->search->device_budget);
        g_string_append_printf(machine, " --device-memory %s", size);
    }
    if (question->host_given) {
        g_autofree char *size = step->search->host_budget == UINT64_MAX
                                    ? g_strdup("unlimited")
                                    : size_exact(step->search->host_budget);
        g_string_append_printf(machine, " --host-memory %s", size);
    }
    if (step->nvme_bytes) {
        g_autofree char *size = size_exact(step->nvme_bytes);
        g_string_append_printf(machine, " --nvme-memory %s", size);
    }
    char **commands = g_new0(char *, COMMANDS + 1);
    if (step->given) {
        g_autofree char *trace = question_word(question->trace_path);
        commands[0] = g_strdup_printf("pstar-plan %s %s -o plan.json%s", trace, machine->str,
                                      step->nvme_bytes ? "" : " --emit fsdp2");
        return commands;
    }
    commands[0] = g_strdup_printf("pstar-trace synth --model %s %s --platform %s -o model.pstar",
                                  model, shape, platform);
    commands[1] = g_strdup_printf("pstar-plan model.pstar %s -o plan.json", machine->str);
    if (!is_run(step))
        return commands;
    g_autofree char *start = step->ranks > 1 ? g_strdup_printf("mpirun -n %u ", step->ranks)
                                             : g_strdup("");
    commands[2] = g_strdup_printf(
        "%spstar-run --model %s --data tokens.bin %s%s --plan plan.json%s", start, model, shape,
        platform_device_option(step->search->platform), in_nvme(front) ? " --nvme DIR" : "");
    return commands;
}

/* Prints what the user may do with the answer. */
static void print_next(const struct front *front, const struct question *question, FILE *out)
{
    bool given = front->step.given, runs = is_run(&front->step);
    g_auto(GStrv) commands = commands_of(front, question);
    fprintf(out, "\nWhat comes next: %s\n",
            given && front->step.nvme_bytes ? "the plan with its proof"
            : given ? "the plan with its proof, and its settings for another system"
            : runs  ? "a trace, the plan with its proof, and a run with it"
                    : "a trace, and the plan with its proof; pstar-run does not train such models");
    for (char **command = commands; *command; command++)
        text_print_line(out, "  %s", *command);
    if (needs_fast_sums(front) && !question->fast)
        fputs("It fits with --reduction fast alone, with which the rounding of sums depends on the "
              "number of GPUs.\n",
              out);
    if (!runs)
        return;
    fputs(front->step.config->vocabulary > BYTES
              ? "tokens.bin holds the tokens of your text. With the model's tokenizer in DIR, this "
                "makes "
                "it:\n  pstar-tokens --model DIR text.txt -o tokens.bin\n"
              : "tokens.bin stands for any text: the model's vocabulary is bytes.\n",
          out);
    if (in_nvme(front))
        fputs("The DIR of --nvme is any folder on the disk.\n", out);
}

void front_print(const struct front *front, const struct question *question, FILE *out)
{
    const double billion = 1e9, million = 1e6;
    double parameters = (double)front->step.parameters;
    bool large = parameters >= billion;
    text_print_line(out, "%s, %.3g %s parameters, on %s", front->step.name,
                    parameters / (large ? billion : million), large ? "billion" : "million",
                    front->step.search->platform->name);
    print_verdict(front, out);
    print_step(front, out);
    print_ways(front, out);
    if (!front_fastest(front)) {
        print_remedies(front, out);
        return;
    }
    print_next(front, question, out);
}

/* ---- JSON ---- */

static json_t *way_json(const struct front *front, const struct front_way *way)
{
    json_t *object = json_pack("{s:s, s:b}", "way", way->name, "fits", (int)way->fits);
    json_t *busy = json_object();
    if (way->device_bytes)
        json_object_set_new(object, way->fits ? "device_bytes" : "least_device_bytes",
                            json_integer((json_int_t)way->device_bytes));
    if (!way->fits)
        json_object_set_new(object, "lacks_host_memory", json_boolean(way->lacks_host));
    if (way->fits) {
        for (int queue = 0; queue < MOVER_QUEUES; queue++)
            json_object_set_new(busy, resources[queue], json_real(way->busy[queue]));
        json_object_set_new(object, "host_bytes", json_integer((json_int_t)way->host_bytes));
        json_object_set_new(object, "tokens_per_second", json_real(way_tokens(front, way)));
        json_object_set_new(object, "busy", json_incref(busy));
        json_object_set_new(object, "figures", figures_to_json(&way->figures));
    }
    if (way->choices)
        json_object_set_new(object, "choices", json_string(way->choices));
    else
        json_object_set_new(object, "recomputes_all_layers", json_boolean(way->recomputes));
    g_autofree char *what = binds(front, way);
    json_object_set_new(object, "binds", json_string(what));
    json_decref(busy);
    return object;
}

static json_t *remedies_json(const struct front *front)
{
    json_t *list = json_array();
    for (guint i = 0; i < front->remedies->len; i++) {
        const struct front_remedy *remedy = g_ptr_array_index(front->remedies, i);
        json_array_append_new(
            list, json_pack("{s:s, s:s*}", "option", remedy->option, "gain", remedy->gain));
    }
    return list;
}

static json_t *commands_json(const struct front *front, const struct question *question)
{
    json_t *list = json_array();
    g_auto(GStrv) commands = commands_of(front, question);
    for (char **command = commands; front_fastest(front) && *command; command++)
        json_array_append_new(list, text_to_json(*command));
    return list;
}

bool front_write_json(const struct front *front, const struct question *question, const char *path,
                      GError **error)
{
    const struct front_step *step = &front->step;
    json_t *ways = json_array();
    for (guint i = 0; i < front->ways->len; i++)
        json_array_append_new(ways, way_json(front, g_ptr_array_index(front->ways, i)));
    json_t *root =
        json_pack("{s:s, s:I, s:s, s:b, s:i, s:i, s:i, s:s, s:I, s:b, s:b, s:o, s:o, s:o}", "model",
                  step->name, "parameters", (json_int_t)step->parameters, "platform",
                  step->search->platform->name, "fits", front_fastest(front) != NULL, "batch",
                  (int)step->batch, "sequence", (int)step->sequence, "ranks", (int)step->ranks,
                  "precision", step->precision == MODEL_BF16 ? "bf16" : "fp32", "device_budget",
                  (json_int_t)step->search->device_budget, "stopped", (int)front->stopped,
                  "estimated", (int)front->estimated, "ways", ways, "would_fit",
                  remedies_json(front), "commands", commands_json(front, question));
    g_assert(root);
    if (step->search->host_budget != UINT64_MAX)
        json_object_set_new(root, "host_budget",
                            json_integer((json_int_t)step->search->host_budget));
    if (step->nvme_bytes)
        json_object_set_new(root, "nvme_budget", json_integer((json_int_t)step->nvme_bytes));
    if (front->estimated)
        json_object_set_new(root, "band_seconds",
                            json_pack("[f, f]", front->band_seconds[0], front->band_seconds[1]));
    bool ok = output_file_write_json(path, root, JSON_INDENT(2), error);
    json_decref(root);
    return ok;
}
