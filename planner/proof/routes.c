#include "planner/proof/routes.h"

static bool exchanges(const struct trace_operator *op)
{
    struct trace_exchange exchange = trace_operator_exchange(op);
    return exchange.sent_bytes || exchange.received_bytes;
}

/* An operator that exchanges something begins to compute at another time than the device is ready
 * for it. */
static bool may_begin(const struct trace_operator *op)
{
    return op->place == TRACE_ON_DEVICE && op->phase != TRACE_UPDATE_PHASE && !exchanges(op);
}

bool time_window_may_begin_at(const struct trace_operator *op, enum window_begin begins)
{
    return op->place == TRACE_ON_DEVICE && op->phase == TRACE_UPDATE_PHASE &&
           op->access_count > 0 && !trace_operator_reduces(op) &&
           (begins == WINDOW_AFTER_UPDATE || !exchanges(op));
}

bool time_window_may_begin_after(const struct trace_operator *op)
{
    return may_begin(op);
}

moment_id time_find_update(const struct trace *trace)
{
    uint32_t m = trace->operator_count;
    while (m > 0 && trace->operators[m - 1].phase == TRACE_UPDATE_PHASE)
        m--;
    return m;
}

void time_windows_choose(const struct trace *trace, const struct reuses *reuses, uint32_t most,
                         GArray *starts)
{
    uint32_t operators = 0, seen = 0, part = NO_INDEX;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        operators += may_begin(&trace->operators[m]);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (!may_begin(&trace->operators[m]))
            continue;
        uint32_t now = (uint32_t)((uint64_t)seen++ * MIN(operators, most) / operators);
        const struct window_start start = {m, WINDOW_AT_OPERATOR};
        if (now != part)
            g_array_append_val(starts, start);
        part = now;
        struct window_start *chosen = &g_array_index(starts, struct window_start, starts->len - 1);
        if (reuses->room[m] < reuses->room[chosen->moment])
            chosen->moment = m;
    }
    const struct window_start update = {time_find_update(trace), WINDOW_AT_OPERATOR};
    if (starts->len && update.moment < trace->operator_count)
        g_array_append_val(starts, update);
}

int window_start_compare(const void *left, const void *right)
{
    const struct window_start *a = left, *b = right;
    if (a->moment != b->moment)
        return a->moment < b->moment ? -1 : 1;
    return a->begins < b->begins ? -1 : a->begins > b->begins;
}

bool time_windows_are_possible(const struct trace *trace, const struct window_start *starts,
                               uint32_t count)
{
    uint32_t update = time_find_update(trace);
    for (uint32_t w = 0; w < count; w++) {
        if (starts[w].moment >= trace->operator_count || starts[w].begins >= WINDOW_BEGINS ||
            (w > 0 && window_start_compare(&starts[w - 1], &starts[w]) >= 0))
            return false;
        const struct trace_operator *op = &trace->operators[starts[w].moment];
        bool possible = may_begin(op) || (w > 0 && starts[w].moment == update);
        if (time_window_is_in_update(starts[w].begins))
            possible = w > 0 && time_window_may_begin_at(op, starts[w].begins);
        else if (starts[w].begins == WINDOW_AFTER_OPERATOR)
            possible = w > 0 && time_window_may_begin_after(op);
        if (!possible)
            return false;
    }
    return count > 0 && count <= UINT16_MAX;
}

/* If everything has room, no price of room is useful. */
static uint64_t all_bytes(const struct reuses *reuses)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        bytes += reuses->slot_bytes[c];
    return bytes;
}

uint32_t time_window_first(const struct time_window *window)
{
    return window->moment + time_window_is_after(window->begins);
}

struct time_windows *time_windows_new(const struct trace *trace, const struct reuses *reuses,
                                      const struct window_start *starts, uint32_t count)
{
    struct time_windows *windows = g_new0(struct time_windows, 1);
    uint32_t w = count - 1;
    windows->count = count;
    windows->moment_count = reuses->moment_count;
    windows->items = g_new(struct time_window, count);
    windows->of_moment = g_new(uint16_t, reuses->moment_count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t m = starts[i].moment;
        bool of_update = trace->operators[m].phase == TRACE_UPDATE_PHASE &&
                         starts[i].begins == WINDOW_AT_OPERATOR;
        uint64_t room = trace->operators[m].phase == TRACE_UPDATE_PHASE
                            ? all_bytes(reuses)
                            : (uint64_t)MAX(reuses->room[m], 0);
        windows->items[i] = (struct time_window){m, starts[i].begins, of_update, room};
    }
    for (uint32_t m = 0; m < reuses->moment_count; m++) {
        for (uint32_t i = 0; i < count && m == time_window_first(&windows->items[(w + 1) % count]);
             i++)
            w = (w + 1) % count;
        windows->of_moment[m] = (uint16_t)w;
    }
    return windows;
}

struct time_windows *time_windows_with_updates_first(const struct time_windows *windows,
                                                     moment_id update)
{
    struct time_windows *copy = g_memdup2(windows, sizeof *windows);
    copy->items = g_memdup2(windows->items, windows->count * sizeof *windows->items);
    copy->of_moment = g_memdup2(windows->of_moment,
                                windows->moment_count * sizeof *windows->of_moment);
    uint16_t last = 0;
    for (uint16_t w = 0; w < copy->count; w++)
        if (copy->items[w].moment < update ||
            (copy->items[w].moment == update && copy->items[w].of_update))
            last = w;
    for (uint32_t m = update; m < windows->moment_count; m++)
        copy->of_moment[m] = last;
    return copy;
}

bool time_windows_begin(const struct time_windows *windows, moment_id m)
{
    const struct time_window *window = &windows->items[windows->of_moment[m]];
    return window->moment == m && !window->of_update && !time_window_is_after(window->begins);
}

void time_windows_free(struct time_windows *windows)
{
    if (!windows)
        return;
    g_free(windows->items);
    g_free(windows->of_moment);
    g_free(windows);
}

uint32_t time_windows_moment(const struct time_windows *windows, uint32_t position)
{
    return (windows->items[0].moment + position) % windows->moment_count;
}

/* The places of a chunk's valid bytes. */
enum route_state {
    HOST,
    BOTH,
    DEVICE,
    WANTED, /* only on the device, and a host operator is to read them */
    STALE,  /* only on the device and useless there, since a host operator is to write them */
    DUE,    /* on the host, and a reduction is to write them on the device */
    EMPTY,  /* dead, and a reduction is to overwrite them on the device */
    STATES
};
G_STATIC_ASSERT(STATES == ROUTE_STATES);

enum route_event_kind {
    BEGINS,       /* a window, for chunks on the device */
    BEGINS_USED,  /* a window, with an operator that uses the chunk, whose room is free */
    BEGINS_FRESH, /* a window, with an operator that overwrites the chunk */
    BEGINS_OWN,   /* a window, with an update of the device that uses the chunk, or after one */
    BEGINS_MADE,  /* a window, after an update of the device that writes the chunk */
    BEGINS_LEFT,  /* a window, after an operator that has written the chunk, whose room is free */
    READ,
    WRITE,
    OVERWRITE,
    HOST_READ,
    HOST_WRITE,
    HOST_OVER,   /* an operator of the host that used the chunk is over */
    REDUCE,      /* a reduction is to write the chunk, */
    REDUCE_ALL,  /* .. or to overwrite it */
    REDUCE_LAST, /* a reduction is to use the chunk, and nothing in it is alive afterwards */
    REDUCED,     /* the reductions that were to write the chunk are over */
    KINDS,
    LAST = 16 /* flag: nothing in the chunk is alive afterwards */
};
G_STATIC_ASSERT((int)KINDS <= (int)LAST); /* kinds do not reach the flag */

#define NONE       STATES
#define IMPOSSIBLE ((scaled_ns)1 << 120)

/* The state after each kind of event. */
static const uint8_t becomes[KINDS][STATES] = {
    [BEGINS] = {HOST, BOTH, DEVICE, WANTED, STALE, DUE, EMPTY},
    [BEGINS_USED] = {NONE, BOTH, DEVICE, WANTED, NONE, NONE, NONE},
    [BEGINS_FRESH] = {HOST, BOTH, DEVICE, WANTED, STALE, DUE, EMPTY},
    [BEGINS_OWN] = {NONE, BOTH, DEVICE, WANTED, NONE, NONE, NONE},
    [BEGINS_MADE] = {NONE, NONE, DEVICE, NONE, NONE, NONE, NONE},
    [BEGINS_LEFT] = {NONE, NONE, DEVICE, NONE, NONE, NONE, NONE},
    [READ] = {NONE, BOTH, DEVICE, WANTED, NONE, NONE, NONE},
    [WRITE] = {NONE, DEVICE, DEVICE, NONE, NONE, NONE, NONE},
    [OVERWRITE] = {DEVICE, DEVICE, DEVICE, NONE, NONE, NONE, NONE},
    [HOST_READ] = {HOST, BOTH, WANTED, WANTED, STALE, HOST, HOST},
    [HOST_WRITE] = {HOST, HOST, STALE, STALE, STALE, HOST, HOST},
    [HOST_OVER] = {HOST, BOTH, DEVICE, NONE, NONE, DUE, EMPTY},
    [REDUCE] = {DUE, DEVICE, DEVICE, DUE, DUE, DUE, EMPTY},
    [REDUCE_ALL] = {EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY},
    [REDUCE_LAST] = {HOST, HOST, HOST, HOST, HOST, HOST, HOST},
    [REDUCED] = {HOST, BOTH, DEVICE, WANTED, STALE, NONE, NONE},
};

/* The state after copies, and after the reduction for which a chunk is due, within a window; and
 * the number of copies in each direction. */
static const struct {
    uint8_t from, to, h2d, d2h;
} copies[] = {
    {HOST, HOST, 0, 0},     {HOST, BOTH, 1, 0},   {BOTH, BOTH, 0, 0},    {BOTH, HOST, 0, 0},
    {DEVICE, DEVICE, 0, 0}, {DEVICE, BOTH, 0, 1}, {DEVICE, HOST, 0, 1},  {WANTED, WANTED, 0, 0},
    {WANTED, BOTH, 0, 1},   {WANTED, HOST, 0, 1}, {STALE, STALE, 0, 0},  {STALE, HOST, 0, 1},
    {STALE, BOTH, 1, 1},    {DUE, DUE, 0, 0},     {DUE, DEVICE, 1, 0},   {DUE, BOTH, 1, 1},
    {DUE, HOST, 1, 1},      {EMPTY, EMPTY, 0, 0}, {EMPTY, DEVICE, 0, 0}, {EMPTY, BOTH, 0, 1},
    {EMPTY, HOST, 0, 1},
};

/* How many entries of this table, and states, concern chunks that no reduction uses. */
enum { COPIES_UNREDUCED = 13, STATES_UNREDUCED = DUE };

static uint8_t after_event(uint8_t kind, uint8_t state)
{
    uint8_t next = becomes[kind & ~LAST][state];
    return kind & LAST && (next == BOTH || next == DEVICE) ? HOST : next;
}

/* ---- building ---- */

/* A reduction is late, and the device goes on meanwhile. Where it only reads, it demands nothing of
 * the route. */
static uint8_t kind_of_reduction(uint32_t flags)
{
    if (flags & ACCESS_LAST)
        return REDUCE_LAST;
    return flags & ACCESS_FRESH ? REDUCE_ALL : REDUCE;
}

static uint8_t kind_of(uint32_t flags, bool reduces)
{
    uint8_t last = flags & ACCESS_LAST ? LAST : 0;
    if (reduces)
        return kind_of_reduction(flags);
    if (flags & ACCESS_ON_HOST)
        return (flags & ACCESS_WRITES ? HOST_WRITE : HOST_READ) | last;
    if (!(flags & ACCESS_WRITES))
        return READ | last;
    return (flags & ACCESS_FRESH ? OVERWRITE : WRITE) | last;
}

struct route_event {
    uint32_t key; /* twice the position, counted from the beginning of the first window */
    uint16_t window;
    uint8_t kind;
    bool begins;   /* its operator begins the window */
    bool ends;     /* when its operator is over, the next window begins */
    uint32_t span; /* of an operator of the host, or a reduction: from its key to that at which it
                      is over */
};

static bool is_reduction(const struct route_event *event)
{
    return event->kind == REDUCE || event->kind == REDUCE_ALL;
}

/* Returns the event that an operator of the host, or a reduction, is over. It is over before the
 * operator of its deadline begins, and so before the window that begins with that operator. */
static struct route_event over(const struct route_event *late, const struct time_windows *windows)
{
    uint32_t moments = windows->moment_count, count = windows->count;
    uint32_t position = (late->key + late->span) / 2 % moments;
    uint32_t m = time_windows_moment(windows, position);
    uint32_t window = windows->of_moment[m] + (time_windows_begin(windows, m) ? count - 1 : 0);
    return (struct route_event){.key = 2 * ((position + moments - 1) % moments) + 1,
                                .window = (uint16_t)(window % count),
                                .kind = is_reduction(late) ? REDUCED : HOST_OVER};
}

static int by_key(const void *left, const void *right)
{
    const struct route_event *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

static bool writes_on_device(const struct route_event *event)
{
    uint8_t kind = event->kind & (uint8_t)~LAST;
    return kind == WRITE || kind == OVERWRITE || (kind >= REDUCE && kind <= REDUCE_LAST);
}

/* Returns whether no other reduction writes the chunk before reduction `i` is over. Otherwise the
 * last of them counts. */
static bool is_last_reduction(const GArray *events, guint i, uint32_t cycle)
{
    const struct route_event *reduction = &g_array_index(events, struct route_event, i);
    for (guint k = 1; k < events->len; k++) {
        const struct route_event *event = &g_array_index(events, struct route_event,
                                                         (i + k) % events->len);
        if ((event->key + cycle - reduction->key) % cycle < reduction->span && is_reduction(event))
            return false;
    }
    return true;
}

/* Returns whether the device does not write the chunk before event `i`, of an operator of the host,
 * is over. */
static bool is_clean_until_over(const GArray *events, guint i, uint32_t cycle)
{
    const struct route_event *host = &g_array_index(events, struct route_event, i);
    for (guint k = 1; k < events->len; k++) {
        const struct route_event *event = &g_array_index(events, struct route_event,
                                                         (i + k) % events->len);
        if ((event->key + cycle - host->key) % cycle >= host->span)
            return true;
        if (writes_on_device(event))
            return false;
    }
    return true;
}

/* Adds when operators of the host are over, if the chunk that they found on the device only must
 * have been copied by then; and when reductions are over. */
static void add_ends(GArray *events, const struct time_windows *windows)
{
    uint32_t cycle = 2 * windows->moment_count;
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(struct route_event));
    for (guint i = 0; i < events->len; i++) {
        const struct route_event *event = &g_array_index(events, struct route_event, i);
        if (event->span == 0 || event->span >= cycle ||
            !(is_reduction(event) ? is_last_reduction(events, i, cycle)
                                  : is_clean_until_over(events, i, cycle)))
            continue;
        const struct route_event end = over(event, windows);
        g_array_append_val(ends, end);
    }
    g_array_append_vals(events, ends->data, ends->len);
    if (ends->len)
        g_array_sort(events, by_key);
}

/* Returns whether the access demands nothing of a route: of a reduction that only reads. */
static bool demands_nothing(uint32_t flags, bool reduces)
{
    return reduces && !(flags & (ACCESS_WRITES | ACCESS_LAST | ACCESS_ON_HOST));
}

static GArray **sort_events(const struct accesses *accesses, const struct trace *trace,
                            const struct time_windows *windows, const uint32_t *deadline)
{
    GArray **events = g_new(GArray *, accesses->chunk_count);
    for (uint32_t c = 0; c < accesses->chunk_count; c++)
        events[c] = g_array_new(FALSE, FALSE, sizeof(struct route_event));
    for (uint32_t p = 0; p < accesses->moment_count; p++) {
        uint32_t m = time_windows_moment(windows, p);
        uint16_t window = windows->of_moment[m];
        const struct time_window *next = &windows->items[(window + 1) % windows->count];
        bool begins = time_windows_begin(windows, m);
        bool ends = time_window_is_after(next->begins) && next->moment == m;
        bool on_host = trace->operators[m].place == TRACE_ON_HOST;
        bool late = trace_operator_reduces(&trace->operators[m]);
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            uint32_t flags = accesses->items[a].flags;
            bool device = !(flags & ACCESS_ON_HOST), reduces = late && device;
            uint32_t span = on_host || reduces ? 2 * (deadline[m] - m) : 0;
            const struct route_event event = {
                2 * p, window, kind_of(flags, reduces), begins && device, ends && device, span};
            if (!demands_nothing(flags, reduces))
                g_array_append_val(events[accesses->items[a].chunk], event);
        }
    }
    for (uint32_t c = 0; c < accesses->chunk_count; c++)
        add_ends(events[c], windows);
    return events;
}

/* Ranks events by how surely the state after them is known. */
static int certainty(uint8_t kind)
{
    switch (kind & ~LAST) {
    case WRITE:
    case OVERWRITE:
    case REDUCE_ALL:
    case REDUCE_LAST:
        return 3;
    case HOST_WRITE:
        return 2;
    case READ:
        return 1;
    default:
        return 0;
    }
}

static uint8_t state_after(uint8_t kind)
{
    switch (kind & ~LAST) {
    case WRITE:
    case OVERWRITE:
        return kind & LAST ? HOST : DEVICE;
    case READ:
        return kind & LAST ? HOST : BOTH;
    case REDUCE_ALL:
        return EMPTY;
    default: /* no operator of the device has written it */
        return HOST;
    }
}

static void add_step(GArray *steps, uint32_t window, uint8_t kind)
{
    const struct route_step step = {(uint16_t)window, kind};
    g_array_append_val(steps, step);
}

/* Returns how a window begins with the operator of the event. */
static uint8_t kind_with(const struct route_event *event, const struct time_windows *windows)
{
    static const uint8_t with[] = {
        [READ] = BEGINS_USED, [WRITE] = BEGINS_USED, [OVERWRITE] = BEGINS_FRESH};
    uint8_t kind = with[event->kind & ~LAST];
    if (windows->items[event->window].begins != WINDOW_AT_UPDATE)
        return kind;
    return kind == BEGINS_USED ? BEGINS_OWN : BEGINS;
}

/* Returns how a window begins after the operator of the event. Only after an update do its chunks
 * pay room. */
static uint8_t kind_after(const struct route_event *event, const struct time_window *window)
{
    bool pays = window->begins == WINDOW_AFTER_UPDATE;
    if (event->kind & LAST)
        return BEGINS;
    if (event->kind == READ)
        return pays ? BEGINS_OWN : BEGINS_USED;
    return pays ? BEGINS_MADE : BEGINS_LEFT;
}

/* Appends the windows after that of the event before, up to the event's, `count` later if it is in
 * the next cycle, then the event. */
static void add_event(GArray *steps, const struct route_event *before,
                      const struct route_event *event, bool is_next_cycle,
                      const struct time_windows *windows)
{
    uint32_t until = event->window + (is_next_cycle ? windows->count : 0);
    for (uint32_t w = before->window + 1; w <= until; w++) {
        uint8_t kind = BEGINS;
        if (before->ends && w == before->window + 1u)
            kind = kind_after(before, &windows->items[w % windows->count]);
        else if (w == until && event->begins)
            kind = kind_with(event, windows);
        add_step(steps, w % windows->count, kind);
    }
    add_step(steps, event->window, event->kind);
}

static struct route build(const GArray *events, const struct time_windows *windows)
{
    struct route route = {0};
    guint first = 0;
    bool on_device = false, reduced = false;
    for (guint i = 0; i < events->len; i++) {
        const struct route_event *event = &g_array_index(events, struct route_event, i);
        uint8_t kind = event->kind & (uint8_t)~LAST;
        bool on_host = kind >= HOST_READ && kind <= HOST_OVER;
        on_device |= !on_host;
        reduced |= kind >= REDUCE;
        route.used_on_host |= on_host;
        if (certainty(event->kind) >
            certainty(g_array_index(events, struct route_event, first).kind))
            first = i;
    }
    route.states = reduced ? STATES : STATES_UNREDUCED;
    if (!on_device)
        return route;
    /* Which side has the bytes is known only after somebody has written them for certain. */
    if (reduced && certainty(g_array_index(events, struct route_event, first).kind) < 3)
        return route;
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct route_step));
    const struct route_event *start = &g_array_index(events, struct route_event, first);
    for (guint i = 0; i < events->len; i++) {
        guint before = (first + i) % events->len, index = (first + i + 1) % events->len;
        add_event(steps, &g_array_index(events, struct route_event, before),
                  &g_array_index(events, struct route_event, index), index <= before, windows);
    }
    route.first_window = start->window;
    route.start = state_after(start->kind);
    route.count = steps->len;
    route.steps = (struct route_step *)(void *)g_array_free(steps, FALSE);
    return route;
}

struct route *routes_new(const struct accesses *accesses, const struct trace *trace,
                         const struct time_windows *windows, const uint32_t *deadline)
{
    GArray **events = sort_events(accesses, trace, windows, deadline);
    struct route *routes = g_new(struct route, accesses->chunk_count);
    for (uint32_t c = 0; c < accesses->chunk_count; c++) {
        routes[c] = build(events[c], windows);
        g_array_unref(events[c]);
    }
    g_free(events);
    return routes;
}

void routes_free(struct route *routes, uint32_t chunk_count)
{
    for (uint32_t c = 0; routes && c < chunk_count; c++)
        g_free(routes[c].steps);
    g_free(routes);
}

bool routes_are_alike(const struct route *a, const struct route *b)
{
    if (a->count != b->count || a->first_window != b->first_window || a->start != b->start ||
        a->states != b->states || a->used_on_host != b->used_on_host)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->steps[i].window != b->steps[i].window || a->steps[i].kind != b->steps[i].kind)
            return false;
    return true;
}

/* ---- the cheapest route ---- */

/* Allows copies within the window: updates `cost` of each state, and where it came from. */
static void copy(const struct route *route, const struct route_chunk *chunk,
                 const struct certificate_window *price, bool copied, scaled_ns cost[STATES],
                 uint8_t *from)
{
    uint64_t fetch_price = chunk->fetched_by == WINDOW_H2D ? price->h2d : price->network;
    const scaled_ns memory = (scaled_ns)price->memory * chunk->memory_ns;
    const scaled_ns fetch = copied ? (scaled_ns)fetch_price * chunk->fetch_ns + memory : IMPOSSIBLE;
    const scaled_ns d2h = copied ? (scaled_ns)price->d2h * chunk->d2h_ns + memory : IMPOSSIBLE;
    size_t count = route->states == STATES ? G_N_ELEMENTS(copies) : COPIES_UNREDUCED;
    scaled_ns next[STATES];
    for (uint8_t s = 0; s < route->states; s++)
        next[s] = IMPOSSIBLE;
    for (size_t i = 0; i < count; i++) {
        scaled_ns total = cost[copies[i].from] + (copies[i].h2d ? fetch : 0) +
                          (copies[i].d2h ? d2h : 0);
        if (total < next[copies[i].to]) {
            next[copies[i].to] = total;
            from[copies[i].to] = copies[i].from;
        }
    }
    for (uint8_t s = 0; s < route->states; s++)
        cost[s] = next[s];
}

static bool pays_room(uint8_t kind, uint8_t state)
{
    return (kind == BEGINS || kind == BEGINS_OWN || kind == BEGINS_MADE) && state != HOST &&
           state != DUE && state != EMPTY;
}

static void lower(scaled_ns total, uint8_t state, uint8_t to, scaled_ns next[STATES], uint8_t *from)
{
    if (to == NONE || total >= next[to])
        return;
    next[to] = total;
    from[to] = state;
}

/* Applies an event; `from` receives the state before it for each state after it. A chunk on the
 * device may still be leaving before it comes back for a reduction that is late. */
static void happen(const struct route *route, const struct route_step *step, scaled_ns room,
                   scaled_ns cost[STATES], uint8_t *from)
{
    scaled_ns next[STATES];
    for (uint8_t s = 0; s < route->states; s++)
        next[s] = IMPOSSIBLE;
    for (uint8_t s = 0; s < route->states; s++) {
        scaled_ns total = cost[s] + (pays_room(step->kind, s) ? room : 0);
        lower(total, s, after_event(step->kind, s), next, from);
        if (step->kind == REDUCE && s != EMPTY)
            lower(total, s, DUE, next, from);
    }
    for (uint8_t s = 0; s < route->states; s++)
        cost[s] = next[s];
}

/* from[i][s] describes the route that is in state s after step i and the copies behind it. One byte
 * holds two states: that before the step is from % STATES, that between step and copies is from /
 * STATES. */
scaled_ns route_cheapest(const struct route *route, const struct route_chunk *chunk,
                         const struct certificate_window *prices, bool copied,
                         uint8_t (*from)[ROUTE_STATES])
{
    scaled_ns cost[STATES];
    uint8_t before[STATES] = {0}, between[STATES] = {0};
    if (route->count == 0)
        return 0;
    for (uint8_t s = 0; s < route->states; s++)
        cost[s] = s == route->start ? 0 : IMPOSSIBLE;
    copy(route, chunk, &prices[route->first_window], copied, cost, between);
    for (uint32_t i = 0; i < route->count; i++) {
        const struct certificate_window *price = &prices[route->steps[i].window];
        scaled_ns room = (scaled_ns)price->room * chunk->bytes;
        if (price->whole)
            room += (scaled_ns)price->whole * window_whole(price, chunk->bytes);
        happen(route, &route->steps[i], room, cost, before);
        if (i + 1 < route->count)
            copy(route, chunk, price, copied, cost, between);
        for (uint8_t s = 0; from && s < route->states; s++) {
            uint8_t middle = i + 1 < route->count ? between[s] : s;
            from[i][s] = (uint8_t)(middle * STATES + before[middle]);
        }
    }
    return cost[route->start];
}

static void count_copies(uint8_t before, uint8_t after, const struct route_chunk *chunk,
                         uint64_t use[WINDOW_USES])
{
    for (size_t i = 0; i < G_N_ELEMENTS(copies); i++)
        if (copies[i].from == before && copies[i].to == after) {
            use[chunk->fetched_by] += copies[i].h2d * chunk->fetch_ns;
            use[WINDOW_D2H] += copies[i].d2h * chunk->d2h_ns;
            use[WINDOW_MEMORY] += (copies[i].h2d + copies[i].d2h) * chunk->memory_ns;
        }
}

void route_follow(const struct route *route, const struct route_chunk *chunk,
                  const struct certificate_window *prices, uint8_t (*from)[ROUTE_STATES],
                  uint64_t (*use)[WINDOW_USES])
{
    uint8_t state = route->start;
    for (uint32_t i = route->count; i-- > 0;) {
        const struct route_step *step = &route->steps[i];
        uint8_t middle = from[i][state] / STATES, before = from[i][state] % STATES;
        if (i + 1 < route->count)
            count_copies(middle, state, chunk, use[step->window]);
        if (pays_room(step->kind, before)) {
            use[step->window][WINDOW_ROOM] += chunk->bytes;
            use[step->window][WINDOW_WHOLE] += window_whole(&prices[step->window], chunk->bytes);
        }
        state = before;
    }
    if (route->count)
        count_copies(route->start, state, chunk, use[route->first_window]);
}
