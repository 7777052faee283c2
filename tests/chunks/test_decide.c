/* Compares decide() with a plain version that follows the same rules, with every search from end to
 * end. */
#include "chunks/decide.h"
#include "tests/chunks/random_iteration.h"

#include <string.h>

struct plain {
    const struct layout *layout;
    const struct accesses *accesses;
    const struct homes *homes;
    const struct decide_options *options;
    uint64_t device_budget;
    struct decisions *record;
    bool recording;
    uint32_t iteration, moment, clock;
    uint8_t *resident, *dirty, *pinned; /* [chunk_count] */
    uint32_t *came, *used;              /* [chunk_count] when, by the clock */
};

static bool is_on_host(const struct plain *p, uint32_t moment)
{
    uint32_t a = p->accesses->first[moment];
    return a < p->accesses->first[moment + 1] && p->accesses->items[a].flags & ACCESS_ON_HOST;
}

static bool is_used_at(const struct plain *p, uint32_t chunk, uint32_t moment)
{
    for (uint32_t a = p->accesses->first[moment]; a < p->accesses->first[moment + 1]; a++)
        if (p->accesses->items[a].chunk == chunk)
            return true;
    return false;
}

/* Moments until the next use on the device; `from` counts, unless it is behind the operator. */
static uint32_t distance(const struct plain *p, uint32_t chunk, uint32_t from)
{
    uint32_t moments = p->accesses->moment_count, ahead = 0;
    while (is_on_host(p, (from + ahead) % moments) ||
           !is_used_at(p, chunk, (from + ahead) % moments))
        ahead++;
    return ahead;
}

static uint32_t rank(const struct plain *p, uint32_t chunk)
{
    if (p->options->policy == &policy_fifo)
        return UINT32_MAX - p->came[chunk];
    if (p->options->policy == &policy_lru)
        return UINT32_MAX - p->used[chunk];
    return distance(p, chunk, p->moment % p->accesses->moment_count);
}

static uint64_t used_bytes(const struct plain *p)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < p->layout->chunk_count; c++)
        bytes += p->resident[c] ? p->layout->chunks[c].slot_bytes : 0;
    return bytes;
}

/* Returns whether the chunk holds anything when the moment begins. */
static bool is_alive_at(const struct plain *p, uint32_t chunk, uint32_t moment)
{
    const struct accesses *accesses = p->accesses;
    for (uint32_t back = 1; back <= accesses->moment_count; back++) {
        uint32_t m = (moment + accesses->moment_count - back) % accesses->moment_count;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (accesses->items[a].chunk == chunk)
                return !(accesses->items[a].flags & ACCESS_LAST);
    }
    return false;
}

/* Homed chunks count as used, and so do those that have no home while they hold anything. */
static uint64_t needed_at(const struct plain *p, uint32_t moment)
{
    uint64_t bytes = p->homes->device_slot_bytes;
    for (uint32_t c = 0; c < p->layout->chunk_count; c++)
        if ((!p->homes->on_device[c] && !is_on_host(p, moment) && is_used_at(p, c, moment)) ||
            (p->homes->transient[c] && is_alive_at(p, c, moment)))
            bytes += p->layout->chunks[c].slot_bytes;
    return bytes;
}

static uint64_t room_at(const struct plain *p, uint32_t moment)
{
    uint64_t most = p->device_budget - p->accesses->non_model[moment];
    uint64_t least = needed_at(p, moment);
    return most - least < p->options->spare_bytes ? least : most - p->options->spare_bytes;
}

static void note(struct plain *p, enum plan_action_kind kind, uint32_t chunk)
{
    struct plan_action action = {.chunk = chunk, .kind = (uint8_t)kind, .address = NO_ADDRESS};
    if (p->recording)
        g_array_append_val(p->record->actions, action);
}

static void leave(struct plain *p, uint32_t chunk)
{
    note(p, p->dirty[chunk] ? PLAN_WRITE_BACK : PLAN_DROP, chunk);
    p->resident[chunk] = p->dirty[chunk] = 0;
}

static void enter(struct plain *p, enum plan_action_kind kind, uint32_t chunk)
{
    note(p, kind, chunk);
    p->resident[chunk] = 1;
    p->came[chunk] = p->used[chunk] = ++p->clock;
}

static bool make_room(struct plain *p, uint64_t bytes, uint64_t room)
{
    while (used_bytes(p) + bytes > room) {
        uint32_t victim = NO_INDEX;
        for (uint32_t c = 0; c < p->layout->chunk_count; c++)
            if (p->resident[c] && !p->pinned[c] && !p->homes->on_device[c] &&
                !p->homes->transient[c] && (victim == NO_INDEX || rank(p, c) > rank(p, victim)))
                victim = c;
        if (victim == NO_INDEX)
            return false;
        leave(p, victim);
    }
    return true;
}

static void serve(struct plain *p, bool on_host)
{
    const struct accesses *accesses = p->accesses;
    uint32_t begin = accesses->first[p->moment], end = accesses->first[p->moment + 1];
    for (uint32_t a = begin; a < end; a++) {
        uint32_t chunk = accesses->items[a].chunk;
        p->pinned[chunk] = !on_host;
        if (!on_host || !p->resident[chunk])
            continue;
        if (accesses->items[a].flags & ACCESS_WRITES)
            leave(p, chunk);
        else
            note(p, PLAN_FLUSH, chunk);
        p->dirty[chunk] = 0;
    }
    g_assert_true(make_room(p, 0, room_at(p, p->moment)));
    for (uint32_t a = begin; a < end && !on_host; a++) {
        uint32_t chunk = accesses->items[a].chunk;
        if (p->resident[chunk])
            continue;
        g_assert_true(make_room(p, p->layout->chunks[chunk].slot_bytes, room_at(p, p->moment)));
        enter(p, accesses->items[a].flags & ACCESS_FRESH ? PLAN_ALLOCATE : PLAN_FETCH, chunk);
    }
}

/* Whether an earlier moment of the window, the current one included, accesses the chunk too. */
static bool is_seen(const struct plain *p, uint32_t chunk, uint32_t ahead)
{
    for (uint32_t before = 0; before < ahead; before++)
        if (is_used_at(p, chunk, (p->moment + before) % p->accesses->moment_count))
            return true;
    return false;
}

static void look_ahead(struct plain *p)
{
    const struct accesses *accesses = p->accesses;
    uint64_t room = room_at(p, p->moment);
    for (uint32_t ahead = 1; ahead <= p->options->look_ahead; ahead++) {
        uint32_t m = (p->moment + ahead) % accesses->moment_count;
        room = MIN(room, room_at(p, m));
        if (used_bytes(p) > room)
            return;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            uint32_t chunk = accesses->items[a].chunk, flags = accesses->items[a].flags;
            if (is_seen(p, chunk, ahead) || flags & ACCESS_ON_HOST)
                continue;
            p->pinned[chunk] = 1;
            if (p->resident[chunk] || flags & ACCESS_FRESH)
                continue;
            if (!make_room(p, p->layout->chunks[chunk].slot_bytes, room))
                return;
            enter(p, PLAN_FETCH, chunk);
        }
    }
}

static void finish_operator(struct plain *p, bool on_host)
{
    const struct accesses *accesses = p->accesses;
    uint32_t begin = accesses->first[p->moment], end = accesses->first[p->moment + 1];
    memset(p->pinned, 0, p->layout->chunk_count);
    for (uint32_t a = begin; a < end && !on_host; a++) {
        uint32_t chunk = accesses->items[a].chunk, flags = accesses->items[a].flags;
        p->used[chunk] = ++p->clock;
        p->dirty[chunk] = (p->dirty[chunk] || flags & ACCESS_WRITES) && !(flags & ACCESS_LAST) &&
                          !p->homes->on_device[chunk];
    }
    p->moment++;
    if (p->recording)
        p->record->first[p->moment] = p->record->actions->len;
    for (uint32_t a = begin; a < end; a++) {
        uint32_t chunk = accesses->items[a].chunk;
        if (accesses->items[a].flags & ACCESS_LAST && p->resident[chunk] &&
            !p->homes->on_device[chunk])
            leave(p, chunk);
    }
}

static void run_iteration(struct plain *p)
{
    uint32_t chunks = p->layout->chunk_count;
    g_autofree uint8_t *initial = g_memdup2(p->resident, chunks);
    for (p->moment = 0; p->moment < p->accesses->moment_count;) {
        bool on_host = is_on_host(p, p->moment);
        serve(p, on_host);
        look_ahead(p);
        finish_operator(p, on_host);
    }
    for (uint32_t c = 0; p->recording && c < chunks; c++)
        if (p->resident[c] && !initial[c])
            leave(p, c);
    for (uint32_t c = 0; p->recording && c < chunks; c++)
        if (!p->resident[c] && initial[c])
            enter(p, PLAN_FETCH, c);
    memcpy(p->record->initial, initial, chunks);
    p->record->first[p->moment + 1] = p->record->actions->len;
}

static struct decisions *decide_plainly(const struct plan_inputs *inputs,
                                        const struct decide_options *options)
{
    uint32_t chunks = inputs->layout->chunk_count;
    g_autofree uint8_t *resident = g_memdup2(inputs->homes->on_device, chunks);
    g_autofree uint8_t *dirty = g_new0(uint8_t, chunks), *pinned = g_new0(uint8_t, chunks);
    g_autofree uint32_t *came = g_new0(uint32_t, chunks), *used = g_new0(uint32_t, chunks);
    struct plain p = {.layout = inputs->layout,
                      .accesses = inputs->accesses,
                      .homes = inputs->homes,
                      .options = options,
                      .device_budget = inputs->device_budget,
                      .record = decisions_new(inputs->accesses),
                      .resident = resident,
                      .dirty = dirty,
                      .pinned = pinned,
                      .came = came,
                      .used = used};
    for (p.iteration = 0; p.iteration < 3; p.iteration++) {
        p.recording = p.iteration == 2;
        run_iteration(&p);
    }
    decisions_settle(p.record, inputs->accesses);
    return p.record;
}

static void check_equal(const struct decisions *a, const struct decisions *b, uint32_t chunks)
{
    g_assert_cmpmem(a->first, (a->moment_count + 2) * sizeof *a->first, b->first,
                    (b->moment_count + 2) * sizeof *b->first);
    for (uint32_t c = 0; c < chunks; c++)
        g_assert_true(!a->initial[c] == !b->initial[c]);
    g_assert_cmpuint(a->actions->len, ==, b->actions->len);
    for (uint32_t i = 0; i < a->actions->len; i++) {
        const struct plan_action *of_a = &g_array_index(a->actions, struct plan_action, i);
        const struct plan_action *of_b = &g_array_index(b->actions, struct plan_action, i);
        g_assert_cmpuint(of_a->chunk, ==, of_b->chunk);
        g_assert_cmpuint(of_a->kind, ==, of_b->kind);
        g_assert_cmpuint(of_a->address, ==, of_b->address);
    }
}

struct job {
    struct trace *trace;
    struct non_model *non_model;
    struct layout *layout;
    struct accesses *accesses;
    struct homes *homes; /* NULL if the host is too small */
    struct plan_inputs inputs;
    struct decide_options options;
};

/* Draws a job whose device memory is between just enough and nearly all. */
static void job_draw(struct job *job, GRand *random)
{
    *job = (struct job){.trace = random_iteration(random)};
    job->layout = layout_pack_uniform(job->trace, 256u << g_rand_int_range(random, 1, 6), NULL);
    job->non_model = non_model_place(job->trace);
    job->accesses = accesses_new(job->trace, job->layout, job->non_model->extent);
    uint64_t all = layout_slot_bytes(job->layout),
             host = g_rand_boolean(random) ? UINT64_MAX : all / 2;
    uint64_t least = accesses_least_arena_bytes(job->accesses, job->layout, NULL);
    uint64_t device = least + (uint64_t)(g_rand_double(random) * (double)all);
    moment_id moment;
    job->homes = homes_choose(job->trace, job->layout, job->accesses, device, host, NULL);
    if (!job->homes)
        return;
    least = homes_least_device_bytes(job->homes, job->layout, job->accesses, &moment);
    job->inputs = (struct plan_inputs){.trace = job->trace,
                                       .layout = job->layout,
                                       .accesses = job->accesses,
                                       .homes = job->homes,
                                       .device_budget = MAX(device, least),
                                       .host_budget = host};
    job->options.spare_bytes = g_rand_boolean(random)
                                   ? 0
                                   : 256 * (uint64_t)g_rand_int_range(random, 1, 200);
    job->options.look_ahead = (uint32_t)(g_rand_boolean(random) ? 0
                                                                : g_rand_int_range(random, 1, 60));
}

static void job_clear(struct job *job)
{
    homes_free(job->homes);
    accesses_free(job->accesses);
    non_model_free(job->non_model);
    layout_free(job->layout);
    trace_free(job->trace);
}

static bool has_transient(const struct homes *homes)
{
    return homes && memchr(homes->transient, 1, homes->chunk_count);
}

static void test_plain(void)
{
    static const struct pstar_policy_ops *const policies[] = {&policy_fifo, &policy_lru,
                                                              &policy_opt};
    GRand *random = g_rand_new_with_seed(random_seed());
    int transient = 0;
    for (int i = 0; i < 2000; i++) {
        struct job job;
        job_draw(&job, random);
        transient += has_transient(job.homes);
        for (size_t p = 0; job.homes && p < G_N_ELEMENTS(policies); p++) {
            job.options.policy = policies[p];
            struct decisions *decisions = decide(&job.inputs, &job.options);
            struct decisions *plain = decide_plainly(&job.inputs, &job.options);
            check_equal(decisions, plain, job.layout->chunk_count);
            decisions_free(decisions);
            decisions_free(plain);
        }
        job_clear(&job);
    }
    g_assert_cmpint(transient, >, 20);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/decide/plain", test_plain);
    return g_test_run();
}
