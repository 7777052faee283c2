#include "chunks/homes.h"

#include "base/size.h"
#include "chunks/lack.h"
#include "chunks/plan.h"
#include "policies/headroom.h"

#include <string.h>

/* Of the device memory that homes need, the share by which it may be above the least. */
#define LEAN_SHARE 1024

/* A chunk that needs no slot on the host. */
struct home_candidate {
    uint32_t chunk, uses;
    uint64_t bytes, life; /* life: moments of its stays */
    bool transient;       /* it may be without a home */
};

/* Compares uses per byte. Chunks have few sizes, so doubles give the same order on any machine. */
static int most_used_first(const void *left, const void *right)
{
    const struct home_candidate *a = left, *b = right;
    double rate_a = (double)a->uses / (double)a->bytes, rate_b = (double)b->uses / (double)b->bytes;
    if (rate_a != rate_b)
        return rate_a > rate_b ? -1 : 1;
    return a->chunk < b->chunk ? -1 : 1;
}

static int shortest_life_first(const void *left, const void *right)
{
    const struct home_candidate *a = left, *b = right;
    if (a->transient != b->transient)
        return a->transient ? -1 : 1;
    if (a->transient && a->life != b->life)
        return a->life < b->life ? -1 : 1;
    return a->transient ? (a->chunk > b->chunk) - (a->chunk < b->chunk)
                        : most_used_first(left, right);
}

static bool receives(const struct trace_operator *op)
{
    return op->place == TRACE_ON_HOST && op->d2h_bytes > 0;
}

struct staging staging_of(const struct trace *trace)
{
    struct staging staging = {.place = g_new0(uint8_t, trace->operator_count)};
    uint64_t most[STAGING_PLACES] = {0};
    uint32_t row = 0, within = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        row += within > 0 && !receives(op);
        within = receives(op) ? within + 1 : 0;
        staging.place[m] = within ? (uint8_t)(row % 2 * 2 + (within - 1) % 2) : 0;
        uint64_t *place = &most[staging.place[m]];
        *place = MAX(*place, op->h2d_bytes + op->d2h_bytes);
    }
    for (int p = 0; p < STAGING_PLACES; p++) {
        staging.offset[p] = staging.bytes;
        staging.bytes += layout_align(most[p]);
    }
    return staging;
}

void staging_clear(struct staging *staging)
{
    g_free(staging->place);
}

/* Returns what a chunk takes at home on the host. Gathered chunks live in the shards. */
static uint64_t host_bytes(const struct layout *layout, chunk_id chunk)
{
    const struct chunk *of = &layout->chunks[chunk];
    return of->list == TRACE_GATHERED ? 0 : of->copy_bytes;
}

static uint64_t staging_bytes(const struct trace *trace)
{
    struct staging staging = staging_of(trace);
    staging_clear(&staging);
    return staging.bytes;
}

/* Returns [chunk_count] marks of chunks that an operator on the host uses; free with g_free. */
static uint8_t *used_on_host(const struct layout *layout, const struct accesses *accesses)
{
    uint8_t *on_host = g_new0(uint8_t, layout->chunk_count);
    for (uint32_t a = 0; a < accesses->count; a++)
        if (accesses->items[a].flags & ACCESS_ON_HOST)
            on_host[accesses->items[a].chunk] = 1;
    return on_host;
}

uint64_t homes_least_host_bytes(const struct trace *trace, const struct layout *layout,
                                const struct accesses *accesses)
{
    g_autofree uint8_t *on_host = used_on_host(layout, accesses);
    uint64_t bytes = staging_bytes(trace);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        bytes += on_host[c] ? host_bytes(layout, c) : 0;
    return bytes;
}

struct homes *homes_assign(const struct trace *trace, const struct layout *layout,
                           const uint8_t *on_device, const uint8_t *transient)
{
    uint32_t chunks = layout->chunk_count;
    struct homes *homes = g_new0(struct homes, 1);
    homes->chunk_count = chunks;
    homes->on_device = g_memdup2(on_device, chunks);
    homes->transient = transient ? g_memdup2(transient, chunks) : g_new0(uint8_t, chunks);
    homes->host_address = g_new(uint64_t, chunks);
    uint64_t address = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        bool elsewhere = on_device[c] || homes->transient[c];
        bool on_host = !elsewhere && layout->chunks[c].list != TRACE_GATHERED;
        homes->host_address[c] = on_host ? address : NO_ADDRESS;
        address += on_host ? layout->chunks[c].copy_bytes : 0;
        homes->device_slot_bytes += on_device[c] ? layout->chunks[c].slot_bytes : 0;
    }
    homes->staging_address = address;
    homes->host_pool_bytes = address + staging_bytes(trace);
    return homes;
}

/* ---- the room that chunks without a host slot take ---- */

/* Returns [moment_count] the bytes that each moment needs if all chunks have host slots: its
 * non-model data, and the chunks that its operator uses on the device. Free it with g_free. */
static uint64_t *needs_of_operators(const struct layout *layout, const struct accesses *accesses)
{
    uint64_t *need = g_memdup2(accesses->non_model, accesses->moment_count * sizeof *need);
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (!(accesses->items[a].flags & ACCESS_ON_HOST))
                need[m] += layout->chunks[accesses->items[a].chunk].slot_bytes;
    return need;
}

/* Returns the moments from a use on the device, at `moment`, to the next one, in which the chunk
 * stays. */
static uint32_t stay_behind(const struct accesses *accesses, uint32_t access, moment_id moment)
{
    bool dies = accesses->items[access].flags & ACCESS_LAST;
    return dies ? 0 : accesses->next_device_use[access] - moment - 1;
}

void homes_add_transient(const struct homes *homes, const struct layout *layout,
                         const struct accesses *accesses, uint64_t *need)
{
    uint32_t moments = accesses->moment_count;
    if (!memchr(homes->transient, 1, homes->chunk_count))
        return;
    g_autofree uint64_t *begin = g_new0(uint64_t, moments + 1);
    g_autofree uint64_t *end = g_new0(uint64_t, moments + 1);
    for (uint32_t m = 0; m < moments; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            chunk_id chunk = accesses->items[a].chunk;
            if (!homes->transient[chunk])
                continue;
            begin[m + 1] += layout->chunks[chunk].slot_bytes;
            end[m + 1 + stay_behind(accesses, a, m)] += layout->chunks[chunk].slot_bytes;
        }
    uint64_t held = 0;
    for (uint32_t m = 0; m < moments; m++) {
        held += begin[m] - end[m];
        need[m] += held;
    }
}

uint64_t homes_least_device_bytes(const struct homes *homes, const struct layout *layout,
                                  const struct accesses *accesses, moment_id *moment)
{
    g_autofree uint64_t *need = needs_of_operators(layout, accesses);
    uint64_t least = 0;
    homes_add_transient(homes, layout, accesses, need);
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        uint64_t bytes = need[m] + homes->device_slot_bytes;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (homes->on_device[accesses->items[a].chunk])
                bytes -= layout->chunks[accesses->items[a].chunk].slot_bytes;
        if (bytes > least) {
            least = bytes;
            *moment = m;
        }
    }
    return least;
}

/* ---- the choice ---- */

/* Moments behind a use on the device, or all moments, in which a chunk without a slot stays. */
struct stay {
    moment_id begin;
    uint32_t length;
};

/* What every choice of homes for a trace and a layout begins with. */
struct home_choice {
    const struct trace *trace;
    const struct layout *layout;
    const struct accesses *accesses;
    uint64_t all_bytes, least_bytes; /* that the host holds at most and at least */
    uint32_t *first_stay;            /* [chunk_count + 1] into stays */
    struct stay *stays;
    GArray *by_use;  /* struct home_candidate, the most used first */
    GArray *by_life; /* the same: the transient first, by their lives, and then the most used */
};

/* Marks chunks that hold nothing when an iteration begins and may be transient: [chunk_count]; free
 * with g_free. What plans leave without a slot is the same (find_slots in chunks/plan.c). */
static uint8_t *find_transient(const struct layout *layout, const struct accesses *accesses,
                               const uint8_t *on_host)
{
    uint8_t *dies = g_new0(uint8_t, layout->chunk_count);
    for (uint32_t a = 0; a < accesses->count; a++) {
        chunk_id chunk = accesses->items[a].chunk;
        uint8_t list = layout->chunks[chunk].list;
        dies[chunk] = (list == TRACE_GRAD || list == TRACE_ACTIVATION) && !on_host[chunk] &&
                      accesses->items[a].flags & ACCESS_LAST;
    }
    return dies;
}

/* Finds the stays of chunks that no operator on the host uses. */
static void find_stays(struct home_choice *choice, const uint8_t *on_host, const uint8_t *transient)
{
    const struct accesses *accesses = choice->accesses;
    uint32_t chunks = choice->layout->chunk_count, *first = g_new0(uint32_t, chunks + 1);
    choice->first_stay = first;
    for (uint32_t a = 0; a < accesses->count; a++)
        first[accesses->items[a].chunk + 1]++;
    for (uint32_t c = 0; c < chunks; c++)
        first[c + 1] = first[c] + MAX(first[c + 1], 1);
    choice->stays = g_new0(struct stay, first[chunks]);
    g_autofree uint32_t *next = g_memdup2(first, chunks * sizeof *next);
    for (uint32_t c = 0; c < chunks; c++)
        choice->stays[first[c]] = (struct stay){0, accesses->moment_count};
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            chunk_id chunk = accesses->items[a].chunk;
            if (on_host[chunk])
                continue;
            uint32_t length = transient[chunk] ? stay_behind(accesses, a, m)
                                               : accesses->next_device_use[a] - m - 1;
            choice->stays[next[chunk]++] = (struct stay){(m + 1) % accesses->moment_count, length};
        }
}

/* Returns the chunks that need no slot on the host, in no order. */
static GArray *candidates(const struct home_choice *choice, const uint8_t *on_host,
                          const uint8_t *transient)
{
    const struct layout *layout = choice->layout;
    g_autofree uint32_t *uses = g_new0(uint32_t, layout->chunk_count);
    for (uint32_t a = 0; a < choice->accesses->count; a++)
        uses[choice->accesses->items[a].chunk]++;
    GArray *result = g_array_new(FALSE, FALSE, sizeof(struct home_candidate));
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        struct home_candidate candidate = {.chunk = c,
                                           .uses = uses[c],
                                           .bytes = layout->chunks[c].slot_bytes,
                                           .transient = transient[c]};
        for (uint32_t i = choice->first_stay[c]; i < choice->first_stay[c + 1]; i++)
            candidate.life += choice->stays[i].length;
        if (!on_host[c] && layout->chunks[c].list != TRACE_GATHERED)
            g_array_append_val(result, candidate);
    }
    return result;
}

static void open_choice(struct home_choice *choice)
{
    const struct layout *layout = choice->layout;
    g_autofree uint8_t *on_host = used_on_host(layout, choice->accesses);
    g_autofree uint8_t *transient = find_transient(layout, choice->accesses, on_host);
    find_stays(choice, on_host, transient);
    choice->by_use = candidates(choice, on_host, transient);
    choice->by_life = g_array_copy(choice->by_use);
    g_array_sort(choice->by_use, most_used_first);
    g_array_sort(choice->by_life, shortest_life_first);
    choice->least_bytes = choice->all_bytes;
    for (guint i = 0; i < choice->by_use->len; i++)
        choice->least_bytes -=
            host_bytes(layout, g_array_index(choice->by_use, struct home_candidate, i).chunk);
}

static void close_choice(struct home_choice *choice)
{
    g_free(choice->first_stay);
    g_free(choice->stays);
    g_array_unref(choice->by_use);
    g_array_unref(choice->by_life);
}

/* Returns homes in which the chunks that are used most often live on the device, as many as the
 * host's budget demands. It must be at least `least_bytes`. */
static struct homes *keep_most_used(const struct home_choice *choice, uint64_t host_budget)
{
    g_autofree uint8_t *on_device = g_new0(uint8_t, choice->layout->chunk_count);
    uint64_t held = choice->all_bytes;
    for (guint i = 0; i < choice->by_use->len && held > host_budget; i++) {
        chunk_id chunk = g_array_index(choice->by_use, struct home_candidate, i).chunk;
        on_device[chunk] = 1;
        held -= choice->layout->chunks[chunk].copy_bytes;
    }
    return homes_assign(choice->trace, choice->layout, on_device, NULL);
}

/* Takes the room of the chunk's stays, and returns whether there is as much. */
static bool take_room(const struct home_choice *choice, chunk_id chunk, struct headroom *room)
{
    int64_t bytes = (int64_t)choice->layout->chunks[chunk].slot_bytes;
    for (int taking = 0; taking < 2; taking++)
        for (uint32_t i = choice->first_stay[chunk]; i < choice->first_stay[chunk + 1]; i++) {
            const struct stay *stay = &choice->stays[i];
            if (taking)
                headroom_take(room, stay->begin, stay->length, bytes);
            else if (headroom_first_below(room, stay->begin, stay->length, bytes) != NO_INDEX)
                return false;
        }
    return true;
}

/* Leaves chunks without slots, transient ones first, where the device has room for their stays.
 * Returns NULL if the host still holds more than its budget. */
static struct homes *keep_in_room(const struct home_choice *choice, uint64_t device_budget,
                                  uint64_t host_budget)
{
    const struct layout *layout = choice->layout;
    uint32_t moments = choice->accesses->moment_count;
    g_autofree uint8_t *on_device = g_new0(uint8_t, layout->chunk_count);
    g_autofree uint8_t *transient = g_new0(uint8_t, layout->chunk_count);
    g_autofree uint64_t *need = needs_of_operators(layout, choice->accesses);
    g_autofree int64_t *free_bytes = g_new(int64_t, moments);
    for (uint32_t m = 0; m < moments; m++)
        free_bytes[m] = (int64_t)device_budget - (int64_t)need[m];
    struct headroom *room = headroom_new(free_bytes, moments);
    uint64_t held = choice->all_bytes;
    bool fits = headroom_least(room, 0, moments) >= 0;
    for (guint i = 0; fits && i < choice->by_life->len && held > host_budget; i++) {
        const struct home_candidate *candidate = &g_array_index(choice->by_life,
                                                                struct home_candidate, i);
        if (!take_room(choice, candidate->chunk, room))
            continue;
        *(candidate->transient ? &transient[candidate->chunk] : &on_device[candidate->chunk]) = 1;
        held -= layout->chunks[candidate->chunk].copy_bytes;
    }
    headroom_free(room);
    return fits && held <= host_budget ? homes_assign(choice->trace, layout, on_device, transient)
                                       : NULL;
}

static uint64_t device_bytes_of(const struct home_choice *choice, const struct homes *homes)
{
    moment_id moment;
    return homes_least_device_bytes(homes, choice->layout, choice->accesses, &moment);
}

/* Returns homes with which every operator has room, or NULL if none are found. */
static struct homes *homes_within(const struct home_choice *choice, uint64_t device_budget,
                                  uint64_t host_budget)
{
    struct homes *homes = keep_most_used(choice, host_budget);
    if (device_bytes_of(choice, homes) <= device_budget)
        return homes;
    homes_free(homes);
    return keep_in_room(choice, device_budget, host_budget);
}

/* Returns the homes with about the least need of device memory. They do not depend on the budget,
 * within which homes_within may find none though these fit: with less room it begins with others.
 */
static struct homes *leanest_homes(const struct home_choice *choice, uint64_t host_budget)
{
    struct homes *leanest = keep_most_used(choice, host_budget);
    uint64_t low = 0, high = device_bytes_of(choice, leanest);
    while (high - low > high / LEAN_SHARE + 1) {
        uint64_t middle = low + (high - low) / 2;
        struct homes *homes = keep_in_room(choice, middle, host_budget);
        if (homes) {
            homes_free(leanest);
            leanest = homes;
            high = device_bytes_of(choice, homes);
        } else {
            low = middle;
        }
    }
    return leanest;
}

static bool is_found_within(const struct home_choice *choice, uint64_t device_budget,
                            uint64_t host_budget)
{
    struct homes *homes = homes_within(choice, device_budget, host_budget);
    homes_free(homes);
    return homes != NULL;
}

static bool is_lean_within(const struct home_choice *choice, uint64_t device_budget,
                           uint64_t host_budget)
{
    struct homes *homes = leanest_homes(choice, host_budget);
    bool fits = device_bytes_of(choice, homes) <= device_budget;
    homes_free(homes);
    return fits;
}

/* Returns the least budget of the host up to `enough` with which homes fit. The leanest ones take
 * longer to find than others, and hardly ever fit with less. */
static uint64_t least_host_budget(const struct home_choice *choice, uint64_t device_budget,
                                  uint64_t enough)
{
    for (int lean = 0; lean < 2; lean++) {
        uint64_t low = choice->least_bytes;
        if (lean && (low == enough || !is_lean_within(choice, device_budget, enough - 1)))
            break;
        while (low < enough) {
            uint64_t middle = low + (enough - low) / 2;
            bool fits = is_found_within(choice, device_budget, middle) ||
                        (lean && is_lean_within(choice, device_budget, middle));
            enough = fits ? middle : enough;
            low = fits ? low : middle + 1;
        }
    }
    return enough;
}

/* Says what would fit. A larger budget of the host leaves fewer chunks to the device. If that needs
 * more device memory, it is the least, with the least host memory that goes with it. */
static void refuse(const struct home_choice *choice, uint64_t device_budget, uint64_t host_budget,
                   GError **error)
{
    struct homes *all_on_host = keep_most_used(choice, choice->all_bytes);
    uint64_t device = device_bytes_of(choice, all_on_host);
    homes_free(all_on_host);
    g_autofree char *size = size_format(choice->least_bytes), *budget = size_format(host_budget);
    g_autofree char *why =
        g_strdup_printf("host memory: what operators use there takes %s, and the "
                        "budget is %s",
                        size, budget);
    uint64_t library_bytes = choice->trace->library_bytes;
    const struct plan_lack lack = {
        .memory = PLAN_MEMORY_HOST,
        .bytes = least_host_budget(choice, MAX(device_budget, device), choice->all_bytes),
        .device_bytes = device > device_budget ? device + library_bytes : 0};
    plan_lack_set(error, &lack, why);
}

struct homes *homes_choose(const struct trace *trace, const struct layout *layout,
                           const struct accesses *accesses, uint64_t device_budget,
                           uint64_t host_budget, GError **error)
{
    struct home_choice choice = {
        .trace = trace, .layout = layout, .accesses = accesses, .all_bytes = staging_bytes(trace)};
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        choice.all_bytes += host_bytes(layout, c);
    if (choice.all_bytes <= host_budget) {
        g_autofree uint8_t *on_device = g_new0(uint8_t, layout->chunk_count);
        return homes_assign(trace, layout, on_device, NULL);
    }
    struct homes *homes = NULL;
    open_choice(&choice);
    if (choice.least_bytes > host_budget)
        refuse(&choice, device_budget, host_budget, error);
    else if (!(homes = homes_within(&choice, device_budget, host_budget)))
        homes = leanest_homes(&choice, host_budget);
    close_choice(&choice);
    return homes;
}

void homes_free(struct homes *homes)
{
    if (!homes)
        return;
    g_free(homes->on_device);
    g_free(homes->transient);
    g_free(homes->host_address);
    g_free(homes);
}
