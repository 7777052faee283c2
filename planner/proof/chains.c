#include "planner/proof/chains.h"

#include <string.h>

/* Chains are proposed between the operators that take the longest with their copies: so many of
 * many operators, or of a few. */
enum { LONGEST_OF_MANY = 4, LONGEST_OF_FEW = 6, MANY_OPERATORS = 200 };

void chain_operators_free(struct chain_operators *operators)
{
    if (!operators)
        return;
    for (uint32_t k = 0; k < operators->count; k++) {
        g_array_unref(operators->items[k].before);
        g_array_unref(operators->items[k].after);
    }
    g_free(operators->items);
    g_free(operators->device_ns);
    g_free(operators->device_count);
    g_free(operators);
}

void chain_clear(void *chain)
{
    g_clear_pointer(&((struct time_chain *)chain)->host_ns, g_free);
}

/* ---- windows ---- */

/* Returns what the device computes in any case, and waits for activations, from one moment to
 * before another one, both counted from the beginning of an iteration and up to two of them later.
 */
static uint64_t device_between(const struct chain_operators *operators, uint32_t from, uint32_t to)
{
    uint32_t moments = operators->moment_count;
    const uint64_t *sum = operators->device_ns;
    return to / moments * sum[moments] + sum[to % moments] - from / moments * sum[moments] -
           sum[from % moments];
}

/* Returns whether all that the device does before the update is over after this moment. */
static bool is_last_before_update(const struct chain_operators *operators,
                                  const struct time_window *window, moment_id moment)
{
    return window->of_update && window->moment > moment &&
           operators->device_count[window->moment] == operators->device_count[moment + 1];
}

/* Returns whether the window begins as soon as the operator of this moment is over. */
static bool begins_after(const struct chain_operators *operators, const struct time_window *window,
                         moment_id moment)
{
    return (window->begins == WINDOW_AFTER_OPERATOR && window->moment == moment) ||
           is_last_before_update(operators, window, moment);
}

/* Returns the last window that begins when operator `from` is over, or the one in which it begins
 * if there is none. */
static uint32_t find_first(const struct chain_operators *operators,
                           const struct time_windows *windows, moment_id from)
{
    uint32_t first = windows->of_moment[from];
    while (begins_after(operators, &windows->items[(first + 1) % windows->count], from))
        first = (first + 1) % windows->count;
    return first;
}

/* Finds the windows that contain the chain, and what the device does in them before and after. */
static void find_windows(const struct chain_operators *operators,
                         const struct time_windows *windows, struct time_chain *chain)
{
    uint32_t moments = windows->moment_count, from = chain->ends.from, to = chain->ends.to;
    uint32_t first = find_first(operators, windows, from);
    uint32_t begin = from - (from + moments - time_window_first(&windows->items[first])) % moments +
                     moments;
    uint32_t last = windows->of_moment[to % moments], end;
    if (first != windows->of_moment[from])
        begin = time_window_first(&windows->items[first]) + moments;
    else
        chain->always_ns += device_between(operators, begin, from + moments + 1);
    end = to + moments - (to + moments - time_window_first(&windows->items[last])) % moments;
    if (!time_windows_begin(windows, to % moments)) {
        uint32_t after = (last + 1) % windows->count;
        uint32_t length = (time_window_first(&windows->items[after]) + moments -
                           time_window_first(&windows->items[last])) %
                          moments;
        end += length ? length : moments; /* it contains `to`, so it is not empty */
        last = after;
    }
    chain->window = (uint16_t)first;
    if (end >= begin + moments) {
        chain->span = (uint16_t)windows->count;
        chain->always_ns = device_between(operators, to, from + moments + 1);
        return;
    }
    chain->span = (uint16_t)((last + windows->count - first) % windows->count);
    chain->always_ns += device_between(operators, to + moments, end);
}

/* ---- a chain ---- */

static uint64_t sum_before(const struct chain_operator *op, uint32_t at, uint32_t from)
{
    uint64_t sum = 0;
    for (guint i = 0; i < op->before->len; i++) {
        const struct chain_copy *copy = &g_array_index(op->before, struct chain_copy, i);
        sum += at >= from + copy->span ? copy->ns : 0;
    }
    return sum;
}

static uint64_t sum_after(const struct chain_operator *op, uint32_t at, uint32_t to)
{
    uint64_t sum = 0;
    for (guint i = 0; i < op->after->len; i++) {
        const struct chain_copy *copy = &g_array_index(op->after, struct chain_copy, i);
        sum += at + copy->span <= to ? copy->ns : 0;
    }
    return sum;
}

/* Returns what the chain takes of an operator and its copies. `at` is its moment, in this iteration
 * or the next one. */
static uint64_t share_of(const struct chain_operator *op, uint32_t at,
                         const struct certificate_chain *ends)
{
    bool is_over = at + op->over <= ends->to, is_released = at >= ends->from + op->released;
    uint64_t ns = 0;
    if (at <= ends->first && is_over)
        ns += sum_before(op, at, ends->from);
    if (at >= ends->first && at <= ends->last && is_over && is_released)
        ns += op->host_ns;
    if (at >= ends->last && is_released)
        ns += sum_after(op, at, ends->to);
    return ns;
}

static bool ends_are_possible(const struct certificate_chain *ends, uint32_t moments)
{
    return ends->from < moments && ends->from < ends->first && ends->first <= ends->last &&
           ends->last < ends->to && ends->to <= ends->from + moments;
}

static bool is_device(const struct chain_operators *operators, uint32_t moment)
{
    uint32_t m = moment % operators->moment_count;
    return operators->device_count[m + 1] > operators->device_count[m];
}

bool chain_make(const struct chain_operators *operators, const struct time_windows *windows,
                const struct certificate_chain *ends, struct time_chain *chain)
{
    if (!operators || !ends_are_possible(ends, operators->moment_count) ||
        !is_device(operators, ends->from) || !is_device(operators, ends->to))
        return false;
    *chain = (struct time_chain){.ends = *ends};
    chain->host_ns = g_new0(uint64_t, operators->block_count);
    find_windows(operators, windows, chain);
    for (uint32_t k = 0; k < operators->count; k++)
        for (uint32_t cycle = 0; cycle < 2; cycle++) {
            const struct chain_operator *op = &operators->items[k];
            uint64_t *sum = op->block == NO_INDEX ? &chain->always_ns : &chain->host_ns[op->block];
            *sum += share_of(op, op->moment + cycle * operators->moment_count, ends);
        }
    return true;
}

/* ---- proposals ---- */

static uint64_t sum_copies(const GArray *copies)
{
    uint64_t sum = 0;
    for (guint i = 0; i < copies->len; i++)
        sum += g_array_index(copies, struct chain_copy, i).ns;
    return sum;
}

static uint64_t length_of(const struct chain_operator *op)
{
    return op->host_ns + sum_copies(op->before) + sum_copies(op->after);
}

/* Returns the indices of the longest operators, the first and the last one, ascending. */
static GArray *find_longest(const struct chain_operators *operators)
{
    GArray *longest = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree uint8_t *taken = g_new0(uint8_t, operators->count);
    int most = operators->count > MANY_OPERATORS ? LONGEST_OF_MANY : LONGEST_OF_FEW;
    for (int i = 0; i < most; i++) {
        uint32_t best = NO_INDEX;
        for (uint32_t k = 0; k < operators->count; k++)
            if (!taken[k] && (best == NO_INDEX ||
                              length_of(&operators->items[k]) > length_of(&operators->items[best])))
                best = k;
        if (best != NO_INDEX)
            taken[best] = 1;
    }
    for (uint32_t k = 0; k < operators->count; k++)
        if (taken[k] || k == 0 || k + 1 == operators->count)
            g_array_append_val(longest, k);
    return longest;
}

struct chain_proposals {
    const struct chain_operators *operators;
    const struct time_windows *windows;
    GArray *chains;    /* struct time_chain */
    GHashTable *known; /* of their ends */
};

static guint hash_ends(gconstpointer key)
{
    const struct certificate_chain *ends = key;
    return ((ends->from * 31 + ends->first) * 31 + ends->last) * 31 + ends->to;
}

static gboolean same_ends(gconstpointer a, gconstpointer b)
{
    return !memcmp(a, b, sizeof(struct certificate_chain));
}

/* Returns whether the chain can be longer than the device's work in its windows. */
static bool may_matter(const struct chain_proposals *p, const struct time_chain *chain)
{
    uint64_t length = chain->always_ns, work = 0;
    for (uint32_t b = 0; b < p->operators->block_count; b++)
        length += chain->host_ns[b];
    for (uint32_t i = 0; i < chain->span; i++) {
        uint32_t w = (chain->window + i) % p->windows->count;
        uint32_t begin = time_window_first(&p->windows->items[w]);
        uint32_t end = time_window_first(&p->windows->items[(w + 1) % p->windows->count]);
        uint32_t cycle = w + 1 == p->windows->count ? p->operators->moment_count : 0;
        work += device_between(p->operators, begin, end + cycle);
    }
    return length > work;
}

static void propose(struct chain_proposals *p, struct certificate_chain ends)
{
    uint32_t moments = p->operators->moment_count, whole = ends.from / moments * moments;
    struct time_chain chain;
    ends.from -= whole;
    ends.first -= whole;
    ends.last -= whole;
    ends.to -= whole;
    if (g_hash_table_contains(p->known, &ends))
        return;
    g_hash_table_add(p->known, g_memdup2(&ends, sizeof ends));
    if (!chain_make(p->operators, p->windows, &ends, &chain))
        return;
    if (may_matter(p, &chain))
        g_array_append_val(p->chains, chain);
    else
        chain_clear(&chain);
}

/* Appends the distinct spans of copies, and another one. */
static GArray *list_spans(const GArray *copies, uint32_t other)
{
    GArray *spans = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(spans, other);
    for (guint i = 0; i < copies->len; i++) {
        uint32_t span = g_array_index(copies, struct chain_copy, i).span;
        bool known = false;
        for (guint k = 0; k < spans->len; k++)
            known |= g_array_index(spans, uint32_t, k) == span;
        if (!known)
            g_array_append_val(spans, span);
    }
    return spans;
}

/* Proposes chains with copies to the host from that of operator in[0] on, operators of the host
 * from in[1] to in[2], and copies to the device up to that of in[3]. Each is a moment, and not
 * before the previous one; index[] says which operator it is. */
static void propose_between(struct chain_proposals *p, const uint32_t index[4],
                            const uint32_t in[4])
{
    g_autoptr(GArray) since = list_spans(p->operators->items[index[0]].before,
                                         p->operators->items[index[0]].released);
    g_autoptr(GArray)
        until = list_spans(p->operators->items[index[3]].after, p->operators->items[index[3]].over);
    for (guint i = 0; i < since->len; i++)
        for (guint k = 0; k < until->len; k++) {
            const struct certificate_chain ends = {.from = in[0] -
                                                           g_array_index(since, uint32_t, i),
                                                   .first = in[1],
                                                   .last = in[2],
                                                   .to = in[3] + g_array_index(until, uint32_t, k)};
            propose(p, ends);
        }
}

/* Proposes chains whose operators are among the longest, from `begin` on in their order. */
static void propose_from(struct chain_proposals *p, const GArray *longest, guint begin)
{
    uint32_t moments = p->operators->moment_count;
    for (guint a = begin; a < begin + longest->len; a++)
        for (guint b = a; b < begin + longest->len; b++)
            for (guint c = b; c < begin + longest->len; c++) {
                const guint places[] = {begin, a, b, c};
                uint32_t index[4], in[4];
                for (int i = 0; i < 4; i++) {
                    index[i] = g_array_index(longest, uint32_t, places[i] % longest->len);
                    in[i] = p->operators->items[index[i]].moment +
                            moments * (1 + places[i] / longest->len);
                }
                propose_between(p, index, in);
            }
}

GArray *chains_propose(const struct chain_operators *operators, const struct time_windows *windows)
{
    struct chain_proposals proposals = {operators, windows,
                                        g_array_new(FALSE, FALSE, sizeof(struct time_chain)),
                                        g_hash_table_new_full(hash_ends, same_ends, g_free, NULL)};
    g_array_set_clear_func(proposals.chains, chain_clear);
    if (operators) {
        g_autoptr(GArray) longest = find_longest(operators);
        for (guint i = 0; i < longest->len; i++)
            propose_from(&proposals, longest, i);
    }
    g_hash_table_unref(proposals.known);
    return proposals.chains;
}
