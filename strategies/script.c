#include "strategies/script.h"

#include "strategies/script_stays.h"

struct scripting {
    const struct strategy_context *context;
    const struct script *script;
    const struct homes *homes;
    struct script_stays *stays;
    int64_t *room;   /* [moment_count] that is left; negative: too little */
    int64_t moments; /* of an iteration */
};

static uint32_t wrap(const struct scripting *s, int64_t moment)
{
    return (uint32_t)((moment % s->moments + s->moments) % s->moments);
}

static int64_t slot(const struct scripting *s, uint32_t chunk)
{
    return (int64_t)s->context->layout->chunks[chunk].slot_bytes;
}

/* ---- room ---- */

static void take_room(struct scripting *s)
{
    int64_t always = 0;
    for (uint32_t c = 0; c < s->context->layout->chunk_count; c++)
        always += s->stays->always[c] || s->homes->on_device[c] ? slot(s, c) : 0;
    for (int64_t m = 0; m < s->moments; m++)
        s->room[m] = (int64_t)s->context->device_budget - always -
                     (int64_t)s->context->accesses->non_model[m];
    for (guint i = 0; i < s->stays->items->len; i++) {
        const struct script_stay *stay = &g_array_index(s->stays->items, struct script_stay, i);
        for (int64_t m = stay->enter; m <= stay->last_use; m++)
            s->room[wrap(s, m)] -= slot(s, stay->chunk);
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
    const struct script_stay *a = left, *b = right;
    if (a->first_use != b->first_use)
        return a->first_use < b->first_use ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

/* Each fetch earlier than its use, as far as its rule lets it and there is room throughout. */
static void fetch_ahead(struct scripting *s)
{
    g_array_sort(s->stays->items, by_first_use);
    for (guint i = 0; i < s->stays->items->len; i++) {
        struct script_stay *stay = &g_array_index(s->stays->items, struct script_stay, i);
        int64_t from = stay->earliest;
        if (!s->script->rules[stay->chunk].early)
            from = MAX(from, MAX(0, stay->first_use - (int64_t)s->script->look_ahead));
        while (stay->fetch && stay->enter > from &&
               s->room[wrap(s, stay->enter - 1)] >= slot(s, stay->chunk)) {
            stay->enter--;
            s->room[wrap(s, stay->enter)] -= slot(s, stay->chunk);
        }
    }
}

/* ---- the schedule ---- */

/* Of one moment's actions: flushes, departures, a wait, arrivals, a wait. */
enum turn { TURN_FLUSH, TURN_LEAVE, TURN_WAIT_OUT, TURN_ENTER, TURN_WAIT_IN };

struct timed {
    uint32_t index; /* of the actions: a moment, or moment_count */
    uint32_t turn;
    int64_t first_use; /* orders arrivals */
    struct plan_action action;
};

static gint by_time(gconstpointer left, gconstpointer right)
{
    const struct timed *a = left, *b = right;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (a->first_use != b->first_use)
        return a->first_use < b->first_use ? -1 : 1;
    return a->action.chunk < b->action.chunk ? -1 : a->action.chunk > b->action.chunk;
}

static void append(GArray *timed, uint32_t index, enum turn turn, enum plan_action_kind kind,
                   const struct script_stay *stay)
{
    struct timed item = {index, turn, stay->first_use, {stay->chunk, (uint8_t)kind, NO_ADDRESS}};
    if (kind == PLAN_WAIT)
        item.action.chunk = 0, item.first_use = 0;
    g_array_append_val(timed, item);
}

/* What may come back before the first operator does so at the end of the iteration before. */
static bool ends_before(const struct scripting *s, const struct script_stay *stay)
{
    return s->script->rules[stay->chunk].early && stay->enter == 0 && stay->earliest <= 0;
}

static uint32_t enter_index(const struct scripting *s, const struct script_stay *stay)
{
    return ends_before(s, stay) ? (uint32_t)s->moments : wrap(s, stay->enter);
}

static void append_stay(const struct scripting *s, const struct script_stay *stay, GArray *timed)
{
    const struct script_rule *rule = &s->script->rules[stay->chunk];
    uint32_t enter = enter_index(s, stay);
    /* What leaves after the last operator leaves in this iteration, not before the next. */
    uint32_t leave = wrap(s, stay->last_use) + 1;
    append(timed, enter, TURN_ENTER, stay->fetch ? PLAN_FETCH : PLAN_ALLOCATE, stay);
    if (rule->blocks_in && stay->fetch)
        append(timed, enter, TURN_WAIT_IN, PLAN_WAIT, stay);
    append(timed, leave, TURN_LEAVE, PLAN_WRITE_BACK, stay);
    if (rule->blocks_out)
        append(timed, leave, TURN_WAIT_OUT, PLAN_WAIT, stay);
}

static GArray *list_actions(const struct scripting *s)
{
    GArray *timed = g_array_new(FALSE, FALSE, sizeof(struct timed));
    for (guint i = 0; i < s->stays->items->len; i++)
        append_stay(s, &g_array_index(s->stays->items, struct script_stay, i), timed);
    for (guint i = 0; i < s->stays->flushes->len; i++) {
        const struct script_flush *flush = &g_array_index(s->stays->flushes, struct script_flush,
                                                          i);
        const struct script_stay of_chunk = {.chunk = flush->chunk};
        append(timed, flush->moment, TURN_FLUSH, PLAN_FLUSH, &of_chunk);
    }
    g_array_sort(timed, by_time);
    return timed;
}

static bool begins_there(const struct scripting *s, const struct script_stay *stay)
{
    return stay->enter < 0 || stay->last_use >= s->moments || ends_before(s, stay);
}

static struct decisions *make_decisions(const struct scripting *s)
{
    struct decisions *decisions = decisions_new(s->context->accesses);
    GArray *timed = list_actions(s);
    guint next = 0;
    for (uint32_t c = 0; c < s->context->layout->chunk_count; c++)
        decisions->initial[c] = s->stays->always[c] || s->homes->on_device[c];
    for (guint i = 0; i < s->stays->items->len; i++) {
        const struct script_stay *stay = &g_array_index(s->stays->items, struct script_stay, i);
        if (begins_there(s, stay))
            decisions->initial[stay->chunk] = 1;
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
                                  const struct script_stays *stays)
{
    g_autofree uint8_t *on_device = g_new0(uint8_t, context->layout->chunk_count);
    for (uint32_t c = 0; c < context->layout->chunk_count; c++)
        on_device[c] = stays->always[c] && !context->host_used[c];
    return homes_assign(context->trace, context->layout, on_device);
}

struct decisions *script_decide(const struct strategy_context *context, const struct script *script,
                                struct homes **homes, uint64_t *needed, GError **error)
{
    struct script_stays *stays = script_stays_new(context, script->rules);
    struct decisions *decisions = NULL;
    *homes = choose_homes(context, stays);
    g_autofree int64_t *room = g_new(int64_t, context->accesses->moment_count);
    struct scripting s = {.context = context,
                          .script = script,
                          .homes = *homes,
                          .stays = stays,
                          .room = room,
                          .moments = context->accesses->moment_count};
    take_room(&s);
    if (check_room(&s, needed, error)) {
        fetch_ahead(&s);
        decisions = make_decisions(&s);
    }
    script_stays_free(stays);
    return decisions;
}
