#include "chunks/homes.h"

#include "chunks/lack.h"
#include "chunks/plan.h"
#include "traces/size.h"

#include <string.h>

struct home_candidate {
    uint32_t chunk, uses;
    uint64_t bytes;
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

/* Returns the chunks that may live on the device, the most used first. */
static GArray *candidates(const struct layout *layout, const struct accesses *accesses)
{
    g_autofree uint32_t *uses = g_new0(uint32_t, layout->chunk_count);
    g_autofree uint8_t *on_host = used_on_host(layout, accesses);
    for (uint32_t a = 0; a < accesses->count; a++)
        uses[accesses->items[a].chunk]++;
    GArray *result = g_array_new(FALSE, FALSE, sizeof(struct home_candidate));
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        struct home_candidate candidate = {c, uses[c], layout->chunks[c].slot_bytes};
        if (!on_host[c] && layout->chunks[c].list != TRACE_GATHERED)
            g_array_append_val(result, candidate);
    }
    g_array_sort(result, most_used_first);
    return result;
}

struct homes *homes_assign(const struct trace *trace, const struct layout *layout,
                           const uint8_t *on_device)
{
    uint32_t chunks = layout->chunk_count;
    struct homes *homes = g_new0(struct homes, 1);
    homes->chunk_count = chunks;
    homes->on_device = g_memdup2(on_device, chunks);
    homes->host_address = g_new(uint64_t, chunks);
    uint64_t address = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        bool on_host = !on_device[c] && layout->chunks[c].list != TRACE_GATHERED;
        homes->host_address[c] = on_host ? address : NO_ADDRESS;
        address += on_host ? layout->chunks[c].copy_bytes : 0;
        homes->device_slot_bytes += on_device[c] ? layout->chunks[c].slot_bytes : 0;
    }
    homes->staging_address = address;
    homes->host_pool_bytes = address + staging_bytes(trace);
    return homes;
}

/* Returns the least device memory with which every operator finds its chunks there, beside its
 * non-model data and the chunks of `on_device`. *moment becomes the operator that needs it. */
static uint64_t least_device_bytes(const struct layout *layout, const struct accesses *accesses,
                                   const uint8_t *on_device, moment_id *moment)
{
    uint64_t least = 0, at_home = 0;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        at_home += on_device[c] ? layout->chunks[c].slot_bytes : 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        uint64_t bytes = accesses->non_model[m] + at_home;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (!(access->flags & ACCESS_ON_HOST) && !on_device[access->chunk])
                bytes += layout->chunks[access->chunk].slot_bytes;
        }
        if (bytes > least) {
            least = bytes;
            *moment = m;
        }
    }
    return least;
}

uint64_t homes_least_device_bytes(const struct homes *homes, const struct layout *layout,
                                  const struct accesses *accesses, moment_id *moment)
{
    return least_device_bytes(layout, accesses, homes->on_device, moment);
}

/* A choice that depends on the host's budget. */
struct home_choice {
    const struct layout *layout;
    const struct accesses *accesses;
    GArray *order;      /* of candidates */
    uint64_t all_bytes; /* that the host would hold if every chunk lived there */
    uint8_t *on_device; /* [chunk_count] */
};

/* Marks the chunks that live on the device, and returns what the host holds: more than
 * `host_budget` if what operators use there exceeds it. */
static uint64_t choose(const struct home_choice *choice, uint64_t host_budget)
{
    uint64_t held = choice->all_bytes;
    memset(choice->on_device, 0, choice->layout->chunk_count);
    for (uint32_t i = 0; i < choice->order->len && held > host_budget; i++) {
        chunk_id chunk = g_array_index(choice->order, struct home_candidate, i).chunk;
        choice->on_device[chunk] = 1;
        held -= choice->layout->chunks[chunk].copy_bytes;
    }
    return held;
}

static uint64_t device_bytes_with(const struct home_choice *choice, uint64_t host_budget)
{
    moment_id moment;
    choose(choice, host_budget);
    return least_device_bytes(choice->layout, choice->accesses, choice->on_device, &moment);
}

/* Says what would fit. A larger budget of the host leaves fewer chunks to the device. If that needs
 * more device memory, it is the least, with the least host memory that goes with it. */
static void refuse(const struct home_choice *choice, uint64_t library_bytes, uint64_t device_budget,
                   uint64_t host_budget, uint64_t held, GError **error)
{
    uint64_t low = held, high = choice->all_bytes;
    uint64_t device = device_bytes_with(choice, high);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (device_bytes_with(choice, middle) <= MAX(device_budget, device))
            high = middle;
        else
            low = middle + 1;
    }
    g_autofree char *size = size_format(held), *budget = size_format(host_budget);
    g_autofree char *why =
        g_strdup_printf("host memory: what operators use there takes %s, and the "
                        "budget is %s",
                        size, budget);
    const struct plan_lack lack = {.memory = PLAN_MEMORY_HOST,
                                   .bytes = high,
                                   .device_bytes = device > device_budget ? device + library_bytes
                                                                          : 0};
    plan_lack_set(error, &lack, why);
}

struct homes *homes_choose(const struct trace *trace, const struct layout *layout,
                           const struct accesses *accesses, uint64_t device_budget,
                           uint64_t host_budget, GError **error)
{
    g_autofree uint8_t *on_device = g_new0(uint8_t, layout->chunk_count);
    uint64_t all = staging_bytes(trace);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        all += host_bytes(layout, c);
    if (all <= host_budget)
        return homes_assign(trace, layout, on_device);

    g_autoptr(GArray) order = candidates(layout, accesses);
    const struct home_choice choice = {layout, accesses, order, all, on_device};
    uint64_t held = choose(&choice, host_budget);
    if (held <= host_budget)
        return homes_assign(trace, layout, on_device);
    refuse(&choice, trace->library_bytes, device_budget, host_budget, held, error);
    return NULL;
}

void homes_free(struct homes *homes)
{
    if (!homes)
        return;
    g_free(homes->on_device);
    g_free(homes->host_address);
    g_free(homes);
}
