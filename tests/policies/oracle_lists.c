#include "tests/policies/oracle.h"

static void append(GArray *list, uint32_t chunk)
{
    g_array_append_val(list, chunk);
}

bool oracle_sieve(struct oracle *oracle)
{
    GArray *queue = oracle->lists[0];
    if (oracle_find(queue, oracle->chunk) != NO_INDEX)
        return false;
    if (queue->len == oracle->room) {
        uint32_t place = oracle->hand == NO_INDEX ? 0 : oracle_find(queue, oracle->hand);
        while (oracle->uses[g_array_index(queue, uint32_t, place)] > 1) {
            oracle->uses[g_array_index(queue, uint32_t, place)] = 1;
            place = (place + 1) % queue->len;
        }
        oracle_take(queue, place);
        oracle->hand = place < queue->len ? g_array_index(queue, uint32_t, place) : NO_INDEX;
    }
    append(queue, oracle->chunk);
    return true;
}

/* Follows Figure 4 of the ARC paper, with the names used there. */
enum { T1, T2, B1, B2 };

static void replace(struct oracle *oracle, bool in_b2)
{
    GArray **l = oracle->lists;
    double t1 = l[T1]->len;
    if (l[T1]->len >= 1 && ((in_b2 && t1 == oracle->target) || t1 > oracle->target))
        append(l[B1], oracle_take(l[T1], 0));
    else
        append(l[B2], oracle_take(l[T2], 0));
}

static bool arc_hit(struct oracle *oracle)
{
    for (int list = T1; list <= T2; list++) {
        uint32_t place = oracle_find(oracle->lists[list], oracle->chunk);
        if (place == NO_INDEX)
            continue;
        append(oracle->lists[T2], oracle_take(oracle->lists[list], place));
        return true;
    }
    return false;
}

static bool arc_ghost_hit(struct oracle *oracle)
{
    GArray **l = oracle->lists;
    double b1 = l[B1]->len, b2 = l[B2]->len;
    uint32_t in_b1 = oracle_find(l[B1], oracle->chunk), in_b2 = oracle_find(l[B2], oracle->chunk);
    if (in_b1 == NO_INDEX && in_b2 == NO_INDEX)
        return false;
    if (in_b1 != NO_INDEX) {
        oracle->target = MIN(oracle->target + MAX(b2 / b1, 1), oracle->room);
        oracle_take(l[B1], in_b1);
    } else {
        oracle->target = MAX(oracle->target - MAX(b1 / b2, 1), 0);
        oracle_take(l[B2], in_b2);
    }
    replace(oracle, in_b2 != NO_INDEX);
    append(l[T2], oracle->chunk);
    return true;
}

bool oracle_arc(struct oracle *oracle)
{
    GArray **l = oracle->lists;
    uint32_t c = oracle->room;
    if (arc_hit(oracle))
        return false;
    if (arc_ghost_hit(oracle))
        return true;
    uint32_t total = l[T1]->len + l[T2]->len + l[B1]->len + l[B2]->len;
    if (l[T1]->len + l[B1]->len == c) {
        if (l[T1]->len < c) {
            oracle_take(l[B1], 0);
            replace(oracle, false);
        } else {
            oracle_take(l[T1], 0);
        }
    } else if (total >= c) {
        if (total == 2 * c)
            oracle_take(l[B2], 0);
        replace(oracle, false);
    }
    append(l[T1], oracle->chunk);
    return true;
}

/* Algorithm 1 of the S3-FIFO paper. `uses` counts the first one too, `hand` is unused. */
enum { S, M, G };

static void evict_from_main(struct oracle *oracle)
{
    uint32_t most = oracle->most_uses ? oracle->most_uses : 3;
    for (;;) {
        uint32_t oldest = oracle_take(oracle->lists[M], 0);
        uint32_t frequency = MIN(oracle->uses[oldest] - 1, most);
        if (!frequency)
            return;
        oracle->uses[oldest] = frequency;
        append(oracle->lists[M], oldest);
    }
}

static bool evict_from_small(struct oracle *oracle, uint32_t ghosts)
{
    while (oracle->lists[S]->len) {
        uint32_t oldest = oracle_take(oracle->lists[S], 0);
        if (oracle->uses[oldest] - 1 >= (oracle->promotion ? oracle->promotion : 2)) {
            oracle->uses[oldest] = 1;
            append(oracle->lists[M], oldest);
            continue;
        }
        append(oracle->lists[G], oldest);
        if (oracle->lists[G]->len > ghosts)
            oracle_take(oracle->lists[G], 0);
        return true;
    }
    return false;
}

bool oracle_s3fifo(struct oracle *oracle)
{
    GArray **l = oracle->lists;
    uint32_t main_share = oracle->room - oracle->room / 10;
    if (oracle_find(l[S], oracle->chunk) != NO_INDEX ||
        oracle_find(l[M], oracle->chunk) != NO_INDEX)
        return false;
    uint32_t ghost = oracle_find(l[G], oracle->chunk);
    if (ghost != NO_INDEX)
        oracle_take(l[G], ghost);
    if (l[S]->len + l[M]->len == oracle->room &&
        (l[M]->len > main_share || !evict_from_small(oracle, oracle->room * 9 / 10)))
        evict_from_main(oracle);
    append(l[ghost != NO_INDEX ? M : S], oracle->chunk);
    return true;
}
