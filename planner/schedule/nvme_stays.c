#include "planner/schedule/nvme_stays.h"

#include "planner/schedule/retention.h"

/* The uses of the chunks that may live in NVMe, as reuse intervals. Moments are items. */
struct pool {
    const struct nvme_stays_job *job;
    const uint8_t *on_host; /* [chunk_count] chunks that live on the host */
    struct reuses *reuses;
};

static bool can_live_there(const struct nvme_uses *uses, chunk_id chunk)
{
    enum nvme_kind kind = nvme_uses_kind(uses, chunk);
    return kind == NVME_STATES || kind == NVME_COMES;
}

static uint32_t flags_between(const struct nvme_use *use, const struct nvme_use *next)
{
    return (use->writes ? REUSE_DIRTIES : 0u) | (use->stored ? 0u : REUSE_DEAD) |
           (next->reads ? REUSE_REFETCH : 0u);
}

/* No slot is kept from one iteration to the next, unless the chunk never leaves it. */
static void add_chunk(struct pool *pool, chunk_id chunk, bool wraps)
{
    const struct nvme_uses *uses = pool->job->uses;
    struct reuses *reuses = pool->reuses;
    uint32_t count = nvme_uses_count(uses, chunk);
    for (uint32_t i = 0; i < count; i++) {
        const struct nvme_use use = nvme_uses_at(uses, chunk, i),
                              next = nvme_uses_at(uses, chunk, (i + 1) % count);
        bool last = i + 1 == count;
        reuses->items[reuses->count++] = (struct reuse){
            .chunk = chunk,
            .from = use.item,
            .to = next.item,
            .flags = flags_between(&use, &next) | (last && !wraps ? (uint32_t)REUSE_LEAVES : 0)};
        reuses->room[use.item] -= (int64_t)reuses->slot_bytes[chunk];
    }
}

/* Returns the host's bytes beside what always lies there. */
static int64_t free_bytes(const struct pool *pool)
{
    const struct nvme_stays_job *job = pool->job;
    const struct layout *layout = job->plan->layout;
    uint64_t taken = job->plan->host_pool_bytes + PLAN_NVME_ALIGNMENT;
    for (chunk_id c = 0; c < layout->chunk_count; c++)
        if (nvme_uses_kind(job->uses, c) != NVME_NEVER && !pool->on_host[c])
            taken -= layout->chunks[c].copy_bytes;
    return (int64_t)job->host_bytes - (int64_t)taken;
}

/* `wraps`: chunks may stay from one iteration to the next. */
static void pool_fill(struct pool *pool, bool wraps)
{
    const struct nvme_stays_job *job = pool->job;
    const struct layout *layout = job->plan->layout;
    uint32_t chunks = layout->chunk_count, uses = 0;
    struct reuses *reuses = pool->reuses = reuses_begin(chunks, nvme_items(job->plan));
    for (chunk_id c = 0; c < chunks; c++)
        uses += nvme_uses_count(job->uses, c);
    reuses->items = g_new0(struct reuse, uses);
    int64_t room = free_bytes(pool);
    for (uint32_t i = 0; i < reuses->moment_count; i++)
        reuses->room[i] = room;
    for (chunk_id c = 0; c < chunks; c++) {
        reuses->slot_bytes[c] = reuses->copy_bytes[c] = reuses->worth[c] = plan_nvme_slot(layout,
                                                                                          c);
        if (can_live_there(job->uses, c) && !pool->on_host[c])
            add_chunk(pool, c, wraps);
        reuses->first[c + 1] = reuses->count;
    }
    for (uint32_t i = 0; i < reuses->moment_count; i++)
        reuses->room[i] -= MAX(0, (int64_t)((double)reuses->room[i] * job->ahead_share));
    reuses_find_writes(reuses);
}

static bool has_room(const struct reuses *reuses)
{
    for (uint32_t i = 0; i < reuses->moment_count; i++)
        if (reuses->room[i] < 0)
            return false;
    return true;
}

static struct retention *retain(const struct pool *pool)
{
    const struct retention_bias bias = {
        .d2h_share = pool->job->write_share, .gather_share = BIAS_PARTS / 2, .spread = true};
    struct retention *retention = retention_new(pool->reuses);
    retention_choose(retention, &bias);
    return retention;
}

static bool stays_always(const struct reuses *reuses, const struct retention *retention,
                         chunk_id chunk)
{
    uint32_t begin = reuses->first[chunk], end = reuses->first[chunk + 1];
    for (uint32_t g = begin; g < end; g++)
        if (!retention->retained[g])
            return false;
    return begin < end;
}

/* Marks in `on_host` the chunks that stay always. Returns whether there was room. */
static bool find_on_host(const struct nvme_stays_job *job, uint8_t *on_host)
{
    struct pool pool = {job, on_host, NULL};
    pool_fill(&pool, true);
    bool fits = has_room(pool.reuses);
    if (fits) {
        struct retention *retention = retain(&pool);
        for (chunk_id c = 0; c < pool.reuses->chunk_count; c++)
            on_host[c] = stays_always(pool.reuses, retention, c);
        retention_free(retention);
    }
    reuses_free(pool.reuses);
    return fits;
}

static struct nvme_stays *stays_of(const struct pool *pool, const struct retention *retention)
{
    const struct nvme_uses *uses = pool->job->uses;
    const struct reuses *reuses = pool->reuses;
    uint32_t chunks = reuses->chunk_count;
    struct nvme_stays *stays = g_new0(struct nvme_stays, 1);
    stays->lives = g_new0(uint8_t, chunks);
    stays->first = g_memdup2(reuses->first, (chunks + 1) * sizeof *stays->first);
    stays->stays = g_memdup2(retention->retained, reuses->count);
    for (chunk_id c = 0; c < chunks; c++)
        stays->lives[c] = nvme_uses_kind(uses, c) == NVME_RESTS ||
                          (can_live_there(uses, c) && !pool->on_host[c]);
    return stays;
}

struct nvme_stays *nvme_stays_find(const struct nvme_stays_job *job)
{
    g_autofree uint8_t *on_host = g_new0(uint8_t, job->plan->layout->chunk_count);
    if (!find_on_host(job, on_host))
        return NULL;
    struct pool pool = {job, on_host, NULL};
    pool_fill(&pool, false);
    struct nvme_stays *stays = NULL;
    if (has_room(pool.reuses)) {
        struct retention *retention = retain(&pool);
        stays = stays_of(&pool, retention);
        retention_free(retention);
    }
    reuses_free(pool.reuses);
    return stays;
}

void nvme_stays_free(struct nvme_stays *stays)
{
    if (!stays)
        return;
    g_free(stays->lives);
    g_free(stays->first);
    g_free(stays->stays);
    g_free(stays);
}
