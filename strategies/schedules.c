#include "strategies/preset.h"

#include <math.h>

/* ---- by rules: when each chunk is on the device ---- */

struct script_rule script_rule_retained(const struct strategy_context *context, chunk_id chunk)
{
    (void)context;
    (void)chunk;
    return (struct script_rule){.retained = true};
}

/* A residency interval: a chunk's time on the device, at the moments [enter, last_use]. Moments are
 * counted from the start of an iteration. Those below 0 are in the iteration before, those from
 * moment_count on in the next one. */
struct script_interval {
    chunk_id chunk;
    int64_t first_use; /* in [0, moment_count) */
    int64_t last_use;  /* < first_use + moment_count */
    int64_t earliest;  /* the first moment at which it may enter, because it has left before and the
                          host has written it */
    int64_t enter;     /* <= first_use */
    bool fetch;        /* if false, allocated */
    bool for_host;     /* a host operator uses the chunk next */
};

struct script_flush {
    uint32_t chunk, moment;
};

struct script_intervals {
    GArray *items;   /* struct script_interval, of chunks that come and go */
    GArray *flushes; /* struct script_flush, of chunks that stay while a host operator reads them */
    uint8_t *always; /* [chunk_count] nonzero if the chunk never leaves */
};

/* A chunk's accesses, in the order of moments. */
struct use {
    uint32_t moment, flags;
};

struct maker {
    const struct strategy_context *context;
    const struct script *script;
    struct script_intervals *intervals;
    const struct use *uses; /* of the current chunk, on the device and on the host */
    uint32_t use_count;
    chunk_id chunk;
    int64_t moments; /* of an iteration */
};

static bool on_host(const struct use *use)
{
    return use->flags & ACCESS_ON_HOST;
}

/* Uses are numbered through all iterations. Returns the number of moments before the iteration of
 * use `index`. */
static int64_t round_of(const struct maker *maker, uint32_t index)
{
    return (int64_t)(index / maker->use_count) * maker->moments;
}

static int64_t moment_of(const struct maker *maker, uint32_t index)
{
    return maker->uses[index % maker->use_count].moment + round_of(maker, index);
}

static const struct use *use_at(const struct maker *maker, uint32_t index)
{
    return &maker->uses[index % maker->use_count];
}

/* Returns the next use on the device after `index`, which may be the same use an iteration later.
 */
static uint32_t next_on_device(const struct maker *maker, uint32_t index)
{
    do
        index++;
    while (on_host(use_at(maker, index)));
    return index;
}

/* Returns whether only operators of the two uses' layers run in between. */
static bool is_one_visit(const struct maker *maker, int64_t from, int64_t to)
{
    const struct trace_operator *operators = maker->context->trace->operators;
    if (to >= maker->moments)
        return false;
    int32_t first = operators[from].layer, last = operators[to].layer;
    if (operators[from].phase != operators[to].phase && (first >= 0 || last >= 0))
        return false;
    for (int64_t m = from + 1; m < to; m++)
        if (operators[m].layer != first && operators[m].layer != last)
            return false;
    return true;
}

static bool is_one_micro_batch(const struct maker *maker, uint32_t from, uint32_t to)
{
    const struct trace_operator *operators = maker->context->trace->operators;
    return operators[use_at(maker, from)->moment].micro_batch ==
           operators[use_at(maker, to)->moment].micro_batch;
}

/* Returns whether the chunk stays on the device between two consecutive uses. */
static bool is_kept(const struct maker *maker, uint32_t from, uint32_t to)
{
    const struct script_rule *rule = &maker->script->rules[maker->chunk];
    for (uint32_t i = from + 1; i < to; i++)
        if (rule->offloads || use_at(maker, i)->flags & ACCESS_WRITES)
            return false;
    int64_t round = round_of(maker, from);
    if (rule->retained)
        return !rule->summed || is_one_micro_batch(maker, from, to);
    return is_one_visit(maker, moment_of(maker, from) - round, moment_of(maker, to) - round);
}

static void flush_between(struct maker *maker, uint32_t from, uint32_t to)
{
    for (uint32_t i = from + 1; i < to; i++) {
        struct script_flush flush = {maker->chunk, use_at(maker, i)->moment};
        if (on_host(use_at(maker, i)))
            g_array_append_val(maker->intervals->flushes, flush);
    }
}

/* Returns the first moment at which the chunk may come back after use `index` of the host, which
 * wrote it. */
static int64_t return_from(const struct maker *maker, uint32_t index)
{
    const struct script *script = maker->script;
    uint32_t write = use_at(maker, index)->moment;
    uint32_t next = script->return_from ? script->return_from(maker->context, write) : write + 1;
    return next + round_of(maker, index);
}

/* Returns the first moment, at most that of use `first`, at which the chunk may come back after use
 * `before` and after the last write of a host operator. */
static int64_t earliest_after(const struct maker *maker, uint32_t before, uint32_t first)
{
    int64_t earliest = moment_of(maker, before) + 1;
    for (uint32_t i = before + 1; i < first; i++)
        if (use_at(maker, i)->flags & ACCESS_WRITES)
            earliest = return_from(maker, i);
    return MIN(earliest, moment_of(maker, first));
}

/* Adds the interval that begins with use `first`, after `before`, and returns its last use. */
static uint32_t add_interval(struct maker *maker, uint32_t before, uint32_t first)
{
    uint32_t last = first, next;
    while (next = next_on_device(maker, last), is_kept(maker, last, next)) {
        flush_between(maker, last, next);
        last = next;
    }
    int64_t round = round_of(maker, first);
    struct script_interval interval = {.chunk = maker->chunk,
                                       .first_use = moment_of(maker, first) - round,
                                       .last_use = moment_of(maker, last) - round,
                                       .earliest = earliest_after(maker, before, first) - round,
                                       .enter = moment_of(maker, first) - round,
                                       .fetch = !(use_at(maker, first)->flags & ACCESS_FRESH),
                                       .for_host = on_host(use_at(maker, last + 1))};
    g_array_append_val(maker->intervals->items, interval);
    return last;
}

static void add_chunk(struct maker *maker)
{
    uint32_t first = 0;
    while (first < maker->use_count && on_host(&maker->uses[first]))
        first++;
    if (first == maker->use_count)
        return;
    /* Finds a use after which the chunk leaves. The intervals begin after it. */
    uint32_t before = first, next;
    while (next = next_on_device(maker, before), is_kept(maker, before, next)) {
        before = next;
        if (before >= first + maker->use_count) {
            maker->intervals->always[maker->chunk] = 1;
            flush_between(maker, first, first + maker->use_count);
            return;
        }
    }
    for (uint32_t end = before + maker->use_count; before < end;)
        before = add_interval(maker, before, next_on_device(maker, before));
}

/* Returns the accesses by chunk; those of c are first[c] to first[c + 1]. */
static struct use *sort_by_chunk(const struct accesses *accesses, uint32_t *first)
{
    struct use *uses = g_new(struct use, accesses->count);
    uint32_t chunks = accesses->chunk_count;
    for (uint32_t a = 0; a < accesses->count; a++)
        first[accesses->items[a].chunk + 1]++;
    for (uint32_t c = 0; c < chunks; c++)
        first[c + 1] += first[c];
    g_autofree uint32_t *next = g_memdup2(first, chunks * sizeof *first);
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            uses[next[accesses->items[a].chunk]++] = (struct use){m, accesses->items[a].flags};
    return uses;
}

/* Makes the intervals as late as possible: each chunk enters when it is first used. */
static struct script_intervals *script_intervals_new(const struct strategy_context *context,
                                                     const struct script *script)
{
    uint32_t chunks = context->layout->chunk_count;
    struct script_intervals *intervals = g_new(struct script_intervals, 1);
    intervals->items = g_array_new(FALSE, FALSE, sizeof(struct script_interval));
    intervals->flushes = g_array_new(FALSE, FALSE, sizeof(struct script_flush));
    intervals->always = g_new0(uint8_t, chunks);

    g_autofree uint32_t *first = g_new0(uint32_t, chunks + 1);
    g_autofree struct use *uses = sort_by_chunk(context->accesses, first);
    struct maker maker = {.context = context,
                          .script = script,
                          .intervals = intervals,
                          .moments = context->accesses->moment_count};
    for (uint32_t c = 0; c < chunks; c++) {
        maker.chunk = c;
        maker.uses = uses + first[c];
        maker.use_count = first[c + 1] - first[c];
        add_chunk(&maker);
    }
    return intervals;
}

static void script_intervals_free(struct script_intervals *intervals)
{
    if (!intervals)
        return;
    g_array_free(intervals->items, TRUE);
    g_array_free(intervals->flushes, TRUE);
    g_free(intervals->always);
    g_free(intervals);
}

/* ---- by rules: the schedule ---- */

struct scripting {
    const struct strategy_context *context;
    const struct script *script;
    const struct homes *homes;
    struct script_intervals *intervals;
    int64_t *room;   /* [moment_count] bytes that are left; negative if there is too little room */
    int64_t moments; /* of an iteration */
};

static uint32_t wrap(const struct scripting *s, int64_t moment)
{
    return (uint32_t)((moment % s->moments + s->moments) % s->moments);
}

static int64_t slot(const struct scripting *s, chunk_id chunk)
{
    return (int64_t)s->context->layout->chunks[chunk].slot_bytes;
}

/* ---- room ---- */

/* Returns the first moment at which a chunk that is not early may be fetched for its use. */
static int64_t fetch_from(const struct scripting *s, const struct script_interval *interval)
{
    int64_t from = interval->first_use - (int64_t)s->script->look_ahead;
    if (s->script->fetch_from)
        from = s->script->fetch_from(s->context, (uint32_t)interval->first_use);
    return MAX(interval->earliest, MAX(0, from));
}

/* Lets chunks that are buffered enter as early as they may, whether there is room or not. */
static void enter_buffers(struct scripting *s)
{
    for (guint i = 0; i < s->intervals->items->len; i++) {
        struct script_interval *interval = &g_array_index(s->intervals->items,
                                                          struct script_interval, i);
        if (s->script->rules[interval->chunk].buffered && interval->fetch)
            interval->enter = fetch_from(s, interval);
    }
}

/* Adds the interval's bytes to the change of what is taken from the moment before to each moment.
 * Returns the bytes that it takes before moment 0. */
static int64_t take_slot(const struct scripting *s, const struct script_interval *interval,
                         int64_t *change)
{
    int64_t bytes = slot(s, interval->chunk), length = interval->last_use + 1 - interval->enter;
    uint32_t enter = wrap(s, interval->enter), leave = wrap(s, interval->last_use + 1);
    change[enter] += bytes;
    change[leave] -= bytes;
    return ((int64_t)enter + length) / s->moments * bytes;
}

static void take_room(struct scripting *s)
{
    int64_t always = 0;
    for (uint32_t c = 0; c < s->context->layout->chunk_count; c++)
        always += s->intervals->always[c] || s->homes->on_device[c] ? slot(s, c) : 0;
    g_autofree int64_t *change = g_new0(int64_t, (size_t)s->moments);
    for (guint i = 0; i < s->intervals->items->len; i++)
        always += take_slot(s, &g_array_index(s->intervals->items, struct script_interval, i),
                            change);
    for (int64_t m = 0, taken = always; m < s->moments; m++) {
        taken += change[m];
        s->room[m] = (int64_t)s->context->device_budget - taken -
                     (int64_t)s->context->accesses->non_model[m];
    }
}

static bool check_room(const struct scripting *s, uint64_t *needed, GError **error)
{
    int64_t tightest = 0;
    for (int64_t m = 1; m < s->moments; m++)
        if (s->room[m] < s->room[tightest])
            tightest = m;
    *needed = (uint64_t)((int64_t)s->context->device_budget - s->room[tightest]);
    if (s->room[tightest] >= 0)
        return true;
    strategy_refuse(s->context, (uint32_t)tightest, *needed, error);
    return false;
}

static gint by_first_use(gconstpointer left, gconstpointer right)
{
    const struct script_interval *a = left, *b = right;
    if (a->first_use != b->first_use)
        return a->first_use < b->first_use ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

/* Moves the fetch ahead, but not before `from`, as long as there is room. */
static void enter_ahead(struct scripting *s, struct script_interval *interval, int64_t from)
{
    int64_t bytes = slot(s, interval->chunk);
    uint32_t m = wrap(s, interval->enter - 1);
    while (interval->enter > from && s->room[m] >= bytes) {
        interval->enter--;
        s->room[m] -= bytes;
        m = (m ? m : (uint32_t)s->moments) - 1;
    }
}

/* Moves each fetch ahead of its use, as far as its rule allows and there is room throughout. */
static void fetch_ahead(struct scripting *s)
{
    g_array_sort(s->intervals->items, by_first_use);
    for (guint i = 0; i < s->intervals->items->len; i++) {
        struct script_interval *interval = &g_array_index(s->intervals->items,
                                                          struct script_interval, i);
        bool early = s->script->rules[interval->chunk].early;
        int64_t from = early ? interval->earliest : fetch_from(s, interval);
        if (interval->fetch)
            enter_ahead(s, interval, from);
    }
}

/* ---- the schedule ---- */

/* The order of one moment's actions. */
enum turn { TURN_FLUSH, TURN_LEAVE, TURN_WAIT_OUT, TURN_ENTER, TURN_WAIT_IN };

struct timed {
    uint32_t index; /* the moment of the action, or moment_count */
    uint32_t turn;
    int64_t first_use; /* orders arrivals */
    struct plan_action action;
};

/* Returns whether the operator of the action's moment needs the chunk that arrives. */
static bool is_urgent(const struct timed *timed)
{
    return timed->turn == TURN_ENTER && timed->first_use == (int64_t)timed->index;
}

static gint by_time(gconstpointer left, gconstpointer right)
{
    const struct timed *a = left, *b = right;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (is_urgent(a) != is_urgent(b))
        return is_urgent(a) ? -1 : 1;
    if (a->first_use != b->first_use)
        return a->first_use < b->first_use ? -1 : 1;
    return a->action.chunk < b->action.chunk ? -1 : a->action.chunk > b->action.chunk;
}

static void append(GArray *timed, uint32_t index, enum turn turn, enum plan_action_kind kind,
                   const struct script_interval *interval)
{
    struct timed item = {
        index, turn, interval->first_use, {interval->chunk, (uint8_t)kind, NO_ADDRESS}};
    if (kind == PLAN_WAIT)
        item.action.chunk = 0, item.first_use = 0;
    g_array_append_val(timed, item);
}

/* A chunk that may come back before the first operator does so at the end of the iteration before.
 */
static bool ends_before(const struct scripting *s, const struct script_interval *interval)
{
    return s->script->rules[interval->chunk].early && interval->enter == 0 &&
           interval->earliest <= 0;
}

static uint32_t enter_index(const struct scripting *s, const struct script_interval *interval)
{
    return ends_before(s, interval) ? (uint32_t)s->moments : wrap(s, interval->enter);
}

static void append_interval(const struct scripting *s, const struct script_interval *interval,
                            GArray *timed)
{
    const struct script_rule *rule = &s->script->rules[interval->chunk];
    uint32_t enter = enter_index(s, interval);
    /* A chunk that leaves after the last operator leaves in this iteration, not at the start of the
     * next one. */
    uint32_t leave = wrap(s, interval->last_use) + 1;
    append(timed, enter, TURN_ENTER, interval->fetch ? PLAN_FETCH : PLAN_ALLOCATE, interval);
    if (rule->blocks_in && interval->fetch)
        append(timed, enter, TURN_WAIT_IN, PLAN_WAIT, interval);
    append(timed, leave, TURN_LEAVE, PLAN_WRITE_BACK, interval);
    if (rule->blocks_out && interval->for_host)
        append(timed, leave, TURN_WAIT_OUT, PLAN_WAIT, interval);
}

static GArray *list_actions(const struct scripting *s)
{
    GArray *timed = g_array_new(FALSE, FALSE, sizeof(struct timed));
    for (guint i = 0; i < s->intervals->items->len; i++)
        append_interval(s, &g_array_index(s->intervals->items, struct script_interval, i), timed);
    for (guint i = 0; i < s->intervals->flushes->len; i++) {
        const struct script_flush *flush = &g_array_index(s->intervals->flushes,
                                                          struct script_flush, i);
        const struct script_interval of_chunk = {.chunk = flush->chunk};
        append(timed, flush->moment, TURN_FLUSH, PLAN_FLUSH, &of_chunk);
    }
    g_array_sort(timed, by_time);
    return timed;
}

static bool begins_there(const struct scripting *s, const struct script_interval *interval)
{
    return interval->enter < 0 || interval->last_use >= s->moments || ends_before(s, interval);
}

static struct decisions *make_decisions(const struct scripting *s)
{
    struct decisions *decisions = decisions_new(s->context->accesses);
    GArray *timed = list_actions(s);
    guint next = 0;
    for (uint32_t c = 0; c < s->context->layout->chunk_count; c++)
        decisions->initial[c] = s->intervals->always[c] || s->homes->on_device[c];
    for (guint i = 0; i < s->intervals->items->len; i++) {
        const struct script_interval *interval = &g_array_index(s->intervals->items,
                                                                struct script_interval, i);
        if (begins_there(s, interval))
            decisions->initial[interval->chunk] = 1;
    }
    for (uint32_t m = 0; m <= decisions->moment_count; m++) {
        decisions->first[m] = decisions->actions->len;
        for (; next < timed->len; next++) {
            const struct timed *item = &g_array_index(timed, struct timed, next);
            if (item->index != m)
                break;
            bool again = item->action.kind == PLAN_WAIT && next > 0 &&
                         item[-1].action.kind == PLAN_WAIT && item[-1].index == m;
            if (!again)
                g_array_append_val(decisions->actions, item->action);
        }
    }
    decisions->first[decisions->moment_count + 1] = decisions->actions->len;
    g_array_free(timed, TRUE);
    decisions_settle(decisions, s->context->accesses);
    return decisions;
}

static struct homes *choose_homes(const struct strategy_context *context,
                                  const struct script_intervals *intervals)
{
    g_autofree uint8_t *on_device = g_new0(uint8_t, context->layout->chunk_count);
    for (uint32_t c = 0; c < context->layout->chunk_count; c++)
        on_device[c] = intervals->always[c] && !context->host_used[c];
    return homes_assign(context->trace, context->layout, on_device, NULL);
}

struct decisions *script_decide(const struct strategy_context *context, const struct script *script,
                                struct homes **homes, uint64_t *needed, GError **error)
{
    struct script_intervals *intervals = script_intervals_new(context, script);
    struct decisions *decisions = NULL;
    *homes = choose_homes(context, intervals);
    g_autofree int64_t *room = g_new(int64_t, context->accesses->moment_count);
    struct scripting s = {.context = context,
                          .script = script,
                          .homes = *homes,
                          .intervals = intervals,
                          .room = room,
                          .moments = context->accesses->moment_count};
    enter_buffers(&s);
    take_room(&s);
    if (check_room(&s, needed, error)) {
        fetch_ahead(&s);
        decisions = make_decisions(&s);
    }
    script_intervals_free(intervals);
    return decisions;
}

/* ---- by a policy ---- */

struct decisions *budget_decide(const struct strategy_context *context, const struct budget *budget,
                                struct homes **homes, uint64_t *needed, GError **error)
{
    /* The policy sees the reserve as if non-model data took it. */
    struct accesses reserved = *(budget->accesses ? budget->accesses : context->accesses);
    moment_id moment = 0;
    reserved.non_model = (uint64_t *)budget->reserve;
    *homes = homes_choose(context->trace, context->layout, &reserved, budget->bytes,
                          context->host_budget, error);
    if (!*homes)
        return NULL;
    const struct plan_inputs inputs = {.trace = context->trace,
                                       .layout = context->layout,
                                       .accesses = &reserved,
                                       .homes = *homes,
                                       .device_budget = budget->bytes,
                                       .host_budget = context->host_budget};
    uint64_t least = decide_least_bytes(&inputs, &moment);
    *needed = (uint64_t)ceil((double)least / budget->share);
    if (least > budget->bytes) {
        strategy_refuse(context, moment, *needed, error);
        return NULL;
    }
    const struct decide_options options = {.policy = budget->policy,
                                           .look_ahead = budget->look_ahead};
    return decide(&inputs, &options);
}
