#include "planner/proof/joint_model.h"

/* Chunks of less than this part of the device are not taken together, and states of less than this
 * part of it stay for nothing. */
enum { LARGE_PART = 64 };

/* How forward and backward use a chunk, and then the updates. */
struct joint_use {
    uint32_t first, last;               /* flags in forward and backward; NO_INDEX without a use */
    uint32_t update_first, update_last; /* flags in the updates */
    bool other_host;                    /* an update uses it on the host */
    bool is_mixed;                      /* others than the device or its group use it */
};

static bool is_large(const struct time_job *job, uint64_t bytes)
{
    return bytes >= job->plan->device_budget / LARGE_PART;
}

/* Returns whether all updates that can be placed follow forward and backward, of one rank and the
 * whole model. */
static bool is_simple(const struct time_job *job, moment_id update)
{
    const struct trace *trace = job->sides[0];
    if (trace->ranks > 1 || trace->stages > 1 || update == 0)
        return false;
    for (uint32_t m = 0; m < update; m++)
        if (time_is_placed(&trace->operators[m]) || trace_operator_reduces(&trace->operators[m]))
            return false;
    return !job->sides[TIME_HOST] || time_find_update(job->sides[TIME_HOST]) == update;
}

static void note_use(struct joint_use *use, uint32_t flags, bool in_update, bool own)
{
    if (!in_update) {
        use->is_mixed |= (flags & ACCESS_ON_HOST) != 0;
        use->first = use->first == NO_INDEX ? flags : use->first;
        use->last = flags;
        return;
    }
    use->is_mixed |= !own;
    use->other_host |= (flags & ACCESS_ON_HOST) != 0;
    use->update_first = use->update_first == NO_INDEX ? flags : use->update_first;
    use->update_last = flags;
}

/* Returns the uses of all chunks on one side: [chunk_count], which the caller frees. */
static struct joint_use *find_uses(const struct time_job *job, const struct accesses *accesses,
                                   int side, moment_id update)
{
    const struct layout *layout = job->plan->layout;
    const struct trace *trace = job->sides[side];
    struct joint_use *uses = g_new(struct joint_use, layout->chunk_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        uses[c] = (struct joint_use){NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX,
                                     .is_mixed = layout->chunks[c].list == TRACE_GATHERED};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint32_t group = time_group_of(trace, layout, m);
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            note_use(&uses[access->chunk], access->flags, m >= update,
                     layout->chunks[access->chunk].group == group);
        }
    }
    return uses;
}

static int largest_first(const void *left, const void *right)
{
    const struct joint_chunk *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static struct joint_chunk describe_chunk(const struct time_job *job, chunk_id c)
{
    const struct chunk *chunk = &job->plan->layout->chunks[c];
    return (struct joint_chunk){c, chunk->slot_bytes,
                                time_job_copy_ns(job, &job->costs->h2d, chunk->copy_bytes),
                                time_job_copy_ns(job, &job->costs->d2h, chunk->copy_bytes)};
}

/* Chooses the largest of the chunks that only the device uses in forward and backward. */
static void choose_chunks(struct joint_model *model, const struct joint_use *uses, uint32_t most)
{
    const struct plan *plan = model->job->plan;
    g_autoptr(GArray) chunks = g_array_new(FALSE, FALSE, sizeof(struct joint_chunk));
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        const struct joint_chunk chunk = describe_chunk(model->job, c);
        if (!uses[c].is_mixed && uses[c].first != NO_INDEX && is_large(model->job, chunk.bytes))
            g_array_append_val(chunks, chunk);
    }
    g_array_sort(chunks, largest_first);
    model->chunk_count = MIN(most, chunks->len);
    for (uint32_t i = 0; i < model->chunk_count; i++)
        model->chunks[i] = g_array_index(chunks, struct joint_chunk, i);
}

/* Returns the time of the fetch that the access may need, if its chunk is large. */
static uint64_t large_fetch_ns(const struct joint_model *model, const struct chunk_access *access)
{
    const struct chunk *chunk = &model->job->plan->layout->chunks[access->chunk];
    bool counts = is_large(model->job, chunk->slot_bytes) &&
                  !(access->flags & (ACCESS_FRESH | ACCESS_ON_HOST));
    return counts ? time_job_copy_ns(model->job, &model->job->costs->h2d, chunk->copy_bytes) : 0;
}

/* Appends the steps without `fetched` and `over`, which depend on what follows. */
static void add_steps(struct joint_model *model, const struct accesses *accesses,
                      const uint64_t *non_model, moment_id update)
{
    const struct layout *layout = model->job->plan->layout;
    g_autofree uint32_t *sets = g_new0(uint32_t, layout->chunk_count);
    uint64_t gap_room = UINT64_MAX, gap_ns = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < model->chunk_count; i++)
        sets[model->chunks[i].chunk] = UINT32_C(1) << i;
    for (uint32_t m = 0; m < update; m++) {
        struct joint_step step = {.gap_room = gap_room, .gap_ns = gap_ns};
        uint64_t others = non_model[m];
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            uint32_t set = sets[access->chunk];
            bool dirty = access->flags & ACCESS_WRITES && !(access->flags & ACCESS_LAST);
            step.used |= set;
            step.dirty |= dirty ? set : 0;
            step.fetched |= access->flags & ACCESS_FRESH ? 0 : set; /* shifted to the use before */
            step.fetch_ns += large_fetch_ns(model, access);
            if (!set && !(access->flags & ACCESS_ON_HOST))
                others += layout->chunks[access->chunk].slot_bytes;
        }
        step.room = model->job->plan->device_budget - MIN(others, model->job->plan->device_budget);
        step.non_model = least = MIN(least, non_model[m]);
        gap_room = step.used ? UINT64_MAX : MIN(gap_room, step.room);
        gap_ns = step.used ? 0 : gap_ns + step.fetch_ns;
        if (step.used) {
            g_array_append_val(model->steps, step);
            least = non_model[m];
        }
    }
}

/* Tells each step whether the next uses of its chunks need their bytes. */
static void look_ahead(GArray *steps)
{
    uint32_t later = 0, fetched = 0;
    for (guint i = steps->len; i-- > 0;) {
        struct joint_step *step = &g_array_index(steps, struct joint_step, i);
        uint32_t own = step->fetched;
        step->fetched = fetched & step->used;
        step->over = step->used & ~later;
        later |= step->used;
        fetched = (fetched & ~step->used) | own;
    }
}

static bool is_left_dirty(uint32_t flags)
{
    return flags != NO_INDEX && flags & ACCESS_WRITES && !(flags & ACCESS_LAST);
}

/* Adds the copies between forward and backward and the updates of the host, which find the host's
 * bytes up to date and make the device's useless. */
static void add_host_copies(struct joint_work *work, const struct joint_use *use,
                            const struct joint_chunk *chunk)
{
    bool reads = use->update_first & ACCESS_ON_HOST && !(use->update_first & ACCESS_FRESH);
    bool writes = use->update_last & ACCESS_ON_HOST && is_left_dirty(use->update_last);
    work->d2h_ns += reads && is_left_dirty(use->last) ? chunk->d2h_ns : 0;
    work->h2d_ns += writes && !(use->first & ACCESS_FRESH) ? chunk->h2d_ns : 0;
}

static void add_state(struct joint_model *model, struct joint_work *work,
                      const struct joint_use *use, const struct joint_chunk *chunk)
{
    const struct joint_state state = {chunk->bytes,
                                      use->update_first & ACCESS_FRESH ? 0 : chunk->h2d_ns,
                                      is_left_dirty(use->update_last) ? chunk->d2h_ns : 0};
    if (use->other_host)
        return;
    g_array_append_val(work->states, state);
    model->state_least = MIN(model->state_least, chunk->bytes);
    model->state_bytes += chunk->bytes;
}

static void add_operator(struct joint_model *model, int side, moment_id m)
{
    const struct time_job *job = model->job;
    const struct trace *trace = job->sides[side];
    const struct trace_operator *op = &trace->operators[m];
    uint32_t group = time_group_of(trace, job->plan->layout, m);
    struct joint_work *work = group == NO_INDEX ? &model->always : &model->works[side][group];
    if (group == NO_INDEX && side > 0) /* it is the same on both */
        return;
    if (op->place == TRACE_ON_DEVICE) {
        work->compute_ns += time_job_device_ns(job, op);
        return;
    }
    work->host_ns += time_job_at_least(job, op->duration_ns);
    work->d2h_ns += time_job_copy_ns(job, &job->costs->d2h, op->d2h_bytes);
}

/* Returns the grains of the device that are full if these bytes are taken. */
static uint64_t full_grains(const struct joint_model *model, uint64_t bytes)
{
    return bytes / (model->job->plan->device_budget / JOINT_GRAINS + 1);
}

/* Lets one more chunk be fetched into the room of the device. */
static void add_fetch(struct joint_model *model, const struct joint_chunk *chunk)
{
    uint64_t *fetches_ns = model->fetches_ns, own = MAX(1, full_grains(model, chunk->bytes));
    model->longest_ns = MAX(model->longest_ns, chunk->h2d_ns);
    for (uint64_t grains = JOINT_GRAINS; grains >= own; grains--)
        fetches_ns[grains] = MAX(fetches_ns[grains], fetches_ns[grains - own] + chunk->h2d_ns);
}

uint64_t joint_fetches_ns(const struct joint_model *model, uint64_t bytes)
{
    return model->fetches_ns[MIN(full_grains(model, bytes), JOINT_GRAINS)];
}

static void add_side(struct joint_model *model, const struct joint_use *uses, int side)
{
    const struct layout *layout = model->job->plan->layout;
    model->works[side] = g_new0(struct joint_work, model->group_count);
    for (uint32_t g = 0; g < model->group_count; g++)
        model->works[side][g].states = g_array_new(FALSE, FALSE, sizeof(struct joint_state));
    for (uint32_t m = 0; m < model->job->sides[side]->operator_count; m++)
        add_operator(model, side, m);
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        const struct joint_chunk chunk = describe_chunk(model->job, c);
        struct joint_work *work = &model->works[side][layout->chunks[c].group];
        if (!is_large(model->job, chunk.bytes))
            continue;
        if (side == 0)
            add_fetch(model, &chunk);
        if (uses[c].is_mixed || uses[c].update_first == NO_INDEX)
            continue;
        if (uses[c].first == NO_INDEX)
            add_state(model, work, &uses[c], &chunk);
        else
            add_host_copies(work, &uses[c], &chunk);
    }
}

struct joint_model *joint_model_new(const struct time_job *job, uint32_t most)
{
    moment_id update = time_find_update(job->sides[0]);
    if (!is_simple(job, update))
        return NULL;
    struct joint_model *model = g_new0(struct joint_model, 1);
    struct non_model *non_model = non_model_place(job->sides[0]);
    model->job = job;
    model->group_count = job->plan->layout->group_count;
    model->side_count = job->sides[TIME_HOST] ? 2 : 1;
    model->steps = g_array_new(FALSE, FALSE, sizeof(struct joint_step));
    model->state_least = UINT64_MAX;
    model->fetches_ns = g_new0(uint64_t, JOINT_GRAINS + 1);
    for (int side = 0; side < (int)model->side_count; side++) {
        struct accesses *accesses = accesses_new(job->sides[side], job->plan->layout,
                                                 non_model->extent);
        g_autofree struct joint_use *uses = find_uses(job, accesses, side, update);
        if (side == 0) {
            choose_chunks(model, uses, most);
            add_steps(model, accesses, non_model->extent, update);
            look_ahead(model->steps);
        }
        add_side(model, uses, side);
        accesses_free(accesses);
    }
    non_model_free(non_model);
    return model;
}

void joint_model_free(struct joint_model *model)
{
    if (!model)
        return;
    for (uint32_t side = 0; side < model->side_count; side++) {
        for (uint32_t g = 0; g < model->group_count; g++)
            g_array_unref(model->works[side][g].states);
        g_free(model->works[side]);
    }
    g_array_unref(model->steps);
    g_free(model->fetches_ns);
    g_free(model);
}
