#include "policies/room.h"

#include <glib.h>

/* A tree over the moments. A node knows the least room of its moments, but for what was taken from
 * all moments of a node above it. */
struct node {
    int64_t least;
    int64_t taken; /* from each moment of the node, already in `least`, not in those below */
};

struct policy_room {
    uint32_t moment_count;
    struct node *nodes; /* the children of node n are 2n and 2n + 1; the root is 1 */
};

/* The moments from `begin` up to `end`, which `node` stands for. */
struct part {
    uint32_t node, begin, end;
};

static struct part left_of(struct part part)
{
    return (struct part){2 * part.node, part.begin, part.begin + (part.end - part.begin) / 2};
}

static struct part right_of(struct part part)
{
    return (struct part){2 * part.node + 1, part.begin + (part.end - part.begin) / 2, part.end};
}

static void set_least(struct policy_room *room, uint32_t node)
{
    room->nodes[node].least = MIN(room->nodes[2 * node].least, room->nodes[2 * node + 1].least) -
                              room->nodes[node].taken;
}

static void build(struct policy_room *room, struct part part, const int64_t *bytes)
{
    if (part.end - part.begin == 1) {
        room->nodes[part.node].least = bytes[part.begin];
        return;
    }
    build(room, left_of(part), bytes);
    build(room, right_of(part), bytes);
    set_least(room, part.node);
}

struct policy_room *policy_room_new(const int64_t *bytes, uint32_t moment_count)
{
    struct policy_room *room = g_new(struct policy_room, 1);
    uint32_t leaves = 1;
    while (leaves < moment_count)
        leaves *= 2;
    room->moment_count = moment_count;
    room->nodes = g_new0(struct node, 2 * leaves);
    build(room, (struct part){1, 0, moment_count}, bytes);
    return room;
}

void policy_room_free(struct policy_room *room)
{
    g_free(room->nodes);
    g_free(room);
}

/* Whether each of the part's moments from `begin` up to `end` has `bytes`. */
static bool has(const struct policy_room *room, struct part part, uint32_t begin, uint32_t end,
                int64_t bytes)
{
    const struct node *node = &room->nodes[part.node];
    if (end <= part.begin || part.end <= begin || node->least >= bytes)
        return true;
    if (begin <= part.begin && part.end <= end)
        return false;
    bytes += node->taken;
    return has(room, left_of(part), begin, end, bytes) &&
           has(room, right_of(part), begin, end, bytes);
}

static void take(struct policy_room *room, struct part part, uint32_t begin, uint32_t end,
                 int64_t bytes)
{
    if (end <= part.begin || part.end <= begin)
        return;
    if (begin <= part.begin && part.end <= end) {
        room->nodes[part.node].least -= bytes;
        room->nodes[part.node].taken += bytes;
        return;
    }
    take(room, left_of(part), begin, end, bytes);
    take(room, right_of(part), begin, end, bytes);
    set_least(room, part.node);
}

bool policy_room_take(struct policy_room *room, uint32_t first, uint32_t span, int64_t bytes)
{
    const struct part all = {1, 0, room->moment_count};
    uint32_t begin = first % room->moment_count, end = MIN(begin + span, room->moment_count);
    uint32_t rest = begin + span - end; /* from moment 0 on */
    if (!span)
        return true;
    if (!has(room, all, begin, end, bytes) || !has(room, all, 0, rest, bytes))
        return false;
    take(room, all, begin, end, bytes);
    take(room, all, 0, rest, bytes);
    return true;
}
