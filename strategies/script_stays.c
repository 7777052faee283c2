#include "strategies/script_stays.h"

/* A chunk's accesses, in the order of moments. */
struct use {
    uint32_t moment, flags;
};

struct maker {
    const struct strategy_context *context;
    const struct script_rule *rules;
    struct script_stays *stays;
    const struct use *uses; /* of the current chunk, on the device and on the host */
    uint32_t use_count;
    uint32_t chunk;
    int64_t moments; /* of an iteration */
};

static bool on_host(const struct use *use)
{
    return use->flags & ACCESS_ON_HOST;
}

/* Uses are numbered on through the iterations: the moments of those before the one of `index`. */
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

/* The next use on the device after `index`; there is one, if only itself. */
static uint32_t next_on_device(const struct maker *maker, uint32_t index)
{
    do
        index++;
    while (on_host(use_at(maker, index)));
    return index;
}

/* Whether no operator but those of the two uses' layers runs in between. */
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

/* Whether the chunk stays between two uses on the device that follow each other. */
static bool is_kept(const struct maker *maker, uint32_t from, uint32_t to)
{
    const struct script_rule *rule = &maker->rules[maker->chunk];
    for (uint32_t i = from + 1; i < to; i++)
        if (rule->offloads || use_at(maker, i)->flags & ACCESS_WRITES)
            return false;
    int64_t round = round_of(maker, from);
    return rule->stays ||
           is_one_visit(maker, moment_of(maker, from) - round, moment_of(maker, to) - round);
}

static void flush_between(struct maker *maker, uint32_t from, uint32_t to)
{
    for (uint32_t i = from + 1; i < to; i++) {
        struct script_flush flush = {maker->chunk, use_at(maker, i)->moment};
        if (on_host(use_at(maker, i)))
            g_array_append_val(maker->stays->flushes, flush);
    }
}

/* The first moment after the use `before` left and the last host operator wrote. */
static int64_t earliest_after(const struct maker *maker, uint32_t before, uint32_t first)
{
    int64_t earliest = moment_of(maker, before) + 1;
    for (uint32_t i = before + 1; i < first; i++)
        if (use_at(maker, i)->flags & ACCESS_WRITES)
            earliest = moment_of(maker, i) + 1;
    return earliest;
}

/* The stay that begins with use `first`, after `before`; returns its last use. */
static uint32_t add_stay(struct maker *maker, uint32_t before, uint32_t first)
{
    uint32_t last = first, next;
    while (next = next_on_device(maker, last), is_kept(maker, last, next)) {
        flush_between(maker, last, next);
        last = next;
    }
    int64_t round = round_of(maker, first);
    struct script_stay stay = {.chunk = maker->chunk,
                               .first_use = moment_of(maker, first) - round,
                               .last_use = moment_of(maker, last) - round,
                               .earliest = earliest_after(maker, before, first) - round,
                               .enter = moment_of(maker, first) - round,
                               .fetch = !(use_at(maker, first)->flags & ACCESS_FRESH)};
    g_array_append_val(maker->stays->items, stay);
    return last;
}

static void add_chunk(struct maker *maker)
{
    uint32_t first = 0;
    while (first < maker->use_count && on_host(&maker->uses[first]))
        first++;
    if (first == maker->use_count)
        return;
    /* A use after which it leaves: the stays begin after it. */
    uint32_t before = first, next;
    while (next = next_on_device(maker, before), is_kept(maker, before, next)) {
        before = next;
        if (before >= first + maker->use_count) {
            maker->stays->always[maker->chunk] = 1;
            flush_between(maker, first, first + maker->use_count);
            return;
        }
    }
    for (uint32_t end = before + maker->use_count; before < end;)
        before = add_stay(maker, before, next_on_device(maker, before));
}

/* The accesses by chunk: first[c] to first[c + 1]. */
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

struct script_stays *script_stays_new(const struct strategy_context *context,
                                      const struct script_rule *rules)
{
    uint32_t chunks = context->layout->chunk_count;
    struct script_stays *stays = g_new(struct script_stays, 1);
    stays->items = g_array_new(FALSE, FALSE, sizeof(struct script_stay));
    stays->flushes = g_array_new(FALSE, FALSE, sizeof(struct script_flush));
    stays->always = g_new0(uint8_t, chunks);

    g_autofree uint32_t *first = g_new0(uint32_t, chunks + 1);
    g_autofree struct use *uses = sort_by_chunk(context->accesses, first);
    struct maker maker = {.context = context,
                          .rules = rules,
                          .stays = stays,
                          .moments = context->accesses->moment_count};
    for (uint32_t c = 0; c < chunks; c++) {
        maker.chunk = c;
        maker.uses = uses + first[c];
        maker.use_count = first[c + 1] - first[c];
        add_chunk(&maker);
    }
    return stays;
}

void script_stays_free(struct script_stays *stays)
{
    if (!stays)
        return;
    g_array_free(stays->items, TRUE);
    g_array_free(stays->flushes, TRUE);
    g_free(stays->always);
    g_free(stays);
}
