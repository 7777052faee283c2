#include "planner/schedule/dispatch.h"

#include "chunks/parts.h"
#include "planner/schedule/claims.h"
#include "planner/schedule/deadlines.h"

/* Laps of the walk. The first ones only find the state in which an iteration begins. */
enum { LAPS = 3 };

/* Fetches that are considered when those before them cannot begin yet, and fetches of the other way
 * that are passed meanwhile. */
enum { WINDOW = 24, PASSED_MOST = 8 * WINDOW };

/* The ways of copies. Chunks come over the link or the network, and leave over the link. */
enum { H2D, D2H, NETWORK, WAYS };

/* A chunk that holds its slot until its write-back is over. */
struct leaving {
    int64_t end_ns, bytes;
    int64_t follow_ns; /* from when on another chunk may follow it part by part: the end of its
                          first part, or end_ns */
};

/* A write-back that was issued. */
struct sent {
    int64_t moment, end_ns;
};

/* Intervals by a moment of the iteration. */
struct agenda {
    uint32_t *first; /* [moment_count + 1] into items */
    uint32_t *items;
};

/* Moments and times count on from lap to lap. */
struct dispatcher {
    struct intervals *intervals;
    const struct dispatch_job *job;
    int64_t moment_count;
    int64_t now;           /* moment */
    int64_t device_ns;     /* when the device has done its work of the moments before */
    int64_t link_ns[WAYS]; /* when the copies so far are over, on the network also the exchanges */
    int64_t reduced_ns[2]; /* when the last reduction is over, and the one before it */
    int64_t host_ns;       /* when the host's operators so far are over */
    int64_t received_ns;   /* when the activations of host operators have arrived */
    int64_t sent_ns;       /* when those for host operators have left; the device waits for that */
    int64_t *valid_ns;     /* [chunk_count] when the host's copy is up to date */
    int64_t *arrival_ns;   /* [chunk_count] when the device's copy is there */
    uint32_t *unsent;      /* [chunk_count] the interval whose write-back waits, or NO_INDEX */

    struct headroom *headroom; /* beside what is retained, and what was fetched ahead or waits */
    GArray *waiting;           /* deadlines of write-backs; some may have been issued already */
    uint8_t *unused;           /* [intervals] whether a waiting chunk has seen its last use */
    int64_t unused_bytes;      /* of those */
    GArray *leaving;           /* struct leaving, by end */
    guint left;                /* of `leaving`: these are over */
    int64_t leaving_bytes;     /* of the others */

    struct agenda fetched, allocated; /* by first use */
    struct agenda written;            /* by the moment from which they may be written back */
    struct agenda over;               /* by the moment after their last use */
    GArray *claims;                   /* struct room_claim, of the fetches that are considered */
    uint32_t fetch_count;
    bool fetches, gathers; /* whether there are any of these ways */
    uint8_t *issued;       /* [fetch_count] parity of the times that the fetch was issued */
    uint64_t next[WAYS]; /* the first fetch of a way that may not be issued yet; counts on from lap
                            to lap */

    int64_t *begin_ns, *end_ns; /* [intervals] when the slot was last held */
    struct sent *sent;          /* [intervals] the last write-back */
    int64_t *issue_ns;          /* [moment_count] of this lap */
    int64_t lap_ns, period_ns;  /* begin of this lap; duration of the last */
    int32_t turn;
};

static struct interval *interval_at(const struct dispatcher *w, uint32_t index)
{
    return &g_array_index(w->intervals->items, struct interval, index);
}

static int64_t slot_bytes(const struct dispatcher *w, const struct interval *interval)
{
    return (int64_t)w->intervals->reuses->slot_bytes[interval->chunk];
}

/* Wraps a moment into the iteration. It may lie up to one iteration before the walk. */
static uint32_t wrap(const struct dispatcher *w, int64_t moment)
{
    return (uint32_t)((moment + w->moment_count) % w->moment_count);
}

static int64_t idle_from(const struct dispatcher *w, int way)
{
    return MAX(w->link_ns[way], w->device_ns);
}

static bool is_cut(const struct dispatcher *w, chunk_id chunk)
{
    return copy_is_cut(w->job->cut_from_bytes, w->intervals->reuses->copy_bytes[chunk]);
}

/* Returns what the other parts of a copy take besides one; 0 if the chunk is copied as a whole. */
static int64_t other_parts_ns(const struct dispatcher *w, chunk_id chunk, int way)
{
    int64_t copy_ns = (int64_t)w->job->copy_ns[way == D2H][chunk];
    return is_cut(w, chunk) ? copy_ns - copy_ns / COPY_PARTS : 0;
}

static int way_of(const struct dispatcher *w, const struct interval *interval)
{
    return reuses_is_gathered(w->intervals->reuses, interval->chunk) ? NETWORK : H2D;
}

/* ---- write-backs ---- */

static bool is_written_back(const struct interval *interval)
{
    return interval->flush != INTERVAL_NEVER || interval->write_back;
}

/* The chunk leaves now, `waited` moments after its last use. */
static void leave(struct dispatcher *w, uint32_t index, int64_t waited, int64_t end_ns)
{
    struct interval *interval = interval_at(w, index);
    const struct leaving leaving = {end_ns, slot_bytes(w, interval),
                                    end_ns - other_parts_ns(w, interval->chunk, D2H)};
    interval->flush = INTERVAL_NEVER;
    interval->write_back = true;
    interval->leave = interval->last_use + 1 + (int32_t)waited;
    headroom_take(w->headroom, wrap(w, w->now - waited), (uint32_t)waited, leaving.bytes);
    w->unused[index] = 0;
    w->unused_bytes -= leaving.bytes;
    g_array_append_val(w->leaving, leaving);
    w->leaving_bytes += leaving.bytes;
}

static void write_back(struct dispatcher *w, uint32_t index)
{
    struct interval *interval = interval_at(w, index);
    chunk_id chunk = interval->chunk;
    int64_t start_ns = MAX(w->valid_ns[chunk], w->arrival_ns[chunk]);
    int64_t end_ns = MAX(idle_from(w, D2H), start_ns) + (int64_t)w->job->copy_ns[1][chunk];
    uint32_t last_use = intervals_moment(w->intervals, interval->last_use);
    w->link_ns[D2H] = w->valid_ns[chunk] = w->end_ns[index] = end_ns;
    w->unsent[chunk] = NO_INDEX;
    w->sent[index] = (struct sent){w->now, end_ns};
    interval->lead_ns = other_parts_ns(w, chunk, D2H);
    interval->turn = ++w->turn;
    if (w->unused[index]) {
        leave(w, index, wrap(w, w->now - 1 - last_use), end_ns);
    } else {
        uint32_t before = wrap(w, last_use - w->now % w->moment_count);
        interval->write_back = false;
        interval->flush = interval->last_use - (int32_t)before;
        interval->leave = interval->last_use + 1;
    }
}

/* Returns whether a write-back waits, and forgets those that have been issued out of turn. */
static bool any_waits(struct dispatcher *w)
{
    while (w->waiting->len) {
        uint32_t index = deadlines_first(w->waiting);
        if (w->unsent[interval_at(w, index)->chunk] == index)
            return true;
        deadlines_take(w->waiting);
    }
    return false;
}

static void begin_waiting(struct dispatcher *w, uint32_t index)
{
    const struct interval *interval = interval_at(w, index);
    int64_t laps = w->now - interval->release; /* a multiple of the iteration */
    w->unsent[interval->chunk] = index;
    w->unused[index] = 0;
    deadlines_add(w->waiting, (struct deadline){interval->deadline + laps, index});
}

/* After the last use, the chunk leaves as soon as it is written back. */
static void end_use(struct dispatcher *w, uint32_t index)
{
    struct interval *interval = interval_at(w, index);
    int32_t waited = interval->leave - interval->last_use - 1; /* in the lap before */
    w->end_ns[index] = MAX(w->end_ns[index], MAX(w->device_ns, w->arrival_ns[interval->chunk]));
    if (waited > 0)
        headroom_take(w->headroom, wrap(w, w->now), (uint32_t)waited, -slot_bytes(w, interval));
    interval->leave = interval->last_use + 1;
    if (w->unsent[interval->chunk] == index) {
        w->unused[index] = 1;
        w->unused_bytes += slot_bytes(w, interval);
    }
}

/* Chunks that were used for the last time may wait for the link as long as nothing else needs their
 * room. */
static void make_room(struct dispatcher *w)
{
    int64_t bytes = headroom_at(w->headroom, wrap(w, w->now)) - w->job->slack_bytes;
    while (w->unused_bytes > MAX(bytes, 0) && any_waits(w))
        write_back(w, deadlines_take(w->waiting));
}

static void end_uses(struct dispatcher *w)
{
    uint32_t m = wrap(w, w->now);
    for (uint32_t i = w->written.first[m]; i < w->written.first[m + 1]; i++)
        begin_waiting(w, w->written.items[i]);
    for (uint32_t i = w->over.first[m]; i < w->over.first[m + 1]; i++)
        end_use(w, w->over.items[i]);
    make_room(w);
}

/* ---- fetches ---- */

/* Returns when a copy can start that needs so much room, as far as that depends on write-backs that
 * are under way. `behind_ns` is how long its parts last that follow those of the last write-back; 0
 * if it waits for all of it. */
static int64_t room_ns(struct dispatcher *w, int64_t bytes, int64_t behind_ns)
{
    const struct leaving *leaving = &g_array_index(w->leaving, struct leaving, 0);
    for (; w->left < w->leaving->len && leaving[w->left].end_ns <= w->device_ns; w->left++)
        w->leaving_bytes -= leaving[w->left].bytes;
    int64_t free_bytes = headroom_at(w->headroom, wrap(w, w->now)) - w->unused_bytes -
                         w->leaving_bytes;
    int64_t ns = 0;
    int64_t whole_ns = 0;
    for (guint i = w->left; free_bytes < bytes && i < w->leaving->len; i++) {
        free_bytes += leaving[i].bytes;
        whole_ns = leaving[i].end_ns;
        ns = behind_ns ? MAX(leaving[i].follow_ns, whole_ns - behind_ns) : whole_ns;
    }
    w->intervals->follows |= ns < whole_ns;
    return MAX(ns, w->device_ns);
}

static uint32_t fetched_interval(const struct dispatcher *w, uint64_t fetch)
{
    return w->fetched.items[fetch % w->fetch_count];
}

static bool is_issued(const struct dispatcher *w, uint64_t fetch)
{
    return w->issued[fetch % w->fetch_count] == ((fetch / w->fetch_count + 1) & 1);
}

static int64_t use_of(const struct dispatcher *w, uint64_t fetch)
{
    int64_t lap = (int64_t)(fetch / w->fetch_count);
    return interval_at(w, fetched_interval(w, fetch))->first_use + lap * w->moment_count;
}

/* Returns when the rank's shards of a gathered chunk have been written, or fetched. */
static int64_t shards_written(const struct dispatcher *w, chunk_id chunk)
{
    const struct gathering *gathering = w->job->gathering;
    int64_t ns = 0;
    for (uint32_t p = gathering->first[chunk]; p < gathering->first[chunk + 1]; p++) {
        chunk_id source = gathering->parts[p].source;
        ns = MAX(ns, MAX(w->valid_ns[source], w->arrival_ns[source]));
    }
    return ns;
}

/* Returns when the shards that a gather copies from the host have arrived. */
static int64_t shards_arrive(const struct dispatcher *w, chunk_id chunk)
{
    int64_t copied_ns = (int64_t)w->job->shards_ns[chunk], written = shards_written(w, chunk);
    return copied_ns ? MAX(idle_from(w, H2D), written) + copied_ns : written;
}

/* Returns when a fetch can start that needs so many bytes of room. */
static int64_t start_of(struct dispatcher *w, const struct interval *interval, int64_t bytes)
{
    int way = way_of(w, interval);
    int64_t behind_ns = way == H2D ? other_parts_ns(w, interval->chunk, H2D) : 0;
    int64_t start = MAX(MAX(idle_from(w, way), w->valid_ns[interval->chunk]),
                        room_ns(w, bytes, behind_ns));
    return way == NETWORK ? MAX(start, shards_arrive(w, interval->chunk)) : start;
}

/* Issues the fetch, `ahead` moments before its use. */
static void issue(struct dispatcher *w, uint64_t fetch, int64_t start, int64_t ahead)
{
    uint32_t index = fetched_interval(w, fetch);
    struct interval *interval = interval_at(w, index);
    chunk_id chunk = interval->chunk;
    int way = way_of(w, interval);
    int64_t copied_ns = way == NETWORK ? (int64_t)w->job->shards_ns[chunk] : 0;
    w->begin_ns[index] = start - copied_ns;
    interval->follow_ns = way == H2D ? other_parts_ns(w, chunk, H2D) : 0;
    if (copied_ns)
        w->link_ns[H2D] = shards_arrive(w, chunk);
    w->link_ns[way] = w->arrival_ns[chunk] =
        start + (int64_t)(way == NETWORK ? w->job->gather_ns : w->job->copy_ns[0])[chunk];
    w->issued[fetch % w->fetch_count] ^= 1;
    interval->enter = interval->first_use - (int32_t)ahead;
    headroom_take(w->headroom, wrap(w, w->now), (uint32_t)ahead, slot_bytes(w, interval));
}

/* Returns the bytes of the chunks that the moment's operator uses and that are not there yet. */
static int64_t missing_bytes(const struct dispatcher *w)
{
    uint32_t m = wrap(w, w->now);
    uint64_t lap = (uint64_t)(w->now / w->moment_count);
    int64_t bytes = 0;
    for (uint32_t i = w->fetched.first[m]; i < w->fetched.first[m + 1]; i++)
        if (!is_issued(w, lap * w->fetch_count + i))
            bytes += slot_bytes(w, interval_at(w, w->fetched.items[i]));
    for (uint32_t i = w->allocated.first[m]; i < w->allocated.first[m + 1]; i++)
        bytes += slot_bytes(w, interval_at(w, w->allocated.items[i]));
    return bytes;
}

/* Fetches what the device uses now and does not have. What was fetched ahead has served its time.
 * The moment's headroom leaves out all chunks of its operator, those that are missing too. */
static void fetch_used(struct dispatcher *w)
{
    uint32_t m = wrap(w, w->now);
    uint64_t lap = (uint64_t)(w->now / w->moment_count);
    int64_t missing = missing_bytes(w);
    for (uint32_t i = w->fetched.first[m]; i < w->fetched.first[m + 1]; i++) {
        const struct interval *interval = interval_at(w, w->fetched.items[i]);
        uint64_t fetch = lap * w->fetch_count + i;
        int32_t ahead = interval->first_use - interval->enter;
        if (is_issued(w, fetch)) {
            headroom_take(w->headroom, wrap(w, w->now - ahead), (uint32_t)ahead,
                          -slot_bytes(w, interval));
        } else {
            missing -= slot_bytes(w, interval);
            issue(w, fetch, start_of(w, interval, -missing), 0);
        }
    }
}

/* Returns the least room at the moments from `from` moments ahead until `to` moments ahead. */
static int64_t least_room(const struct dispatcher *w, int64_t from, int64_t to)
{
    return headroom_least(w->headroom, wrap(w, w->now + from), (uint32_t)(to - from));
}

static bool is_of_way(const struct dispatcher *w, uint64_t fetch, int way)
{
    return way_of(w, interval_at(w, fetched_interval(w, fetch))) == way;
}

/* Returns the room that a fetch claims. One that waits for the host needs none until it is ready:
 * what the chunk was before may hold its room meanwhile. */
static struct room_claim claim_of(const struct dispatcher *w, uint64_t fetch)
{
    const struct interval *interval = interval_at(w, fetched_interval(w, fetch));
    int64_t lap = (int64_t)(fetch / w->fetch_count);
    int64_t ready = interval->ready + lap * w->moment_count - w->now;
    return (struct room_claim){MAX(ready, 0), use_of(w, fetch) - w->now, slot_bytes(w, interval)};
}

/* Returns whether there is room for a fetch beside those that are used sooner, with which it claims
 * `reserved` bytes. */
static bool has_room(const struct dispatcher *w, const struct room_claim *claim, int64_t reserved)
{
    int64_t unused = claim->from ? 0 : w->unused_bytes;
    return least_room(w, claim->from, claim->until) - unused >= reserved ||
           claims_leave_room(w->claims, claim, w->headroom, wrap(w, w->now),
                             (uint32_t)w->moment_count, w->job->slack_bytes + unused);
}

/* Issues the first fetch of this way that can begin before `limit_ns`; returns whether there is
 * one. A fetch that waits for the host lets others pass, but keeps its room, as those of the other
 * way do that are used sooner. Most often all of these have room at every moment, which is seen
 * quickly; each one's own moments count only where they do not. */
static bool fetch_ahead(struct dispatcher *w, int way, int64_t limit_ns)
{
    int64_t best_ns = limit_ns, reserved = w->job->slack_bytes, reached = 0;
    int64_t room = headroom_at(w->headroom, wrap(w, w->now)) - w->unused_bytes;
    uint64_t best = 0, passed = 0;
    bool waits = false;
    g_array_set_size(w->claims, 0);
    while (is_issued(w, w->next[way]) || use_of(w, w->next[way]) <= w->now)
        w->next[way]++;
    for (uint64_t f = w->next[way], seen = 0;
         seen < WINDOW && passed < PASSED_MOST && best_ns > idle_from(w, way); f++) {
        struct room_claim claim = claim_of(w, f);
        if (claim.until >= w->moment_count)
            break;
        if (is_issued(w, f))
            continue;
        bool own = is_of_way(w, f, way);
        seen += own;
        passed += !own;
        waits |= claim.from > 0;
        reserved += claim.bytes;
        room = MIN(room, least_room(w, reached, claim.until));
        reached = claim.until;
        if (room < reserved && !(waits && has_room(w, &claim, reserved)))
            break;
        g_array_append_val(w->claims, claim);
        const struct interval *interval = interval_at(w, fetched_interval(w, f));
        if (!own || claim.from > 0 || w->unsent[interval->chunk] != NO_INDEX)
            continue;
        int64_t start = start_of(w, interval, claim.bytes);
        best = start < best_ns ? f : best;
        best_ns = MIN(start, best_ns);
    }
    if (best_ns == limit_ns)
        return false;
    issue(w, best, best_ns, use_of(w, best) - w->now);
    return true;
}

/* Gives the network, and both directions of the link, work until then. */
static void feed_link(struct dispatcher *w, int64_t limit_ns)
{
    while (idle_from(w, D2H) < limit_ns && any_waits(w))
        write_back(w, deadlines_take(w->waiting));
    while (w->gathers && idle_from(w, NETWORK) < limit_ns && fetch_ahead(w, NETWORK, limit_ns))
        continue;
    while (w->fetches && idle_from(w, H2D) < limit_ns && fetch_ahead(w, H2D, limit_ns))
        continue;
}

/* ---- operators ---- */

/* Writes back what the operator needs: on the host, or again on the device. */
static void write_back_used(struct dispatcher *w)
{
    const struct accesses *accesses = w->job->accesses;
    uint32_t m = wrap(w, w->now);
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        uint32_t index = w->unsent[access->chunk];
        if (index != NO_INDEX && (access->flags & ACCESS_ON_HOST || w->unused[index]))
            write_back(w, index);
    }
}

/* Exchanges what the operator exchanges, from `start_ns` on; returns when that is over. */
static int64_t exchange(struct dispatcher *w, uint32_t moment, int64_t start_ns)
{
    int64_t ns = (int64_t)w->job->exchange_ns[moment];
    if (!ns)
        return start_ns;
    w->link_ns[NETWORK] = MAX(w->link_ns[NETWORK], start_ns) + ns;
    return w->link_ns[NETWORK];
}

static void run_on_host(struct dispatcher *w, const struct trace_operator *op)
{
    const struct accesses *accesses = w->job->accesses;
    uint32_t m = wrap(w, w->now);
    int64_t start = MAX(MAX(w->host_ns, w->device_ns), w->reduced_ns[0]);
    if (op->d2h_bytes) {
        w->link_ns[D2H] = w->sent_ns = idle_from(w, D2H) + (int64_t)w->job->activations_ns[1][m];
        start = MAX(start, w->sent_ns);
    }
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        start = MAX(start, w->valid_ns[accesses->items[a].chunk]);
    w->host_ns = exchange(w, m, start + (int64_t)op->duration_ns);
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        w->valid_ns[accesses->items[a].chunk] = w->host_ns;
    if (op->h2d_bytes) {
        feed_link(w, w->host_ns);
        w->link_ns[H2D] = MAX(w->link_ns[H2D], w->host_ns) + (int64_t)w->job->activations_ns[0][m];
        w->received_ns = w->link_ns[H2D];
    }
}

/* Returns when the device has done its work so far, and the reductions that the operator waits for
 * are over. The next reduction keeps the buffers of the last one alive. */
static int64_t awaited(const struct dispatcher *w, const struct trace_operator *op)
{
    return MAX(w->device_ns, w->reduced_ns[op->phase == TRACE_BACKWARD]);
}

/* Returns when the operator can start, which may have to wait for room: for what it overwrites, and
 * for non-model data that grows over chunks which are leaving. */
static int64_t allocate_used(struct dispatcher *w, int64_t start)
{
    uint32_t m = wrap(w, w->now);
    start = MAX(start, room_ns(w, 0, 0));
    for (uint32_t i = w->allocated.first[m]; i < w->allocated.first[m + 1]; i++)
        w->begin_ns[w->allocated.items[i]] = start;
    return start;
}

static void run_on_device(struct dispatcher *w, const struct trace_operator *op)
{
    const struct accesses *accesses = w->job->accesses;
    uint32_t m = wrap(w, w->now);
    int64_t start = MAX(awaited(w, op), MAX(w->received_ns, w->sent_ns));
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        start = MAX(start, w->arrival_ns[accesses->items[a].chunk]);
    start = allocate_used(w, start);
    int64_t end = exchange(w, m, start) + (int64_t)op->duration_ns;
    feed_link(w, end);
    w->device_ns = end;
}

/* The device goes on while the network reduces. */
static void reduce(struct dispatcher *w, const struct trace_operator *op)
{
    const struct accesses *accesses = w->job->accesses;
    uint32_t m = wrap(w, w->now);
    int64_t start = awaited(w, op);
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        start = MAX(start, w->arrival_ns[accesses->items[a].chunk]);
    start = MAX(start, w->link_ns[NETWORK]);
    start = allocate_used(w, start);
    int64_t end = exchange(w, m, start);
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        w->arrival_ns[accesses->items[a].chunk] = end;
    w->reduced_ns[1] = w->reduced_ns[0];
    w->reduced_ns[0] = end;
}

static void step(struct dispatcher *w)
{
    uint32_t m = wrap(w, w->now);
    const struct trace_operator *op = &w->job->trace->operators[m];
    w->issue_ns[m] = w->device_ns;
    end_uses(w);
    write_back_used(w);
    fetch_used(w);
    if (op->place == TRACE_ON_HOST)
        run_on_host(w, op);
    else if (trace_operator_reduces(op))
        reduce(w, op);
    else
        run_on_device(w, op);
    w->now++;
}

/* ---- the walk ---- */

static struct agenda agenda_new(const struct dispatcher *w,
                                bool (*belongs)(const struct interval *),
                                int32_t (*moment)(const struct interval *))
{
    uint32_t count = w->intervals->items->len, n = (uint32_t)w->moment_count;
    struct agenda agenda = {g_new0(uint32_t, n + 1), g_new(uint32_t, count + 1)};
    for (uint32_t i = 0; i < count; i++)
        if (belongs(interval_at(w, i)))
            agenda.first[intervals_moment(w->intervals, moment(interval_at(w, i))) + 1]++;
    for (uint32_t m = 0; m < n; m++)
        agenda.first[m + 1] += agenda.first[m];
    g_autofree uint32_t *next = g_memdup2(agenda.first, (n + 1) * sizeof *agenda.first);
    for (uint32_t i = 0; i < count; i++)
        if (belongs(interval_at(w, i)))
            agenda.items[next[intervals_moment(w->intervals, moment(interval_at(w, i)))]++] = i;
    return agenda;
}

static void agenda_clear(struct agenda *agenda)
{
    g_free(agenda->first);
    g_free(agenda->items);
}

static bool is_fetched(const struct interval *interval)
{
    return interval->fetch;
}

static bool is_allocated(const struct interval *interval)
{
    return !interval->fetch;
}

static bool is_any(G_GNUC_UNUSED const struct interval *interval)
{
    return true;
}

static int32_t first_use_of(const struct interval *interval)
{
    return interval->first_use;
}

static int32_t release_of(const struct interval *interval)
{
    return interval->release;
}

static int32_t end_of(const struct interval *interval)
{
    return interval->last_use + 1;
}

static void walk_open(struct dispatcher *w, struct intervals *intervals,
                      const struct retention *retention, const struct dispatch_job *job)
{
    uint32_t n = intervals->reuses->moment_count, chunks = intervals->reuses->chunk_count,
             count = intervals->items->len;
    g_autofree int64_t *bytes = g_new(int64_t, n);
    *w = (struct dispatcher){.intervals = intervals, .job = job, .moment_count = n};
    w->valid_ns = g_new0(int64_t, chunks);
    w->arrival_ns = g_new0(int64_t, chunks);
    w->unsent = g_new(uint32_t, chunks);
    for (uint32_t c = 0; c < chunks; c++)
        w->unsent[c] = NO_INDEX;
    for (uint32_t m = 0; m < n; m++)
        bytes[m] = headroom_at(retention->headroom, m) + (int64_t)retention->reserve;
    w->headroom = headroom_new(bytes, n);
    w->waiting = deadlines_new();
    w->unused = g_new0(uint8_t, count + 1);
    w->leaving = g_array_new(FALSE, FALSE, sizeof(struct leaving));
    w->claims = g_array_new(FALSE, FALSE, sizeof(struct room_claim));
    w->fetched = agenda_new(w, is_fetched, first_use_of);
    w->allocated = agenda_new(w, is_allocated, first_use_of);
    w->written = agenda_new(w, is_written_back, release_of);
    w->over = agenda_new(w, is_any, end_of);
    w->fetch_count = w->fetched.first[n];
    for (uint32_t i = 0; i < w->fetch_count; i++)
        *(way_of(w, interval_at(w, w->fetched.items[i])) == NETWORK ? &w->gathers
                                                                    : &w->fetches) = true;
    w->issued = g_new0(uint8_t, count + 1);
    w->begin_ns = g_new0(int64_t, count + 1);
    w->end_ns = g_new0(int64_t, count + 1);
    w->sent = g_new0(struct sent, count + 1);
    w->issue_ns = g_new0(int64_t, n);
}

static void walk_close(struct dispatcher *w)
{
    g_free(w->valid_ns);
    g_free(w->arrival_ns);
    g_free(w->unsent);
    headroom_free(w->headroom);
    g_array_unref(w->waiting);
    g_free(w->unused);
    g_array_unref(w->leaving);
    g_array_unref(w->claims);
    agenda_clear(&w->fetched);
    agenda_clear(&w->allocated);
    agenda_clear(&w->written);
    agenda_clear(&w->over);
    g_free(w->issued);
    g_free(w->begin_ns);
    g_free(w->end_ns);
    g_free(w->sent);
    g_free(w->issue_ns);
}

/* The walk ends while chunks wait for their write-backs. The next lap would issue these when the
 * last lap issued those of the same chunks from the lap before it, whose room was counted until
 * then. */
static void end_waiting(struct dispatcher *w)
{
    int64_t last_lap = (LAPS - 1) * w->moment_count;
    for (guint i = 0; i < w->intervals->items->len; i++) {
        struct interval *interval = interval_at(w, i);
        uint32_t last_use = intervals_moment(w->intervals, interval->last_use);
        if (!w->unused[i] || w->sent[i].moment < last_lap)
            continue;
        w->intervals->waits = true;
        if (!w->job->leaves_late)
            continue;
        interval->leave = interval->last_use + 1 +
                          (int32_t)wrap(w, w->sent[i].moment - last_lap - 1 - last_use);
        w->end_ns[i] = w->sent[i].end_ns + w->period_ns;
    }
}

/* Tells every interval when it held its slot in the last lap. */
static void note_times(struct dispatcher *w)
{
    int64_t period = w->period_ns;
    for (guint i = 0; i < w->intervals->items->len; i++) {
        struct interval *interval = interval_at(w, i);
        interval->begin_ns = ((w->begin_ns[i] - w->lap_ns) % period + period) % period;
        interval->lasts_ns = ((w->end_ns[i] - w->begin_ns[i]) % period + period) % period;
    }
}

struct moment_times *dispatch(struct intervals *intervals, const struct retention *retention,
                              const struct dispatch_job *job)
{
    struct dispatcher w;
    walk_open(&w, intervals, retention, job);
    for (int lap = 0; lap < LAPS; lap++) {
        w.lap_ns = w.device_ns;
        for (int64_t m = 0; m < w.moment_count; m++)
            step(&w);
        w.period_ns = MAX(w.device_ns - w.lap_ns, 1);
    }
    end_waiting(&w);
    note_times(&w);
    uint64_t *issue_ns = g_new(uint64_t, (size_t)w.moment_count);
    for (int64_t m = 0; m < w.moment_count; m++)
        issue_ns[m] = (uint64_t)w.issue_ns[m];
    struct moment_times *times = moment_times_new(issue_ns, job->trace, (double)w.period_ns * 1e-9);
    walk_close(&w);
    return times;
}
