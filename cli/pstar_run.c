/* pstar-run: trains a language model by a plan. */
#include "base/size.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "engine/devices.h"
#include "engine/probe/probe.h"
#include "engine/ranks.h"
#include "engine/train/together.h"
#include "engine/train/trainer.h"
#include "platforms/platform.h"

#include <signal.h>
#include <stdio.h>

struct train_arguments {
    struct run_options options;
    char *device, *chunk_size, *link; /* parsed into the options */
    char *output, *platform;
    bool probe;
};

/* ---- what is shown meanwhile ---- */

struct watch {
    const struct console *console;
    const struct trainer_end *run;
    struct progress *progress;
    int signal; /* that has come; kept after the end */
};

static void begin_steps(void *data)
{
    struct watch *watch = data;
    watch->progress = progress_begin(watch->console, "steps", true);
}

/* A rank that another one's signal has stopped has saved, and must not be ended by its own, which
 * may come late: srun sends it from host to host. */
static void ignore_late_signals(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static void end_steps(void *data)
{
    struct watch *watch = data;
    if (watch->progress)
        watch->signal = progress_signal(watch->progress);
    if (watch->run->interrupted && !watch->signal)
        ignore_late_signals();
    g_clear_pointer(&watch->progress, progress_end);
}

static bool is_stopped(void *data)
{
    const struct watch *watch = data;
    return progress_signal(watch->progress) != 0;
}

static void warn(void *data, const char *message)
{
    const struct watch *watch = data;
    progress_clear(watch->progress);
    console_warn(watch->console, "%s", message);
}

static void show_training(void *data, const struct trainer_progress *at)
{
    const struct watch *watch = data;
    g_autofree char *share = at->peak_share > 0
                                 ? g_strdup_printf(", %.0f %% of peak", 100 * at->peak_share)
                                 : g_strdup("");
    g_autofree char *work =
        at->evaluations ? g_strdup_printf("evaluating %u of %u", at->evaluated, at->evaluations)
                        : g_strdup_printf("%.0f tokens/s%s", at->tokens_per_second, share);
    g_autofree char *detail = g_strdup_printf("loss %.4f, %s", at->loss, work);
    progress_show(watch->progress, at->step, at->steps, detail, at->seconds_left);
}

/* Returns the exit status of a run that a signal may have stopped: the shell's for the signal, but
 * 0 if SIGTERM, by which schedulers stop what goes on later, has cost nothing. */
static int say_how_it_ended(const struct run_options *options, const struct trainer_end *end,
                            const struct watch *watch)
{
    int signal = watch->signal ? watch->signal : SIGTERM; /* another rank's */
    int status = signal == SIGTERM && end->saved ? STATUS_DONE : STATUS_SIGNALLED + signal;
    if (!end->interrupted)
        return STATUS_DONE;
    if (options->ranks && options->ranks->rank > 0)
        return status;
    g_autofree char *rest = end->saved ? g_strdup_printf("; --resume %s goes on", options->save)
                            : end->step > end->first ? g_strdup("; nothing was saved")
                                                     : g_strdup("");
    console_warn(watch->console,
                 "interrupted at %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " steps%s", end->step,
                 end->steps, rest);
    return status;
}

static void show_measurement(void *data, const struct probe_step *step)
{
    progress_show(data, step->done, step->total, step->subject, step->seconds_left);
}

/* ---- what is asked ---- */

/* Takes from the platform how the disk is used best. */
static bool read_disk(struct train_arguments *a, GError **error)
{
    struct run_options *o = &a->options;
    struct platform_disk_way way;
    if (a->probe)
        return options_refuse(error, "--platform %s: not with --probe, which writes such a file",
                              a->platform);
    if (!o->nvme && o->nvme_budget == RUN_UNLIMITED)
        return options_refuse(error, "--platform %s: is for the disk of --nvme, so far",
                              a->platform);
    struct platform *platform = platform_read(a->platform, error);
    if (!platform)
        return false;
    bool known = platform_disk_best(&platform->disk, &way);
    platform_free(platform);
    if (!known)
        return options_refuse(error,
                              "--platform %s: says nothing of a disk (nvme), which --probe "
                              "--nvme measures",
                              a->platform);
    o->nvme_block_bytes = way.block_bytes;
    o->nvme_depth = way.depth;
    return true;
}

/* Parses the texts that need more than the option's own row. */
static bool read_texts(struct train_arguments *a, GError **error)
{
    struct run_options *o = &a->options;
    g_autoptr(GError) why = NULL;
    if (a->device && !(o->device = devices_find(a->device, &why)))
        return options_refuse(error, "--device %s: %s", a->device, why->message);
    o->sized = a->chunk_size != NULL;
    if (a->chunk_size && !chunk_sizes_parse(a->chunk_size, &o->chunk_sizes, error)) {
        g_prefix_error(error, "--chunk-size %s: ", a->chunk_size);
        return false;
    }
    return (!a->link || link_parse(a->link, &o->h2d_rate, &o->d2h_rate, error)) &&
           (!a->platform || read_disk(a, error));
}

static bool is_one_work(const struct train_arguments *a, GError **error)
{
    return !a->probe || !a->options.dry_run ||
           options_refuse(error, "--dry-run and --probe exclude each other: --probe measures");
}

static int status_number(const GError *error)
{
    return (int)exit_status_of(error);
}

/* Reports an error and clears it. A launcher ends all ranks when one ends with another status than
 * 0, so this must be done before the others end. */
static int report(const struct ranks *ranks, const struct console *console, GError **error)
{
    int status = status_number(*error);
    if (ranks->rank > 0)
        g_prefix_error(error, "rank %u on %s: ", ranks->rank, ranks->hosts[ranks->rank]);
    console_error(console, (*error)->message);
    g_clear_error(error);
    fflush(stdout);
    return status;
}

/* A batch script that forgets srun or mpirun trains all the same, but on one task of its job. */
static void warn_of_tasks(const struct run_options *options, const struct console *console)
{
    uint32_t tasks = ranks_left_out();
    if (tasks && !options->dry_run)
        console_warn(console,
                     "Slurm has %u tasks for this job, and pstar-run trains in one of them: srun "
                     "--mpi=pmix or mpirun starts it in all",
                     tasks);
}

/* With several ranks, one of them says how the run ended, and the others end with its status. */
static int train(struct run_options *options, const struct console *console, GError **error)
{
    struct trainer_end end = {0};
    struct watch watch = {.console = console, .run = &end};
    const struct trainer_watch watched = {.begin = begin_steps,
                                          .show = show_training,
                                          .is_stopped = is_stopped,
                                          .warn = warn,
                                          .end = end_steps,
                                          .status_of = status_number,
                                          .data = &watch};
    int status = STATUS_DONE;
    options->version = PSTAR_VERSION;
    warn_of_tasks(options, console);
    if (together_begin(options, status_number, &end.elsewhere, error) &&
        trainer_run(options, &watched, &end, error))
        status = say_how_it_ended(options, &end, &watch);
    if (end.elsewhere)
        status = end.elsewhere;
    else if (options->ranks && *error)
        status = report(options->ranks, console, error);
    together_end(options);
    return status;
}

/* All ranks measure, and the first writes what it found. */
static int probe_as_rank(const struct train_arguments *a, struct ranks *ranks,
                         const struct console *console, GError **error)
{
    bool is_first = !ranks || ranks->rank == 0;
    struct progress *progress = is_first ? progress_begin(console, "measurements", false) : NULL;
    const struct probe_request request = {.device = a->options.device,
                                          .path = a->output ? a->output : "machine.json",
                                          .nvme = a->options.nvme,
                                          .ranks = ranks,
                                          .status_of = status_number,
                                          .show = is_first ? show_measurement : NULL,
                                          .data = progress};
    int elsewhere;
    probe_run(&request, &elsewhere, error);
    if (progress)
        progress_end(progress);
    return ranks && *error ? report(ranks, console, error) : elsewhere;
}

static int probe(const struct train_arguments *a, const struct console *console, GError **error)
{
    struct ranks *ranks;
    int status;
    if (!ranks_open(&ranks, status_number, &status, error))
        return status;
    if (ranks)
        ranks_share_cores(ranks);
    status = probe_as_rank(a, ranks, console, error);
    ranks_close(ranks);
    return status;
}

/* Of several ranks with a wrong command line one says so, as with any other error, and those whose
 * command line is right learn that they wait in vain. */
static int refuse(void *data, const struct console *console, GError **error)
{
    (void)data;
    struct ranks *ranks;
    int elsewhere;
    g_autoptr(GError) alone = NULL; /* why the ranks cannot meet: less than what is wrong anyway */
    if (!ranks_open(&ranks, status_number, &elsewhere, &alone) && elsewhere) {
        g_clear_error(error);
        return elsewhere;
    }
    if (!ranks)
        return STATUS_BAD_INPUT;
    ranks_share_cores(ranks);
    ranks_agree(ranks, NULL, status_number, &elsewhere, error);
    int status = elsewhere ? elsewhere : report(ranks, console, error);
    ranks_close(ranks);
    return status;
}

static int run(void *data, const struct console *console, GError **error)
{
    struct train_arguments *a = data;
    if (!read_texts(a, error) || !is_one_work(a, error))
        return refuse(data, console, error);
    return a->probe ? probe(a, console, error) : train(&a->options, console, error);
}

int main(int argc, char **argv)
{
    struct train_arguments a = {.options = run_options_default()};
    struct run_options *o = &a.options;
    const struct option options[] = {
        {.shared = OPTION_MODEL,
         .file = &o->model,
         .help = "weights are read from model.safetensors beside it, if that is there"},
        {.name = "data",
         .file = &o->data,
         .help =
             "Tokens to train on: a file of pstar-tokens, .npy, Megatron's .idx; or a text for a "
             "model of bytes. A mask beside it, FILE.mask, says what counts in the loss",
         .value = "FILE"},
        {.name = "tokens",
         .choice = &o->tokens,
         .help = "How to read --data and --eval; default: auto, as the file says. bytes takes any "
                 "text, uint16 and uint32 take bare numbers",
         .value = "auto|bytes|uint16|uint32"},
        {.name = "data-order",
         .choice = &o->data_order,
         .help = "Order of the sequences; default: random",
         .value = "random|sequential"},
        {.name = "held-out",
         .real = &o->held_out,
         .help = "Share at the end of the data that is only evaluated; default: 0",
         .value = "X",
         .below = 1},
        {.shared = OPTION_TRAIN, .text = &o->train, .help = "or the resumed run's"},
        {.name = "lora-alpha",
         .real = &o->lora_alpha,
         .help = "Adapters' products count X / RANK; default: twice the rank",
         .value = "X",
         .least = 0},
        {.name = "adapters",
         .file = &o->adapters,
         .help = "Begin with the adapters of a folder, as PEFT has them; default: new ones",
         .value = "DIR"},
        {.name = "merge",
         .file = &o->merge,
         .use = OPTION_WRITES_FOLDER,
         .help = "At the end, write the model with its adapters merged to an empty folder",
         .value = "DIR"},
        {.name = "plan",
         .file = &o->plan,
         .help = "Train with this plan; with --stages, %s in the name stands for the stage's "
                 "number, since each has a plan",
         .value = "PLAN"},
        {.shared = OPTION_EMIT_PLAN, .file = &o->emit_plan, .use = OPTION_WRITES},
        {.name = "device",
         .text = &a.device,
         .help = "Device to train on; default: cpu",
         .value = "cpu|cuda"},
        {.shared = OPTION_DEVICE_MEMORY,
         .size = &o->device_budget,
         .help = "default: what holds everything"},
        {.shared = OPTION_HOST_MEMORY, .size = &o->host_budget, .help = "default: unlimited"},
        {.name = "nvme",
         .file = &o->nvme,
         .use = OPTION_USES,
         .help = "Folder on a disk for a file with the chunks that are at home in NVMe, one file a "
                 "rank; with --probe, the disk to measure",
         .value = "DIR"},
        {.shared = OPTION_NVME_MEMORY,
         .size = &o->nvme_budget,
         .help = "without --host-memory all optimizer states that only the host uses live there; "
                 "the ranks of a host share it, as they do --host-memory"},
        {.shared = OPTION_PLATFORM,
         .file = &a.platform,
         .help = "blocks and depth of the file of --nvme are its best; default: the plan's, or 1 "
                 "MiB and 16"},
        {.shared = OPTION_CHUNK_SIZE,
         .text = &a.chunk_size,
         .help = "default: chosen for the model"},
        {.shared = OPTION_LAYOUT, .file = &o->layout},
        {.shared = OPTION_POLICY, .text = &o->policy, .help = "default: opt"},
        {.shared = OPTION_LOOK_AHEAD, .count32 = &o->look_ahead},
        {.shared = OPTION_LINK,
         .text = &a.link,
         .help = "the CPU device's copies then take as long as over such a link"},
        /* OpenMP ends the program if it gets no more threads. */
        {.shared = OPTION_THREADS, .count32 = &o->threads, .least = 1, .most = 1024},
        {.name = "steps",
         .count = &o->steps,
         .help = "Steps of training, including those before --resume; default: 100, or the resumed "
                 "run's",
         .value = "N",
         .least = 1},
        {.shared = OPTION_BATCH,
         .count32 = &o->batch,
         .help = "default: the plan's, or 4",
         .least = 1},
        {.shared = OPTION_SEQUENCE,
         .count32 = &o->sequence,
         .help = "default: the plan's, or 256, or the most that the model takes",
         .least = 1},
        {.shared = OPTION_MICRO_BATCHES,
         .count32 = &o->micro_batches,
         .help = "default: 1, or the plan's; their gradients are summed. Several ranks (mpirun, "
                 "srun) share them",
         .least = 1},
        {.shared = OPTION_STAGE, .count32 = &o->stage, .help = "default: 2", .most = 3},
        {.shared = OPTION_REDUCTION, .choice = &o->reduction, .help = "default: exact"},
        {.shared = OPTION_STAGES,
         .count32 = &o->stages,
         .help = "each has as many of the processes that mpirun or srun starts",
         .least = 1},
        {.shared = OPTION_STAGE_LAYERS, .text = &o->stage_layers},
        {.shared = OPTION_SCHEDULE,
         .choice = &o->schedule,
         .help = "2bw goes with --delay 1; default: 1f1b",
         .value = "1f1b|gpipe|2bw|interleaved|zb-h1"},
        {.shared = OPTION_STAGE_PARTS,
         .count32 = &o->stage_parts,
         .help = "default: 2",
         .least = 2},
        {.name = "delay",
         .count32 = &o->delay,
         .help = "1: a step's gradients are those of the weights before the last update, as in a "
                 "pipeline that never drains; default: 0",
         .value = "0|1",
         .most = 1},
        {.shared = OPTION_PRECISION, .choice = &o->precision, .help = "default: fp32"},
        {.shared = OPTION_BYTES_PER_PARAMETER,
         .count32 = &o->bytes_per_parameter,
         .help = "or the plan's; 12 needs a second backward unless --clip is 0",
         .least = 1},
        {.shared = OPTION_STATE_BLOCK, .text = &o->state_block, .help = "with --plan, the plan's"},
        {.shared = OPTION_RECOMPUTE,
         .text = &o->recompute,
         .help = "default: none; with --plan, the plan's"},
        {.shared = OPTION_OFFLOAD_ACTIVATIONS,
         .text = &o->offload,
         .help = "default: none; with --plan, the plan's"},
        {.shared = OPTION_HOST_EMBEDDING, .flag = &o->host_embedding},
        {.shared = OPTION_HOST_UPDATE, .flag = &o->host_update},
        {.name = "lr",
         .real = &o->learning_rate,
         .help = "Learning rate; default: 0.0006",
         .value = "X",
         .least = 1e-30},
        {.name = "min-lr",
         .real = &o->least_learning_rate,
         .help = "Learning rate at the end of the schedule; default: a tenth of --lr",
         .value = "X"},
        {.name = "warmup-steps",
         .count = &o->warm_up_steps,
         .help = "Steps until the full learning rate; default: 10",
         .value = "N"},
        {.name = "schedule-steps",
         .count = &o->schedule_steps,
         .help = "Steps until the least learning rate; default: --steps",
         .value = "N",
         .least = 1},
        {.name = "weight-decay",
         .real = &o->weight_decay,
         .help = "Decoupled weight decay of every tensor; default: 0.1",
         .value = "X"},
        {.name = "beta1",
         .real = &o->beta1,
         .help = "AdamW's beta1; default: 0.9",
         .value = "X",
         .below = 1},
        {.name = "beta2",
         .real = &o->beta2,
         .help = "AdamW's beta2; default: 0.95",
         .value = "X",
         .below = 1},
        {.name = "epsilon",
         .real = &o->epsilon,
         .help = "AdamW's epsilon; default: 1e-8",
         .value = "X"},
        {.name = "clip",
         .real = &o->clip,
         .help = "Greatest norm of the gradient, or 0 for no limit; default: 1",
         .value = "X"},
        {.shared = OPTION_SEED,
         .count = &o->seed,
         .help = "weights, order of the data, dropout; default: 0"},
        {.name = "log",
         .file = &o->log,
         .use = OPTION_WRITES_LINES,
         .help = "Write one JSON object per step; with --resume, behind those that the file has of "
                 "the steps before",
         .value = "FILE.jsonl"},
        {.name = "eval",
         .file = &o->eval,
         .help = "Tokens or text to evaluate on",
         .value = "FILE"},
        {.name = "eval-every",
         .count = &o->eval_every,
         .help = "Steps between evaluations; default: 0, at the end only",
         .value = "N"},
        {.name = "sample",
         .count32 = &o->sample,
         .use = OPTION_PRINTS,
         .help = "Number of tokens to write after training; as text if tokens are bytes, or if the "
                 "model's folder has a tokenizer that pstar-tokens reads",
         .value = "N"},
        {.name = "prompt",
         .text = &o->prompt,
         .any_bytes = true,
         .help =
             "What --sample continues; default: the beginning of the data. A text if tokens are "
             "bytes, or if the model's folder has a tokenizer that pstar-tokens reads, but "
             "numbers, such "
             "as 15496,11, are tokens unless these are bytes",
         .value = "TEXT"},
        {.name = "save",
         .file = &o->save,
         .use = OPTION_SAVES,
         .help =
             "Write checkpoints into a folder: one at the end, or after SIGINT, SIGTERM or SIGHUP",
         .value = "DIR"},
        {.name = "save-every",
         .count = &o->save_every,
         .help = "Steps between checkpoints; default: 0, at the end only",
         .value = "N"},
        {.name = "save-wait",
         .flag = &o->save_wait,
         .help = "Let training wait while a checkpoint is written, instead of taking host memory "
                 "for a snapshot of what is saved"},
        {.name = "keep",
         .count32 = &o->keep,
         .help = "Number of checkpoints that stay in --save's folder; default: 2",
         .value = "N",
         .least = 1,
         .most = 1000000},
        {.name = "resume",
         .file = &o->resume,
         .help = "Continue from the newest checkpoint in a folder, or from the one that is named, "
                 "with its data, batches, schedule and precision. Other options may be given, but "
                 "not for what decides which tokens come next or what is trained; it does not keep "
                 "--save, --eval, --log and where the model data lies",
         .value = "DIR"},
        {.name = "dry-run",
         .flag = &o->dry_run,
         .use = OPTION_PRINTS,
         .help = "Print the memory and the traffic of the run without training. Files and folders "
                 "of the other options are checked, but only --emit-plan is written; --data may be "
                 "left out"},
        {.shared = OPTION_JSON,
         .flag = &o->json,
         .use = OPTION_PRINTS,
         .help = "to standard output, as one object"},
        {.name = "probe",
         .flag = &a.probe,
         .help = "Measure this machine instead of training, and write a platform file; several "
                 "ranks (mpirun, srun) measure what they exchange, too"},
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES,
         .help = "with --probe; default: machine.json"},
    };
    static const struct example examples[] = {
        {"Train with room for 200 MiB on the device, and log every step.",
         "pstar-run --model models/configs/demo-11m.json --data text.txt --seq 64 "
         "--device-memory 200MiB --steps 3 --log run.jsonl"},
        {"Train with a plan.", "pstar-run --model models/configs/demo-11m.json --data text.txt "
                               "--seq 64 --plan plan.json --steps 3"},
        {"Print how much a run would move, without training.",
         "pstar-run --model models/configs/demo-11m.json --data text.txt --device-memory 200MiB "
         "--dry-run"},
    };
    const struct option_group group = {.options = options, .count = G_N_ELEMENTS(options)};
    const struct program program = {.name = "pstar-run",
                                    .purpose = "train a model that may exceed the device's memory",
                                    .summary = "Trains a language model, such as GPT-2, Llama or "
                                               "Qwen, by a plan or by an eviction policy.",
                                    .examples = examples,
                                    .example_count = G_N_ELEMENTS(examples),
                                    .groups = &group,
                                    .group_count = 1,
                                    .run = run,
                                    .refuse = refuse,
                                    .data = &a};
    return program_main(&program, argc, argv);
}
