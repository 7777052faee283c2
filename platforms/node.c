#include "platforms/node.h"

#include "platforms/fields.h"

#include <math.h>

enum { MOST_POINTS = 1 << 16, MOST_RANKS = 1 << 20 };

static const char *const collective_keys[PLATFORM_COLLECTIVES] = {
    [PLATFORM_GATHER] = "gather",
    [PLATFORM_REDUCE] = "reduce",
};

void level_clear(struct platform_level *level)
{
    g_free(level->source);
    for (int c = 0; c < PLATFORM_COLLECTIVES; c++)
        g_free(level->points[c]);
}

void node_clear(struct platform_node *node)
{
    level_clear(&node->level);
}

/* ---- reading ---- */

static bool read_point(const json_t *triple, struct platform_exchange *point)
{
    const json_t *ranks = json_array_get(triple, 0), *bytes = json_array_get(triple, 1);
    const json_t *seconds = json_array_get(triple, 2), *core = json_array_get(triple, 3);
    json_int_t count = json_integer_value(ranks);
    *point = (struct platform_exchange){(uint32_t)CLAMP(count, 0, MOST_RANKS),
                                        json_number_value(bytes), json_number_value(seconds),
                                        json_number_value(core)};
    return json_array_size(triple) == (core ? 4 : 3) && json_is_integer(ranks) && count >= 2 &&
           count <= MOST_RANKS && field_is_positive(bytes) && field_is_positive(seconds) &&
           (!core || field_is_positive(core));
}

static bool follows(const struct platform_exchange *point, const struct platform_exchange *before)
{
    return point->ranks > before->ranks ||
           (point->ranks == before->ranks && point->bytes > before->bytes);
}

static bool read_exchanges(const json_t *object, const char *path, enum platform_collective c,
                           struct platform_level *level, GError **error)
{
    const json_t *points = json_object_get(object, collective_keys[c]);
    size_t count = json_array_size(points);
    if (!points)
        return true;
    if (count == 0 || count > MOST_POINTS)
        return field_wrong(
            error, path, collective_keys[c], points,
            "a non-empty list of [ranks, bytes, seconds], or of [ranks, bytes, seconds, "
            "core seconds]");
    level->points[c] = g_new0(struct platform_exchange, count);
    level->point_count[c] = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct platform_exchange *point = &level->points[c][i];
        const json_t *triple = json_array_get(points, i);
        if (!read_point(triple, point))
            return field_wrong(error, path, collective_keys[c], triple,
                               "[ranks, bytes, seconds] or [ranks, bytes, seconds, core seconds]: "
                               "at least 2 ranks, and all others above 0");
        if (i > 0 && !follows(point, point - 1))
            return field_wrong(error, path, collective_keys[c], triple,
                               "larger in ranks, or in bytes, than the point before it");
    }
    return true;
}

/* A level without points of both collectives needs a rate. */
static bool read_level(const json_t *object, const char *path, struct platform_level *level,
                       GError **error)
{
    if (!field_string(object, path, "source", &level->source, error))
        return false;
    for (int c = 0; c < PLATFORM_COLLECTIVES; c++)
        if (!read_exchanges(object, path, (enum platform_collective)c, level, error))
            return false;
    bool measured = level->points[PLATFORM_GATHER] && level->points[PLATFORM_REDUCE];
    if (measured && !json_object_get(object, "bytes_per_second"))
        return true;
    return field_positive(object, path, "bytes_per_second", &level->bytes_per_second, error) &&
           (!json_object_get(object, "latency_seconds") ||
            field_seconds(object, path, "latency_seconds", &level->latency_seconds, error));
}

static bool read_ranks(const json_t *object, const char *path, const char *key, uint32_t *count,
                       GError **error)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > MOST_RANKS)
        return field_wrong(error, path, key, value, "an integer in [1, 1048576]");
    *count = (uint32_t)number;
    return true;
}

static bool read_switch(const json_t *object, const char *path, struct platform_node *node,
                        GError **error)
{
    const json_t *shared = json_object_get(object, "gpus_per_switch");
    node->gpus_per_switch = 1;
    if (!shared)
        return true;
    if (!read_ranks(object, path, "gpus_per_switch", &node->gpus_per_switch, error) ||
        !field_positive(object, path, "switch_bytes_per_second", &node->switch_bytes_per_second,
                        error))
        return false;
    return node->gpus % node->gpus_per_switch == 0 ||
           field_wrong(error, path, "gpus_per_switch", shared, "a divisor of gpus");
}

static bool read_sharing(const json_t *object, const char *path, struct platform_node *node,
                         GError **error)
{
    const json_t *shares = json_object_get(object, "exchanges_share_link");
    node->exchanges_share_link = json_is_true(shares);
    return !shares || json_is_boolean(shares) ||
           field_wrong(error, path, "exchanges_share_link", shares, "true or false");
}

bool node_read(const json_t *root, const char *path, struct platform_node *node, GError **error)
{
    const json_t *object = json_object_get(root, "node");
    if (!object)
        return true;
    return read_ranks(object, path, "gpus", &node->gpus, error) &&
           read_switch(object, path, node, error) && read_sharing(object, path, node, error) &&
           read_level(object, path, &node->level, error);
}

bool network_read(const json_t *root, const char *path, struct platform_level *network,
                  GError **error)
{
    const json_t *object = json_object_get(root, "network");
    return !object || read_level(object, path, network, error);
}

/* ---- writing ---- */

json_t *level_to_json(const struct platform_level *level)
{
    json_t *object = json_pack("{s:s}", "source", level->source);
    if (level->bytes_per_second > 0) {
        json_object_set_new(object, "bytes_per_second", json_real(level->bytes_per_second));
        json_object_set_new(object, "latency_seconds", json_real(level->latency_seconds));
    }
    for (int c = 0; c < PLATFORM_COLLECTIVES; c++) {
        json_t *points = json_array();
        for (uint32_t i = 0; i < level->point_count[c]; i++) {
            const struct platform_exchange *point = &level->points[c][i];
            json_t *numbers = json_pack("[i, f, f]", (int)point->ranks, point->bytes,
                                        point->seconds);
            if (point->core_seconds > 0)
                json_array_append_new(numbers, json_real(point->core_seconds));
            json_array_append_new(points, numbers);
        }
        if (level->point_count[c])
            json_object_set(object, collective_keys[c], points);
        json_decref(points);
    }
    return object;
}

json_t *node_to_json(const struct platform_node *node)
{
    json_t *object = level_to_json(&node->level);
    json_object_set_new(object, "gpus", json_integer(node->gpus));
    if (node->exchanges_share_link)
        json_object_set_new(object, "exchanges_share_link", json_true());
    if (node->switch_bytes_per_second > 0) {
        json_object_set_new(object, "gpus_per_switch", json_integer(node->gpus_per_switch));
        json_object_set_new(object, "switch_bytes_per_second",
                            json_real(node->switch_bytes_per_second));
    }
    return object;
}

/* ---- ranks on nodes ---- */

G_GNUC_PRINTF(3, 4)
static bool refuse(GError **error, const struct platform *platform, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: %s", platform->name, reason);
    return false;
}

bool platform_spread_ranks(struct platform *platform, uint32_t ranks, uint32_t nodes,
                           GError **error)
{
    uint32_t most = MAX(1, platform->node.gpus);
    if (ranks == 0)
        return refuse(error, platform, "there must be at least one rank");
    for (uint32_t n = (ranks + most - 1) / most; nodes == 0; n++)
        nodes = ranks % n == 0 ? n : 0;
    if (ranks % nodes != 0)
        return refuse(error, platform, "%u ranks cannot be spread evenly over %u nodes", ranks,
                      nodes);
    if (ranks / nodes > most)
        return refuse(error, platform, "a node has %u GPU%s, too few for %u ranks", most,
                      most > 1 ? "s" : "", ranks / nodes);
    platform->spread = (struct platform_spread){.ranks = ranks, .nodes = nodes};
    return true;
}

bool platform_spread_stages(struct platform *platform, uint32_t stages, uint32_t ranks,
                            uint32_t nodes, GError **error)
{
    if (!platform_spread_ranks(platform, stages * ranks, nodes, error))
        return false;
    uint32_t of_node = stages * ranks / platform->spread.nodes;
    if (of_node % ranks != 0 && ranks % of_node != 0)
        return refuse(error, platform,
                      "stages of %u ranks cannot be spread evenly over nodes of %u", ranks,
                      of_node);
    platform->spread = (struct platform_spread){
        .ranks = ranks, .nodes = MAX(1, ranks / of_node), .stages = stages, .host_ranks = of_node};
    return true;
}

static bool is_pipeline(const struct platform_spread *spread)
{
    return spread->stages > 1;
}

bool platform_knows_exchanges(const struct platform *platform)
{
    const struct platform_spread *spread = &platform->spread;
    uint32_t all = is_pipeline(spread) ? spread->ranks * spread->stages : spread->ranks;
    uint32_t of_node = is_pipeline(spread) ? spread->host_ranks
                                           : spread->ranks / MAX(1, spread->nodes);
    if (all <= 1)
        return true;
    if (all > of_node && !platform->network.source)
        return false;
    return of_node == 1 || platform->node.level.source;
}

static struct platform_level copy_level(const struct platform_level *level)
{
    struct platform_level copy = *level;
    copy.source = g_strdup(level->source);
    for (int c = 0; c < PLATFORM_COLLECTIVES; c++)
        copy.points[c] = g_memdup2(level->points[c],
                                   level->point_count[c] * sizeof *level->points[c]);
    return copy;
}

struct platform *platform_copy_exchanges(const struct platform *platform)
{
    struct platform *copy = g_new0(struct platform, 1);
    copy->spread = platform->spread;
    copy->node = platform->node;
    copy->node.level = copy_level(&platform->node.level);
    copy->network = copy_level(&platform->network);
    return copy;
}

double platform_switch_rate(const struct platform *platform)
{
    const struct platform_node *node = &platform->node;
    uint32_t sharing = MIN(node->gpus_per_switch, platform_host_ranks(platform));
    return node->switch_bytes_per_second > 0 ? node->switch_bytes_per_second / MAX(1, sharing) : 0;
}

/* ---- measured points ---- */

/* The points of one number of ranks. */
struct measured {
    const struct platform_exchange *points;
    uint32_t count;
};

/* Returns the bytes that a rank receives. */
static double received(uint32_t ranks, double bytes)
{
    return bytes * (ranks - 1) / ranks;
}

/* Returns the points of the number of ranks that begins at `first`. */
static struct measured points_from(const struct platform_exchange *points, uint32_t count,
                                   uint32_t first)
{
    uint32_t end = first;
    while (end < count && points[end].ranks == points[first].ranks)
        end++;
    return (struct measured){points + first, end - first};
}

static struct platform_taken taken_at(const struct platform_exchange *point, double times)
{
    return (struct platform_taken){point->seconds * times, point->core_seconds * times};
}

/* Returns what lies between two, at this share of the way. */
static struct platform_taken between(struct platform_taken one, struct platform_taken other,
                                     double share)
{
    return (struct platform_taken){one.seconds + share * (other.seconds - one.seconds),
                                   one.core_seconds +
                                       share * (other.core_seconds - one.core_seconds)};
}

/* Returns the time in which a rank receives these bytes, as these points say. Small messages take
 * as long as the smallest that was measured. */
static struct platform_taken time_of(const struct measured *measured, double bytes)
{
    const struct platform_exchange *points = measured->points, *right = points;
    const struct platform_exchange *last = points + measured->count - 1;
    uint32_t ranks = points->ranks;
    if (bytes <= received(ranks, points->bytes))
        return taken_at(points, 1);
    if (bytes >= received(ranks, last->bytes))
        return taken_at(last, bytes / received(ranks, last->bytes));
    while (received(ranks, right->bytes) < bytes)
        right++;
    double left = received(ranks, right[-1].bytes);
    double share = (bytes - left) / (received(ranks, right->bytes) - left);
    return between(taken_at(right - 1, 1), taken_at(right, 1), share);
}

/* Returns the time in which each of the ranks receives these bytes. Between two numbers of ranks it
 * is interpolated. Beyond the last, small messages take as much longer as there are more ranks,
 * because each has a message for every other. */
static struct platform_taken measured_time(const struct platform_exchange *points, uint32_t count,
                                           uint32_t ranks, double bytes)
{
    struct measured below = points_from(points, count, 0), above = below;
    while (above.points->ranks < ranks && above.points + above.count < points + count) {
        below = above;
        above = points_from(points, count, (uint32_t)(above.points + above.count - points));
    }
    struct platform_taken one = time_of(&below, bytes), other = time_of(&above, bytes);
    uint32_t low = below.points->ranks, high = above.points->ranks;
    if (ranks <= low)
        return one;
    if (ranks <= high)
        return between(one, other, (double)(ranks - low) / (high - low));
    struct platform_taken small = taken_at(above.points, (double)(ranks - 1) / (high - 1));
    return (struct platform_taken){fmax(other.seconds, small.seconds),
                                   fmax(other.core_seconds, small.core_seconds)};
}

/* ---- rings ---- */

/* Returns the bytes a second that a member of the level receives of large messages. */
static double level_rate(const struct platform_level *level)
{
    if (level->bytes_per_second > 0)
        return level->bytes_per_second;
    const struct platform_exchange *last =
        &level->points[PLATFORM_GATHER][level->point_count[PLATFORM_GATHER] - 1];
    return received(last->ranks, last->bytes) / last->seconds;
}

/* In each of ranks - 1 steps, every rank passes one part on. Within a node it goes from GPU to GPU;
 * one rank of each node passes it on to the next node. Messages are long enough for parts to be
 * sent while others are under way, so all links work at the same time, and the slowest holds up the
 * others; latencies add up, of as many steps as there are links of each kind. */
static double ring_seconds(const struct platform *platform, double bytes)
{
    const struct platform_level *node = &platform->node.level, *network = &platform->network;
    uint32_t ranks = platform->spread.ranks, nodes = platform->spread.nodes;
    double amount = received(ranks, bytes), seconds = 0, latency = 0;
    if (ranks > nodes) {
        seconds = amount / level_rate(node);
        latency = (ranks - nodes) * node->latency_seconds;
    }
    if (nodes > 1) {
        seconds = fmax(seconds, amount / level_rate(network));
        latency += (nodes - 1) * network->latency_seconds;
    }
    return latency + seconds;
}

struct platform_taken platform_exchange_time(const struct platform *platform,
                                             enum platform_collective collective, double bytes)
{
    const struct platform_spread *spread = &platform->spread;
    const struct platform_level *level = spread->nodes > 1 ? &platform->network
                                                           : &platform->node.level;
    g_assert(platform_knows_exchanges(platform));
    if (spread->ranks <= 1 || bytes <= 0)
        return (struct platform_taken){0, 0};
    if (level->point_count[collective])
        return measured_time(level->points[collective], level->point_count[collective],
                             spread->ranks, received(spread->ranks, bytes));
    return (struct platform_taken){ring_seconds(platform, bytes), 0};
}

struct platform_passed platform_pass_time(const struct platform *platform, uint32_t from,
                                          uint32_t to, double bytes)
{
    const struct platform_spread *spread = &platform->spread;
    uint32_t of_node = spread->host_ranks;
    bool crosses = from * spread->ranks / of_node != to * spread->ranks / of_node;
    const struct platform_level *level = crosses ? &platform->network : &platform->node.level;
    double share = crosses ? MIN(spread->ranks, of_node) : 1;
    if (bytes <= 0)
        return (struct platform_passed){0, 0};
    if (level->point_count[PLATFORM_GATHER]) /* of two ranks, each receives the other's half */
        return (struct platform_passed){measured_time(level->points[PLATFORM_GATHER],
                                                      level->point_count[PLATFORM_GATHER], 2,
                                                      bytes * share)
                                            .seconds,
                                        0};
    return (struct platform_passed){level->latency_seconds + bytes * share / level_rate(level),
                                    level->latency_seconds};
}

double platform_exchange_seconds(const struct platform *platform,
                                 enum platform_collective collective, double bytes)
{
    return platform_exchange_time(platform, collective, bytes).seconds;
}

double platform_network_rate(const struct platform *platform)
{
    const double large = 1e9;
    uint32_t ranks = platform->spread.ranks;
    if (ranks <= 1 || !platform_knows_exchanges(platform))
        return 0;
    return large * (ranks - 1) / ranks /
           platform_exchange_seconds(platform, PLATFORM_GATHER, large);
}

double platform_ranks_rate(const struct platform *platform, uint32_t ranks)
{
    struct platform *spread = platform_copy_exchanges(platform);
    double rate = platform_spread_ranks(spread, ranks, 0, NULL) ? platform_network_rate(spread) : 0;
    platform_free(spread);
    return rate;
}
