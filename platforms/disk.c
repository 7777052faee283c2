#include "platforms/fields.h"
#include "platforms/node.h"

enum { MOST_POINTS = 1 << 12, MOST_DEPTH = 256, BLOCK_UNIT = 4096, LARGEST_BLOCK = 1 << 30 };

static const char *const direction_keys[] = {"read", "write"};

void disk_clear(struct platform_disk *disk)
{
    g_free(disk->source);
    for (int writes = 0; writes < 2; writes++)
        g_free(disk->points[writes]);
}

static bool read_point(const json_t *triple, struct platform_disk_point *point)
{
    const json_t *block = json_array_get(triple, 0), *depth = json_array_get(triple, 1);
    const json_t *rate = json_array_get(triple, 2);
    json_int_t bytes = json_integer_value(block), calls = json_integer_value(depth);
    *point = (struct platform_disk_point){(uint64_t)bytes, (uint32_t)CLAMP(calls, 0, MOST_DEPTH),
                                          json_number_value(rate)};
    return json_array_size(triple) == 3 && json_is_integer(block) && bytes > 0 &&
           bytes <= LARGEST_BLOCK && bytes % BLOCK_UNIT == 0 && json_is_integer(depth) &&
           calls > 0 && calls <= MOST_DEPTH && field_is_positive(rate);
}

static bool read_points(const json_t *object, const char *path, int writes,
                        struct platform_disk *disk, GError **error)
{
    const char *key = direction_keys[writes];
    const json_t *points = json_object_get(object, key);
    size_t count = json_array_size(points);
    if (count == 0 || count > MOST_POINTS)
        return field_wrong(error, path, key, points,
                           "a non-empty list of [block bytes, depth, bytes per second]");
    disk->points[writes] = g_new0(struct platform_disk_point, count);
    disk->count[writes] = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        if (!read_point(json_array_get(points, i), &disk->points[writes][i]))
            return field_wrong(error, path, key, json_array_get(points, i),
                               "[block bytes, depth, bytes per second]: a multiple of 4096 to "
                               "1 GiB, 1 to 256, and above 0");
    return true;
}

bool disk_read(const json_t *root, const char *path, struct platform_disk *disk, GError **error)
{
    const json_t *object = json_object_get(root, "nvme");
    struct platform_disk_way way;
    if (!object)
        return true;
    for (int writes = 0; writes < 2; writes++)
        if (!read_points(object, path, writes, disk, error))
            return false;
    return field_string(object, path, "source", &disk->source, error) &&
           (platform_disk_best(disk, &way) ||
            field_wrong(error, path, "nvme", object,
                        "an object with a point of the same block and depth in read and write"));
}

static json_t *points_to_json(const struct platform_disk *disk, int writes)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < disk->count[writes]; i++) {
        const struct platform_disk_point *point = &disk->points[writes][i];
        json_array_append_new(list, json_pack("[I, I, f]", (json_int_t)point->block_bytes,
                                              (json_int_t)point->depth, point->bytes_per_second));
    }
    return list;
}

json_t *disk_to_json(const struct platform_disk *disk)
{
    return json_pack("{s:s, s:o, s:o}", "source", disk->source, direction_keys[0],
                     points_to_json(disk, 0), direction_keys[1], points_to_json(disk, 1));
}

static double rate_of(const struct platform_disk *disk, int writes,
                      const struct platform_disk_point *like)
{
    for (uint32_t i = 0; i < disk->count[writes]; i++) {
        const struct platform_disk_point *point = &disk->points[writes][i];
        if (point->block_bytes == like->block_bytes && point->depth == like->depth)
            return point->bytes_per_second;
    }
    return 0;
}

bool platform_disk_best(const struct platform_disk *disk, struct platform_disk_way *way)
{
    double least = 0; /* seconds of a byte that is read and written */
    *way = (struct platform_disk_way){0};
    for (uint32_t i = 0; i < disk->count[0]; i++) {
        const struct platform_disk_point *reads = &disk->points[0][i];
        double writes = rate_of(disk, 1, reads);
        double seconds = writes > 0 ? 1 / reads->bytes_per_second + 1 / writes : 0;
        if (writes <= 0 || (least > 0 && seconds >= least))
            continue;
        least = seconds;
        *way = (struct platform_disk_way){
            reads->block_bytes, reads->depth, {reads->bytes_per_second, writes}};
    }
    return least > 0;
}
