#include "chunks/placing.h"

static bool is_home(const struct placing *p, uint32_t chunk)
{
    return p->arena->address[chunk] == p->start[chunk];
}

static int lowest_start_first(const void *left, const void *right, void *data)
{
    const uint64_t *start = data;
    uint64_t a = start[*(const uint32_t *)left], b = start[*(const uint32_t *)right];
    return (a > b) - (a < b);
}

/* Those away from where they began, in the order of these addresses. */
static GArray *list_away(const struct placing *p)
{
    GArray *away = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t c = 0; c < p->arena->chunk_count; c++)
        if (!is_home(p, c))
            g_array_append_val(away, c);
    g_array_sort_with_data(away, lowest_start_first, p->start);
    return away;
}

/* Moves what can go straight home; keeps the others in the list. */
static void move_straight(struct placing *p, GArray *away)
{
    uint32_t before;
    do {
        before = away->len;
        uint32_t left = 0;
        for (uint32_t i = 0; i < before; i++) {
            uint32_t chunk = g_array_index(away, uint32_t, i);
            if (arena_has_room(p->arena, chunk, p->start[chunk]))
                placing_move(p, chunk, p->start[chunk]);
            else
                g_array_index(away, uint32_t, left++) = chunk;
        }
        g_array_set_size(away, left);
    } while (away->len < before);
}

static void send_to_host(struct placing *p, uint32_t chunk, GArray *gone)
{
    placing_take(p, chunk);
    placing_emit(p, PLAN_WRITE_BACK, chunk, PLAN_NOWHERE);
    p->returned += p->arena->bytes[chunk];
    g_array_append_val(gone, chunk);
}

/* A hole for the chunk that is not within [begin, end), where it stands in the way. */
static uint64_t find_aside(const struct placing *p, uint32_t chunk, uint64_t begin, uint64_t end,
                           uint64_t ceiling)
{
    uint64_t bytes = p->arena->bytes[chunk];
    uint64_t above = arena_best_fit(p->arena, bytes, end, ceiling);
    return above != ARENA_NOWHERE ? above : arena_best_fit(p->arena, bytes, p->floor, begin);
}

/* Whoever stands where the chunk began steps aside; those for whom there is no room go to the host.
 */
static void make_way(struct placing *p, uint32_t chunk, uint64_t ceiling, GArray *gone)
{
    const struct arena *arena = p->arena;
    uint64_t begin = p->start[chunk], end = begin + arena->bytes[chunk];
    uint32_t other = arena_first_above(arena, begin);
    while (other != arena->chunk_count && arena->address[other] < end) {
        uint32_t next = arena->above[other];
        if (other != chunk) {
            uint64_t aside = find_aside(p, other, begin, end, ceiling);
            if (aside != ARENA_NOWHERE)
                placing_move(p, other, aside);
            else
                send_to_host(p, other, gone);
        }
        other = next;
    }
}

void placing_go_home(struct placing *p, uint64_t ceiling)
{
    g_autoptr(GArray) away = list_away(p), gone = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    move_straight(p, away);
    for (uint32_t i = 0; i < away->len; i++) {
        uint32_t chunk = g_array_index(away, uint32_t, i);
        if (p->arena->address[chunk] == ARENA_NOWHERE || is_home(p, chunk))
            continue;
        make_way(p, chunk, ceiling, gone);
        placing_move(p, chunk, p->start[chunk]);
    }
    for (uint32_t i = 0; i < gone->len; i++) {
        uint32_t chunk = g_array_index(gone, uint32_t, i);
        placing_put(p, chunk, p->start[chunk]);
        placing_emit(p, PLAN_FETCH, chunk, p->start[chunk]);
    }
}
