#include "report/advice.h"
#include "report/commands.h"
#include "report/text.h"
#include "report/timeline.h"

/* What is less than this share of a step is not worth a word. */
#define WORTH 0.03

/* Below this share of its peak the link idles. */
#define IDLE 0.5

struct step {
    struct contents *contents;
    const struct strips *strips;
    guint number; /* of the strips */
    struct strip_sums phases[STRIP_NO_PHASE], all;
    const char *trace, *memory, *platform; /* words of commands */
    const char *busy, *link;               /* names of its figures */
};

static char *percent(double part, double whole)
{
    g_autofree char *digits = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(digits, " %", NULL);
}

static char *plan_command(const struct step *step)
{
    return g_strdup_printf("pstar-plan %s --device-memory %s --platform %s -o plan.json",
                           step->trace, step->memory, step->platform);
}

/* "backward (0.9 s), update (12 ms)": where a cause holds the device up. */
static char *where(const struct step *step, enum strip cause)
{
    GString *text = g_string_new(NULL);
    for (int phase = 0; phase < STRIP_NO_PHASE; phase++) {
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

static char *claim_of(const struct step *step, const char *what, enum strip cause)
{
    double seconds = step->all.wait_for[cause];
    g_autofree char *length = text_seconds(seconds);
    g_autofree char *share = percent(seconds, step->strips->seconds);
    return g_strdup_printf("%s for %s, %s of the step%s", what, length, share,
                           step->number ? ", in the simulation" : "");
}

/* The longest wait for it, with a little of what is around. */
static void show_longest(const struct step *step, int cause, struct advice *advice)
{
    const GArray *waits = step->strips->spans[STRIP_WAIT];
    const struct strip_span *longest = NULL;
    for (guint i = 0; i < waits->len; i++) {
        const struct strip_span *wait = &g_array_index(waits, struct strip_span, i);
        if (wait->cause == cause &&
            (!longest || wait->end - wait->start > longest->end - longest->start))
            longest = wait;
    }
    if (!longest)
        return;
    double margin = 0.05 * (longest->end - longest->start);
    advice->timeline = timeline_name(step->number);
    advice->from = MAX(0, longest->start - margin);
    advice->to = MIN(step->strips->seconds, longest->end + margin);
}

static void add_host(const struct step *step)
{
    const struct strip_sums *update = &step->phases[TRACE_UPDATE_PHASE];
    double seconds = step->all.wait_for[STRIP_HOST];
    if (seconds < WORTH * step->strips->seconds)
        return;
    g_autofree char *busy = percent(update->busy[STRIP_COMPUTE], update->seconds);
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "The optimizer on the host holds the device up", STRIP_HOST),
        g_strdup_printf("In the update the device computes for %s of the time. Interleave: let the "
                        "device update every k-th group, or the share that keeps both sides busy; "
                        "the planner finds which.",
                        busy),
        plan_command(step));
    show_longest(step, STRIP_HOST, advice);
}

static void add_to_host(const struct step *step)
{
    double seconds = step->all.wait_for[STRIP_D2H];
    if (seconds < WORTH * step->strips->seconds)
        return;
    g_autofree char *phases = where(step, STRIP_D2H);
    bool backward = step->phases[TRACE_BACKWARD].wait_for[STRIP_D2H] > seconds / 2;
    struct advice *advice =
        advice_append(step->contents, seconds, step->busy,
                      claim_of(step, "Copies to the host hold the device up", STRIP_D2H),
                      g_strdup_printf("It waits for them in %s. %s", phases,
                                      backward ? "Flush gradients asynchronously: let them leave "
                                                 "behind backward, and wait for the last one only."
                                               : "Write back earlier, behind the operators, what "
                                                 "will have to leave anyway."),
                      plan_command(step));
    show_longest(step, STRIP_D2H, advice);
}

static void add_to_device(const struct step *step)
{
    double seconds = step->all.wait_for[STRIP_H2D];
    if (seconds < WORTH * step->strips->seconds)
        return;
    g_autofree char *phases = where(step, STRIP_H2D);
    struct advice *advice =
        advice_append(step->contents, seconds, step->busy,
                      claim_of(step, "Copies to the device hold it up", STRIP_H2D),
                      g_strdup_printf("It waits for them in %s. Fetch ahead of the operators, "
                                      "or keep on the device what is used next.",
                                      phases),
                      g_strdup_printf("pstar-sim %s --device-memory %s --look-ahead 0,1,2,4,8",
                                      step->trace, step->memory));
    show_longest(step, STRIP_H2D, advice);
}

static void add_network(const struct step *step)
{
    double seconds = step->all.wait_for[STRIP_NETWORK];
    if (seconds < WORTH * step->strips->seconds)
        return;
    g_autofree char *phases = where(step, STRIP_NETWORK);
    g_autofree char *busy = percent(step->all.busy[STRIP_NETWORK], step->strips->seconds);
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "Collectives and other ranks hold the device up", STRIP_NETWORK),
        g_strdup_printf("It waits for them in %s; they run for %s of the step. Start them earlier, "
                        "so that they run behind the operators, or find the rank that comes late: "
                        "its trace has the least of such waits.",
                        phases, busy),
        g_strdup("FSDP: fully_shard(...), set_modules_to_forward_prefetch(...), "
                 "set_modules_to_backward_prefetch(...)"));
    show_longest(step, STRIP_NETWORK, advice);
}

static void add_unknown(const struct step *step)
{
    double seconds = step->all.wait_for[STRIP_UNKNOWN];
    if (seconds < WORTH * step->strips->seconds)
        return;
    g_autofree char *phases = where(step, (enum strip)STRIP_UNKNOWN);
    bool copies = step->strips->known[STRIP_H2D];
    struct advice *advice = advice_append(
        step->contents, seconds, step->busy,
        claim_of(step, "The device has nothing to compute", (enum strip)STRIP_UNKNOWN),
        g_strdup_printf("It waits in %s. %s", phases,
                        copies ? "No copy and no optimizer runs meanwhile: the program itself does "
                                 "not give it work in time."
                               : "The trace has recorded no copies: the simulation of the same "
                                 "step says what it waits for."),
        g_strdup_printf("pstar-sim %s --device-memory %s --timeline step.json", step->trace,
                        step->memory));
    show_longest(step, STRIP_UNKNOWN, advice);
}

/* While the update runs. */
static void add_idle_link(const struct step *step)
{
    const struct strips *strips = step->strips;
    const struct strip_sums *update = &step->phases[TRACE_UPDATE_PHASE];
    double said = strips->link_said_by ? MAX(strips->link_rate[0], strips->link_rate[1]) : 0;
    double carried = MAX(strips_peak_rate(strips, STRIP_H2D), strips_peak_rate(strips, STRIP_D2H));
    double peak = said > 0 ? said : carried;
    if (!strips->known[STRIP_H2D] || update->seconds < 0.1 * strips->seconds || !(peak > 0))
        return;
    double h2d = update->bytes[STRIP_H2D] / update->seconds;
    double d2h = update->bytes[STRIP_D2H] / update->seconds;
    if (MAX(h2d, d2h) > IDLE * peak)
        return;
    g_autofree char *up = text_rate(h2d), *down = text_rate(d2h), *most = text_rate(peak);
    g_autofree char *share = percent(MAX(h2d, d2h), peak);
    g_autofree char *length = text_seconds(update->seconds);
    advice_append(step->contents, update->seconds * (1 - MAX(h2d, d2h) / peak) * 0.9, step->link,
                  g_strdup_printf("The link idles while the update runs: %s of its peak", share),
                  g_strdup_printf("For %s H2D carries %s and D2H %s, of %s that %s. Optimizer "
                                  "states could cross it meanwhile, so that "
                                  "the device updates a part of the groups.",
                                  length, up, down, most,
                                  said > 0 ? "it can" : "it has carried in this step"),
                  g_strdup_printf("pstar-sim %s --device-memory %s --platform %s "
                                  "--strategy interleave,twinflow --timeline step.json",
                                  step->trace, step->memory, step->platform));
}

/* The first that can tell what is waited for; else the first. */
static guint telling(const GPtrArray *all)
{
    for (guint i = 0; i < all->len; i++)
        if (((const struct strips *)g_ptr_array_index(all, i))->known[STRIP_H2D])
            return i;
    return 0;
}

void advice_add_waits(struct contents *contents)
{
    const GPtrArray *all = contents->inputs->strips;
    if (!all->len || ((const struct strips *)all->pdata[0])->alone)
        return;
    g_autofree char *trace = command_trace(contents->inputs);
    g_autofree char *memory = command_memory(contents->inputs);
    g_autofree char *platform = command_platform(contents->inputs);
    guint number = telling(all);
    g_autofree char *busy = figure_name("busy", number), *link = figure_name("link", number);
    struct step step = {.contents = contents,
                        .strips = g_ptr_array_index(all, number),
                        .number = number,
                        .trace = trace,
                        .memory = memory,
                        .platform = platform,
                        .busy = busy,
                        .link = link};
    step.all = strips_sum_all(step.strips);
    for (int phase = 0; phase < STRIP_NO_PHASE; phase++)
        step.phases[phase] = strips_sum(step.strips, (enum trace_phase)phase);
    add_host(&step);
    add_to_host(&step);
    add_to_device(&step);
    add_network(&step);
    add_unknown(&step);
    add_idle_link(&step);
}
