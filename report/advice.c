#include "base/size.h"
#include "report/analysis.h"
#include "report/contents.h"
#include "report/output.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

/* Waits below this share of a step are not reported. */
#define WORTH 0.03

/* A link below this share of its peak is idle. */
#define IDLE 0.5

struct advised_step {
    struct contents *contents;
    const struct tracks *tracks;
    guint number;   /* of the tracks among the inputs */
    bool simulated; /* although the step that the advice is about was measured */
    struct track_sums phases[TRACK_NO_PHASE], all;
    const char *trace, *machine; /* words of command lines; the trace may be NULL */
    const char *busy, *link;     /* sections of the page */
};

static char *percent(double part, double whole)
{
    g_autofree char *digits = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(digits, " %", NULL);
}

static char *plan_command(const struct advised_step *step)
{
    return advice_plan_command(step->contents, 0);
}

/* Returns a command of pstar-sim with these options, or NULL without a trace to simulate. */
static char *sim_command(const struct advised_step *step, const char *options)
{
    return step->trace ? g_strdup_printf("pstar-sim %s %s %s", step->trace, step->machine, options)
                       : NULL;
}

/* Returns whether a sweep among the files has tried this strategy. */
static bool has_tried(const struct report_inputs *inputs, const char *strategy)
{
    for (guint s = 0; s < inputs->sweeps->len; s++) {
        g_autoptr(GPtrArray) makers = sweep_file_makers(g_ptr_array_index(inputs->sweeps, s));
        for (guint m = 0; m < makers->len; m++)
            if (g_str_has_prefix(g_ptr_array_index(makers, m), strategy))
                return true;
    }
    return false;
}

/* Returns the phases in which the device waits for a cause: "backward (0.9 s), update (12 ms)". */
static char *where(const struct advised_step *step, enum track cause)
{
    GString *text = g_string_new(NULL);
    for (int phase = 0; phase < TRACK_NO_PHASE; phase++) {
        double seconds = step->phases[phase].wait_for[cause];
        if (seconds < 0.1 * step->all.wait_for[cause])
            continue;
        g_autofree char *length = text_seconds(seconds);
        g_string_append_printf(text, "%s%s (%s)", text->len ? ", " : "",
                               trace_phase_name((enum trace_phase)phase), length);
    }
    if (!text->len)
        g_string_append(text, "the step");
    return g_string_free(text, FALSE);
}

static char *claim_of(const struct advised_step *step, const char *what, enum track cause)
{
    double seconds = step->all.wait_for[cause];
    g_autofree char *length = text_seconds(seconds);
    g_autofree char *share = percent(seconds, step->tracks->seconds);
    return g_strdup_printf("%s for %s, %s of the step%s", what, length, share,
                           step->simulated ? ", in the simulation" : "");
}

/* Points the advice at the longest wait for this cause, with a margin around it. */
static void show_longest(const struct advised_step *step, int cause, struct advice *advice)
{
    const GArray *waits = step->tracks->spans[TRACK_WAIT];
    const struct track_span *longest = NULL;
    for (guint i = 0; i < waits->len; i++) {
        const struct track_span *wait = &g_array_index(waits, struct track_span, i);
        if (wait->cause == cause &&
            (!longest || wait->end - wait->start > longest->end - longest->start))
            longest = wait;
    }
    if (!longest)
        return;
    double margin = 0.05 * (longest->end - longest->start);
    advice->timeline = timeline_name(step->number);
    advice->from = MAX(0, longest->start - margin);
    advice->to = MIN(step->tracks->seconds, longest->end + margin);
}

static void add_host(const struct advised_step *step)
{
    const struct track_sums *update = &step->phases[TRACE_UPDATE_PHASE];
    double seconds = step->all.wait_for[TRACK_HOST];
    if (seconds < WORTH * step->tracks->seconds)
        return;
    g_autofree char *busy = percent(update->busy[TRACK_COMPUTE], update->seconds);
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "The device waits for the optimizer on the host", TRACK_HOST),
        g_strdup_printf("During the update the device computes for %s of the time. Interleave the "
                        "update: let the device update a part of the groups, so that device and "
                        "host both work. The planner finds the best part.",
                        busy),
        plan_command(step));
    show_longest(step, TRACK_HOST, advice);
}

static void add_to_host(const struct advised_step *step)
{
    double seconds = step->all.wait_for[TRACK_D2H];
    if (seconds < WORTH * step->tracks->seconds)
        return;
    g_autofree char *phases = where(step, TRACK_D2H);
    bool backward = step->phases[TRACE_BACKWARD].wait_for[TRACK_D2H] > seconds / 2;
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "The device waits for copies to the host", TRACK_D2H),
        g_strdup_printf("This happens in %s. %s", phases,
                        backward ? "Copy gradients to the host asynchronously while backward "
                                   "continues, and wait only for the last one."
                                 : "Write chunks back earlier, while operators run, if they will "
                                   "be evicted anyway."),
        plan_command(step));
    show_longest(step, TRACK_D2H, advice);
}

/* A plan says itself how far ahead it fetches. */
static bool is_planned(const struct advised_step *step)
{
    const struct breakdown *subject = subject_of_advice(step->contents->breakdowns);
    const char *maker = subject && subject->configuration ? subject->configuration->maker : NULL;
    return !g_strcmp0(maker, "planner") || step->contents->inputs->plans->len;
}

static void add_to_device(const struct advised_step *step)
{
    double seconds = step->all.wait_for[TRACK_H2D];
    if (seconds < WORTH * step->tracks->seconds)
        return;
    g_autofree char *phases = where(step, TRACK_H2D);
    struct advice *advice =
        advice_append(step->contents, seconds, step->busy,
                      claim_of(step, "The device waits for copies to the device", TRACK_H2D),
                      g_strdup_printf("This happens in %s. Fetch chunks ahead of the operators, or "
                                      "keep the chunks that are used next on the device.",
                                      phases),
                      is_planned(step) ? NULL : sim_command(step, "--look-ahead 0,1,2,4,8"));
    show_longest(step, TRACK_H2D, advice);
}

static void add_network(const struct advised_step *step)
{
    double seconds = step->all.wait_for[TRACK_NETWORK];
    if (seconds < WORTH * step->tracks->seconds)
        return;
    g_autofree char *phases = where(step, TRACK_NETWORK);
    g_autofree char *busy = percent(step->all.busy[TRACK_NETWORK], step->tracks->seconds);
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "The device waits for collectives and other ranks", TRACK_NETWORK),
        g_strdup_printf("This happens in %s. Collectives run for %s of the step. Start them "
                        "earlier, so that they overlap with operators.%s",
                        phases, busy,
                        step->tracks->measured
                            ? " If one rank is late, find it: its own trace has the shortest waits "
                              "of this kind, and pstar-trace merge says who waits for whom."
                            : ""),
        g_strdup("FSDP: fully_shard(...), set_modules_to_forward_prefetch(...), "
                 "set_modules_to_backward_prefetch(...)"));
    show_longest(step, TRACK_NETWORK, advice);
}

/* What lives in NVMe has no room on the host, which is what would help, beside a faster disk. */
static void add_nvme(const struct advised_step *step, enum track track, const char *what)
{
    double seconds = step->all.wait_for[track];
    if (seconds < WORTH * step->tracks->seconds)
        return;
    g_autofree char *phases = where(step, track);
    g_autofree char *bytes = size_format((uint64_t)step->all.bytes[track]);
    g_autofree char *busy = percent(step->all.busy[track], step->tracks->seconds);
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy, claim_of(step, what, track),
        g_strdup_printf("This happens in %s. A step moves %s this way, for %s of its time. More "
                        "host memory leaves less of it to the disk; several disks as one (RAID 0) "
                        "are as much faster as there are.",
                        phases, bytes, busy),
        NULL);
    show_longest(step, track, advice);
}

static void add_unknown(const struct advised_step *step)
{
    double seconds = step->all.wait_for[TRACK_UNKNOWN];
    if (seconds < WORTH * step->tracks->seconds)
        return;
    g_autofree char *phases = where(step, (enum track)TRACK_UNKNOWN);
    bool copies = step->tracks->known[TRACK_H2D];
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "The device has nothing to compute", (enum track)TRACK_UNKNOWN),
        g_strdup_printf("This happens in %s. %s", phases,
                        copies ? "Neither copies nor the optimizer run at these times, so the "
                                 "program itself launches its work too late."
                               : "The trace has no copies. A simulation of the same step shows "
                                 "what the device waits for."),
        sim_command(step, "--timeline step.json"));
    show_longest(step, TRACK_UNKNOWN, advice);
}

/* Reports a link that idles during the update. */
static void add_idle_link(const struct advised_step *step)
{
    const struct tracks *tracks = step->tracks;
    const struct track_sums *update = &step->phases[TRACE_UPDATE_PHASE];
    double said = tracks->link_said_by ? MAX(tracks->link_rate[0], tracks->link_rate[1]) : 0;
    double carried = MAX(tracks_peak_rate(tracks, TRACK_H2D), tracks_peak_rate(tracks, TRACK_D2H));
    double peak = said > 0 ? said : carried;
    if (is_planned(step) || has_tried(step->contents->inputs, "interleave"))
        return;
    if (!tracks->known[TRACK_H2D] || update->seconds < 0.1 * tracks->seconds || !(peak > 0))
        return;
    double h2d = update->bytes[TRACK_H2D] / update->seconds;
    double d2h = update->bytes[TRACK_D2H] / update->seconds;
    if (MAX(h2d, d2h) > IDLE * peak)
        return;
    g_autofree char *up = text_rate(h2d), *down = text_rate(d2h), *most = text_rate(peak);
    g_autofree char *share = percent(MAX(h2d, d2h), peak);
    g_autofree char *length = text_seconds(update->seconds);
    advice_append(
        step->contents, update->seconds * (1 - MAX(h2d, d2h) / peak) * 0.9, step->link,
        g_strdup_printf("The link is mostly idle during the update: %s of its peak", share),
        g_strdup_printf(
            "For %s, H2D carries %s and D2H carries %s, of %s that %s. Optimizer states could "
            "cross the link at this time, so that the device updates a part of the groups.",
            length, up, down, most, said > 0 ? "the link can carry" : "it reached in this step"),
        sim_command(step, "--policy opt --strategy interleave,twinflow --timeline step.json"));
}

/* A copy of the step before or after may be in the recording of a step. */
#define NEARLY 0.02

/* Returns whether the recording moved the bytes of each step of the run, exactly in one direction
 * and nearly in the other: then it is of this run, or of one that did the same. */
static bool moved_as(const struct tracks *tracks, const struct logged_run *run)
{
    struct plan_figures measured;
    const struct track_sums all = tracks_sum_all(tracks);
    if (!run_log_measured(run, &measured, NULL))
        return false;
    double h2d = fabs(all.bytes[TRACK_H2D] - (double)measured.h2d_bytes);
    double d2h = fabs(all.bytes[TRACK_D2H] - (double)measured.d2h_bytes);
    return (h2d < 1 || d2h < 1) && h2d <= NEARLY * (double)measured.h2d_bytes + 1 &&
           d2h <= NEARLY * (double)measured.d2h_bytes + 1;
}

/* Returns whether the tracks say what the device waits for in this step, although they are not its
 * own: a simulation of it, or a recording of the run that the log is of. */
static bool tells(const struct tracks *tracks, const struct breakdown *subject)
{
    if (!tracks->known[TRACK_H2D])
        return false;
    if (!subject->run)
        return !tracks->measured && !subject->tracks->known[TRACK_H2D];
    return tracks->measured
               ? moved_as(tracks, subject->run)
               : configuration_same(&tracks->configuration, &subject->run->configuration);
}

/* Finds the tracks that say what the device waits for in the step that the advice is about. Earlier
 * steps have no say. Returns false if there are none. */
static bool find_telling(const struct contents *contents, guint *number, bool *simulated)
{
    const GPtrArray *all = contents->inputs->tracks;
    const struct breakdown *subject = subject_of_advice(contents->breakdowns);
    bool found = false, exact = false;
    for (guint i = 0; subject && i < all->len && !exact; i++) {
        const struct tracks *tracks = g_ptr_array_index(all, i);
        bool own = tracks == subject->tracks, other = !own && tells(tracks, subject);
        if (!own && !other)
            continue;
        exact = tracks->known[TRACK_H2D] && (own || tracks->measured);
        if (found && own && !exact) /* a simulation says more */
            continue;
        *number = i;
        *simulated = !tracks->measured && !own;
        found = true;
    }
    return found;
}

/* A run log says how long the device waits, but not for what. */
static void add_log_waits(struct contents *contents)
{
    const struct breakdown *subject = subject_of_advice(contents->breakdowns);
    if (!subject || !subject->run || subject->wait[TRACK_UNKNOWN] < WORTH * subject->seconds)
        return;
    double seconds = subject->wait[TRACK_UNKNOWN];
    g_autofree char *length = text_seconds(seconds), *share = percent(seconds, subject->seconds);
    advice_append(
        contents, seconds, "bars",
        g_strdup_printf("The device waits for %s, %s of the step", length, share),
        g_strdup_printf("%s does not say for what. A recording of the run by pstar-collect "
                        "does.",
                        subject->run->origin),
        NULL);
}

/* Adds advice about what the device waits for. */
static void advice_add_waits(struct contents *contents)
{
    const GPtrArray *all = contents->inputs->tracks;
    struct advised_step step = {.contents = contents};
    if (!find_telling(contents, &step.number, &step.simulated)) {
        add_log_waits(contents);
        return;
    }
    g_autofree char *trace = command_trace(contents->inputs);
    g_autofree char *machine = command_machine(contents->inputs, 0);
    g_autofree char *busy = timeline_name(step.number), *link = plot_name("link", step.number);
    step.tracks = g_ptr_array_index(all, step.number);
    step.trace = trace;
    step.machine = machine;
    step.busy = busy;
    step.link = link;
    step.all = tracks_sum_all(step.tracks);
    for (int phase = 0; phase < TRACK_NO_PHASE; phase++)
        step.phases[phase] = tracks_sum(step.tracks, (enum trace_phase)phase);
    add_host(&step);
    add_to_host(&step);
    add_to_device(&step);
    add_network(&step);
    add_nvme(&step, TRACK_NVME_READ, "The device waits for reads from NVMe");
    add_nvme(&step, TRACK_NVME_WRITE, "The device waits for writes to NVMe");
    add_unknown(&step);
    add_idle_link(&step);
}

/* Memory below this share of the peak is not reported. */
#define WORTH_BYTES 0.1

/* The most bytes of forward and backward, and of the update. With a plan, chunks are included. */
struct room {
    uint64_t before, update, activations;
    uint32_t peak; /* a moment */
    bool updates;  /* the trace has an update */
};

static struct room room_of(const struct trace *trace, const struct memory *memory)
{
    struct room room = {0};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t bytes = memory ? memory_total(&memory->moments[m]) : trace->non_model_bytes[m];
        if (trace->operators[m].phase == TRACE_UPDATE_PHASE) {
            room.updates = true;
            room.update = MAX(room.update, bytes);
        } else if (bytes > room.before) {
            room.before = bytes;
            room.peak = m;
            room.activations = trace->non_model_bytes[m];
        }
    }
    return room;
}

static void add_freed(struct contents *contents, const struct room *room, bool planned)
{
    if (!room->updates || room->before < room->update ||
        (double)(room->before - room->update) < WORTH_BYTES * (double)room->before)
        return;
    if (planned || has_tried(contents->inputs, "interleave"))
        return;
    g_autofree char *trace = command_trace(contents->inputs);
    g_autofree char *machine = command_machine(contents->inputs, 0);
    g_autofree char *freed = size_format(room->before - room->update);
    g_autofree char *before = size_format(room->before), *update = size_format(room->update);
    advice_append(
        contents, 0, "non-model",
        g_strdup_printf("%s that backward frees stay unused during the update", freed),
        g_strdup_printf(
            "Before the update up to %s are in use by activations and workspaces, during it up to "
            "%s. Optimizer states need no copy in the update if they arrive during backward, or "
            "stay on the device.",
            before, update),
        trace ? g_strdup_printf("pstar-sim %s %s --policy opt --strategy "
                                "interleave,twinflow,gemini-static",
                                trace, machine)
              : NULL);
}

static void add_peak(struct contents *contents, const struct trace *trace, const struct room *room)
{
    const char *way = advice_is_torch(contents->inputs)
                          ? "torch.utils.checkpoint.checkpoint around them"
                          : "--recompute of pstar-run, or what pstar-plan chooses";
    if ((double)room->activations < 0.3 * (double)room->before)
        return;
    g_autofree char *activations = size_format(room->activations);
    g_autofree char *peak = size_format(room->before);
    g_autofree char *busiest = caption_name(trace->operators[room->peak].name);
    g_autofree char *share = text_number("%.0f",
                                         100 * (double)room->activations / (double)room->before);
    advice_append(
        contents, 0, "memory", g_strdup_printf("%s sets the peak of device memory", busiest),
        g_strdup_printf("Of the %s in use, %s (%s %%) are activations and workspaces. Recomputing "
                        "the activations of some layers leaves this room to chunks: %s.",
                        peak, activations, share, way),
        NULL);
}

static void advice_add_memory(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    const struct replayed *replayed = contents->replays->len
                                          ? &g_array_index(contents->replays, struct replayed, 0)
                                          : NULL;
    const struct input_trace *input = replayed              ? replayed->plan->trace
                                      : inputs->traces->len ? g_ptr_array_index(inputs->traces, 0)
                                                            : NULL;
    if (!input)
        return;
    const struct room room = room_of(input->trace, replayed ? replayed->memory : NULL);
    add_freed(contents, &room, replayed != NULL);
    if (replayed)
        add_peak(contents, input->trace, &room);
}

/* Waiting below this share of a step does not make it slow. */
#define LITTLE 0.05

struct advice *advice_append(struct contents *contents, double seconds, const char *plot,
                             char *claim, char *detail, char *command)
{
    struct advice *advice = g_new(struct advice, 1);
    *advice = (struct advice){.claim = claim,
                              .detail = detail,
                              .command = command,
                              .plot = g_strdup(plot),
                              .seconds = seconds};
    g_ptr_array_add(contents->advice, advice);
    return advice;
}

char *advice_gain(double less, double more)
{
    g_autofree char *digits = text_number("%.2g", 100 * (1 - less / more));
    return g_strconcat(digits, " %", NULL);
}

bool advice_has_run(const struct contents *contents, const struct configuration *configuration)
{
    const struct breakdown *subject = subject_of_advice(contents->breakdowns);
    return subject && subject->configuration &&
           configuration_same(subject->configuration, configuration);
}

bool advice_is_torch(const struct report_inputs *inputs)
{
    const struct input_trace *input = inputs->traces->len ? g_ptr_array_index(inputs->traces, 0)
                                                          : NULL;
    g_autofree char *producer =
        g_ascii_strdown(input && input->trace->producer ? input->trace->producer : "", -1);
    return strstr(producer, "torch") != NULL;
}

char *advice_plan_command(const struct contents *contents, uint64_t device_budget)
{
    const struct report_inputs *inputs = contents->inputs;
    g_autofree char *trace = inputs->plans->len ? NULL : command_trace(inputs);
    if (!trace)
        return NULL;
    g_autofree char *machine = command_machine(inputs, device_budget);
    return g_strdup_printf("pstar-plan %s %s -o plan.json%s", trace, machine,
                           advice_is_torch(inputs) ? " --emit fsdp" : "");
}

static int most_seconds_first(const void *left, const void *right)
{
    const struct advice *a = *(struct advice *const *)left, *b = *(struct advice *const *)right;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

static double waiting(const struct breakdown *breakdown, int *cause)
{
    double all = 0;
    *cause = TRACK_UNKNOWN;
    for (int c = 0; c <= TRACK_UNKNOWN; c++) {
        all += breakdown->wait[c];
        if (breakdown->wait[c] > breakdown->wait[*cause])
            *cause = c;
    }
    return all;
}

/* Returns one sentence about the first step: a given one or, without one, the fastest alternative.
 * It names the file if others are measured, too. */
static char *verdict_of(const GPtrArray *breakdowns)
{
    const struct breakdown *breakdown = g_ptr_array_index(breakdowns, 0);
    const struct breakdown *second = breakdowns->len > 1 ? g_ptr_array_index(breakdowns, 1) : NULL;
    bool several = breakdown->measured && second && second->given && second->measured;
    g_autofree char *file = several
                                ? g_path_get_basename(breakdown->run ? breakdown->run->origin
                                                                     : breakdown->tracks->origin)
                                : NULL;
    g_autofree char *of = several ? g_strdup_printf(" of %s", file) : g_strdup("");
    static const char *const causes[TRACKS + 1] = {
        [TRACK_COMPUTE] = "",
        [TRACK_H2D] = ", mostly for copies to the device",
        [TRACK_D2H] = ", mostly for copies to the host",
        [TRACK_HOST] = ", mostly for the optimizer on the host",
        [TRACK_NETWORK] = ", mostly for other devices",
        [TRACK_NVME_READ] = ", mostly for reads from NVMe",
        [TRACK_NVME_WRITE] = ", mostly for writes to NVMe",
        [TRACK_UNKNOWN] = "",
    };
    int cause;
    double waits = waiting(breakdown, &cause);
    g_autofree char *length = text_seconds(breakdown->seconds);
    if (breakdown->operators_only)
        return g_strdup_printf(
            "The operators of a step take %s. A simulation shows how long it waits as well",
            length);
    if (waits < LITTLE * breakdown->seconds)
        return g_strdup_printf("A step%s takes %s, and the device computes nearly all of the time",
                               of, length);
    g_autofree char *share = text_number("%.0f", 100 * waits / breakdown->seconds);
    return g_strdup_printf("A step%s takes %s, and the device waits for %s %% of it%s", of, length,
                           share, causes[cause]);
}

/* Returns "B is 131 ms (20 %) faster than A; the device waits for 127 ms less." */
static char *comparison_of(const struct report_inputs *inputs)
{
    const struct tracks *a, *b;
    if (!compare_steps(inputs, &a, &b))
        return NULL;
    if (!compare_same_work(inputs, a, b))
        return g_strdup_printf("%s and %s are steps of different models or batches, so neither is "
                               "faster.",
                               a->origin, b->origin);
    double more = b->seconds - a->seconds;
    double waits = tracks_sum_all(b).busy[TRACK_WAIT] - tracks_sum_all(a).busy[TRACK_WAIT];
    g_autofree char *length = text_seconds(fabs(more)), *waited = text_seconds(fabs(waits));
    g_autofree char *percent = text_number("%.0f", 100 * fabs(more) / a->seconds);
    if (a->operators_only || b->operators_only)
        return g_strdup_printf("The operators of %s take %s (%s %%) %s than those of %s.",
                               b->origin, length, percent, more < 0 ? "less" : "more", a->origin);
    if (fabs(more) < 0.01 * a->seconds)
        return g_strdup_printf("%s and %s take the same time within 1 %%.", a->origin, b->origin);
    return g_strdup_printf("%s is %s (%s %%) %s than %s; the device waits for %s %s.", b->origin,
                           length, percent, more < 0 ? "faster" : "slower", a->origin, waited,
                           waits < 0 ? "less" : "more");
}

void advice_add(struct contents *contents)
{
    contents->comparison = comparison_of(contents->inputs);
    if (contents->breakdowns->len)
        contents->verdict = verdict_of(contents->breakdowns);
    advice_add_waits(contents);
    advice_add_choices(contents);
    advice_add_memory(contents);
    advice_add_hardware(contents);
    g_ptr_array_sort(contents->advice, most_seconds_first);
}
