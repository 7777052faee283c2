/* Measures what ranks exchange, with the engine's own collectives: between the ranks of a host, and
 * between all ranks where they are on several hosts. */
#include "engine/probe/probe_steps.h"
#include "engine/reduction.h"
#include "engine/shards.h"

#include <math.h>
#include <time.h>

/* ---- the ranks of one host, as ranks of their own ---- */

/* Their messages go through all ranks, of which they have other numbers. */
struct neighbours {
    struct ranks ranks; /* first: see send_among */
    struct ranks *all;
    uint32_t *numbers; /* [ranks.count] among all */
};

static struct ranks_message *renumber(const struct neighbours *neighbours,
                                      const struct ranks_message *messages, uint32_t count)
{
    struct ranks_message *renumbered = g_memdup2(messages, count * sizeof *messages);
    for (uint32_t i = 0; i < count; i++)
        renumbered[i].rank = neighbours->numbers[messages[i].rank];
    return renumbered;
}

static void send_among(struct ranks *ranks, const struct ranks_message *sends, uint32_t send_count,
                       const struct ranks_message *receives, uint32_t receive_count)
{
    const struct neighbours *neighbours = (const struct neighbours *)ranks;
    g_autofree struct ranks_message *sent = renumber(neighbours, sends, send_count);
    g_autofree struct ranks_message *received = renumber(neighbours, receives, receive_count);
    neighbours->all->ops->transfer(neighbours->all, sent, send_count, received, receive_count);
}

static void copy_own(struct ranks *ranks, void *to, const void *from, uint64_t bytes)
{
    struct ranks *all = ((const struct neighbours *)ranks)->all;
    all->ops->copy(all, to, from, bytes);
}

static const struct ranks_ops among_neighbours = {.transfer = send_among, .copy = copy_own};

static struct neighbours *neighbours_new(struct ranks *all)
{
    struct neighbours *neighbours = g_new0(struct neighbours, 1);
    neighbours->all = all;
    neighbours->numbers = g_new(uint32_t, all->count);
    neighbours->ranks.ops = &among_neighbours;
    for (uint32_t r = 0; r < all->count; r++)
        if (g_str_equal(all->hosts[r], all->hosts[all->rank])) {
            if (r == all->rank)
                neighbours->ranks.rank = neighbours->ranks.count;
            neighbours->numbers[neighbours->ranks.count++] = r;
        }
    return neighbours;
}

static void neighbours_free(struct neighbours *neighbours)
{
    g_free(neighbours->numbers);
    g_free(neighbours);
}

/* ---- collectives ---- */

/* Tensors of 1 KiB to 64 MiB, in fp32. */
enum { LEAST_ELEMENTS = 1 << 8, MOST_ELEMENTS = 1 << 24, LEAST_TRIES = 5, MOST_TRIES = 100 };
#define ENOUGH_SECONDS  0.1 /* after so much of them, no collective is repeated */
#define LONGEST_SECONDS 0.4 /* a collective that takes longer is the last */

struct collective {
    struct ranks *ranks;
    struct reduction *reduction;
    enum platform_collective kind;
    uint64_t elements;
    uint64_t first; /* of the elements that are used */
    float *whole;   /* [MOST_ELEMENTS] */
    float *sum;     /* [MOST_ELEMENTS] the rank's shard of it is used */
};

/* Goes on to elements that no cache has, if there are any: in a step each tensor is exchanged once.
 */
static void go_on(struct collective *c)
{
    c->first += c->elements;
    if (c->first + c->elements > MOST_ELEMENTS)
        c->first = 0;
}

static void run_once(const struct collective *c)
{
    const struct reduction_sum sum = {
        .elements = c->elements, .gradients = {c->whole + c->first}, .sum = c->sum + c->first};
    const struct shard_whole whole = {c->elements, c->whole + c->first};
    if (c->kind == PLATFORM_REDUCE)
        reduction_add(c->reduction, &sum, 1);
    else
        shards_gather(c->ranks, &whole, 1, sizeof *c->whole);
}

/* Returns the processor time of all of this process's threads. */
static double processor_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct taken {
    double seconds, core_seconds;
};

/* Returns the time of the slowest rank, and the most processor time. All ranks return the same. */
static struct taken time_once(const struct collective *c)
{
    g_autofree struct taken *all = g_new0(struct taken, c->ranks->count);
    struct taken slowest = {0, 0};
    ranks_share(c->ranks, sizeof *all, all); /* so that they begin together */
    double start = probe_now(), processor = processor_now();
    run_once(c);
    all[c->ranks->rank] = (struct taken){probe_now() - start, processor_now() - processor};
    ranks_share(c->ranks, sizeof *all, all);
    for (uint32_t r = 0; r < c->ranks->count; r++) {
        slowest.seconds = fmax(slowest.seconds, all[r].seconds);
        slowest.core_seconds = fmax(slowest.core_seconds, all[r].core_seconds);
    }
    return slowest;
}

/* Returns the medians, after a run that is not counted. The ranks repeat alike, because they know
 * the same times. */
static struct taken measure(struct collective *c)
{
    double seconds[MOST_TRIES], core_seconds[MOST_TRIES], all = 0;
    uint32_t tries = 0;
    c->first = 0;
    time_once(c);
    while (tries < LEAST_TRIES || (tries < MOST_TRIES && all < ENOUGH_SECONDS)) {
        go_on(c);
        const struct taken once = time_once(c);
        seconds[tries] = once.seconds;
        core_seconds[tries++] = once.core_seconds;
        all += once.seconds;
    }
    return (struct taken){probe_median(seconds, tries), probe_median(core_seconds, tries)};
}

/* A larger collective takes at least as long as a smaller one, whatever noise is in the times. */
static void add_exchange(struct platform_level *level, const struct collective *c,
                         struct taken taken)
{
    uint32_t count = level->point_count[c->kind]++;
    level->points[c->kind] = g_renew(struct platform_exchange, level->points[c->kind], count + 1);
    struct platform_exchange *point = &level->points[c->kind][count];
    *point = (struct platform_exchange){.ranks = c->ranks->count,
                                        .bytes = (double)c->elements * sizeof(float),
                                        .seconds = taken.seconds,
                                        .core_seconds = taken.core_seconds};
    if (count > 0) {
        point->seconds = fmax(point->seconds, point[-1].seconds);
        point->core_seconds = fmax(point->core_seconds, point[-1].core_seconds);
    }
}

/* Fresh memory has no pages before it is written. */
static float *ones(void)
{
    float *memory = g_new(float, MOST_ELEMENTS);
    for (uint64_t i = 0; i < MOST_ELEMENTS; i++)
        memory[i] = 1;
    return memory;
}

static void measure_level(struct ranks *ranks, struct platform_level *level)
{
    struct collective c = {
        .ranks = ranks, .reduction = reduction_new(ranks, NULL), .whole = ones(), .sum = ones()};
    for (int kind = 0; kind < PLATFORM_COLLECTIVES; kind++) {
        struct taken taken = {0, 0};
        c.kind = (enum platform_collective)kind;
        for (c.elements = LEAST_ELEMENTS;
             c.elements <= MOST_ELEMENTS && taken.seconds < LONGEST_SECONDS; c.elements *= 4) {
            taken = measure(&c);
            add_exchange(level, &c, taken);
        }
    }
    g_free(c.sum);
    g_free(c.whole);
    reduction_free(c.reduction);
}

/* ---- levels ---- */

static uint32_t hosts_of(const struct ranks *ranks)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
    for (uint32_t r = 0; r < ranks->count; r++)
        g_hash_table_add(hosts, ranks->hosts[r]);
    return g_hash_table_size(hosts);
}

void probe_node(struct ranks *ranks, struct platform *platform)
{
    struct neighbours *neighbours = neighbours_new(ranks);
    uint32_t count = neighbours->ranks.count;
    if (count > 1) {
        platform->node.gpus = count;
        platform->node.gpus_per_switch = 1;
        platform->node.level.source = g_strdup_printf(
            "pstar-run's gather and its ordered reduction, %u ranks on %s, median of the slowest "
            "rank",
            count, ranks->hosts[ranks->rank]);
        measure_level(&neighbours->ranks, &platform->node.level);
    }
    neighbours_free(neighbours);
}

void probe_network(struct ranks *ranks, struct platform *platform)
{
    uint32_t hosts = hosts_of(ranks);
    if (hosts == 1)
        return;
    platform->network.source = g_strdup_printf(
        "pstar-run's gather and its ordered reduction, %u ranks on %u hosts, median of the slowest "
        "rank",
        ranks->count, hosts);
    measure_level(ranks, &platform->network);
}

void probe_shared_host(const struct ranks *ranks, struct platform *platform)
{
    const struct platform_curve *updates = &platform->host_update;
    const struct platform_point *last = &updates->points[updates->count - 1];
    struct platform_curve *threads = &platform->extra[PLATFORM_UPDATE_THREADS];
    if (ranks->node_count == 1)
        return;
    if (platform->host.source) { /* measured by all ranks at the same time */
        platform->host.bytes_per_second *= ranks->node_count;
        platform->host.ranks = ranks->node_count;
    } else {
        platform->host = (struct platform_host){
            .source = g_strdup_printf("AdamW in fp32, by %u ranks at the same time",
                                      ranks->node_count),
            .bytes_per_second = ranks->node_count * PROBE_UPDATE_BYTES * last->amount /
                                last->seconds,
            .ranks = ranks->node_count,
            .bound = true,
            .binding_speed_up = 1};
    }
    g_free(threads->points);
    g_free(threads->source);
    *threads = (struct platform_curve){0};
}
