/* Platform files: every one in the project reads, what is wrong is named, curves interpolate. */
#include "base/size.h"
#include "platforms/platform.h"

#include <glib/gstdio.h>
#include <string.h>

#define CURVE "{\"source\":\"a test\",\"points\":[[1000,0.1]]}"
#define CURVES                                                                                  \
    "\"d2h\":" CURVE ",\"compute_fp32\":" CURVE ",\"compute_bf16\":" CURVE ",\"memory\":" CURVE \
    ",\"host_update\":" CURVE
#define HEAD "\"name\":\"n\",\"source\":\"s\",\"device_bytes\":100,\"host_bytes\":200"

static struct platform *read_text(const char *text, GError **error)
{
    char *path;
    int descriptor = g_file_open_tmp("platform-XXXXXX.json", &path, NULL);
    g_assert_cmpint(descriptor, >=, 0);
    g_close(descriptor, NULL);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    struct platform *platform = platform_read(path, error);
    g_unlink(path);
    g_free(path);
    return platform;
}

/* Fails unless the source of a shipped figure says where it comes from. */
static void check_source(const char *path, const char *source)
{
    bool said = g_str_has_prefix(source, "nominal: ") || g_str_has_prefix(source, "measured: ") ||
                g_str_has_prefix(source, "fitted: ") || g_str_has_prefix(source, "assumed: ");
    if (!said)
        g_error("%s: '%s' is neither nominal nor measured nor fitted nor assumed", path, source);
}

static void check_sources(const char *path, const struct platform *platform)
{
    const struct platform_curve *curves[] = {&platform->h2d,        &platform->d2h,
                                             &platform->compute[0], &platform->compute[1],
                                             &platform->memory,     &platform->host_update};
    const char *others[] = {platform->multiprocessors.source,
                            platform->reserved.source,
                            platform->framework.source,
                            platform->host.source,
                            platform->disk.source,
                            platform->node.level.source,
                            platform->network.source};
    for (size_t i = 0; i < G_N_ELEMENTS(curves); i++)
        check_source(path, curves[i]->source);
    for (int i = 0; i < PLATFORM_EXTRAS; i++)
        if (platform->extra[i].count)
            check_source(path, platform->extra[i].source);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (others[i])
            check_source(path, others[i]);
}

static void test_shipped(void)
{
    GDir *folder = g_dir_open(PROJECT_DIR "/platforms", 0, NULL);
    const char *name;
    int files = 0;
    while ((name = g_dir_read_name(folder))) {
        if (!g_str_has_suffix(name, ".json"))
            continue;
        char *path = g_build_filename(PROJECT_DIR "/platforms", name, NULL);
        GError *error = NULL;
        struct platform *platform = platform_read(path, &error);
        g_assert_no_error(error);
        check_sources(path, platform);
        platform_free(platform);
        g_free(path);
        files++;
    }
    g_dir_close(folder);
    g_assert_cmpint(files, >=, 25);
}

static void test_refused(void)
{
    static const struct {
        const char *text;
        const char *named[2];
    } bad[] = {
        {"", {":1:", ""}},
        {"[]", {"object", ""}},
        {"{}", {"name", "missing"}},
        {"{\"name\":\"\"}", {"name", "\"\""}},
        {"{\"name\":\"n\",\"source\":\"s\",\"device_bytes\":-5}", {"device_bytes", "-5"}},
        {"{\"name\":\"n\",\"source\":\"s\",\"device_bytes\":\"8\"}", {"device_bytes", "8"}},
        {"{\"name\":\"n\",\"source\":\"s\",\"device_bytes\":\"0GB\"}", {"device_bytes", "0GB"}},
        {"{\"name\":\"n\",\"source\":\"s\",\"device_bytes\":1}", {"host_bytes", "missing"}},
        {"{" HEAD "," CURVES "}", {"h2d", "missing"}},
        {"{" HEAD "," CURVES ",\"h2d\":3}", {"h2d", "3"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"source\":\"s\"}}", {"h2d.points", "missing"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"points\":[[1,1]]}}", {"h2d.source", "missing"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"source\":\"s\",\"points\":[]}}", {"h2d.points", "[]"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"source\":\"s\",\"points\":[[1]]}}",
         {"h2d.points", "[1]"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"source\":\"s\",\"points\":[[1,0]]}}",
         {"h2d.points", "[1,0]"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"source\":\"s\",\"points\":[[2,1],[2,3]]}}",
         {"h2d.points", "[2,3]"}},
        {"{" HEAD "," CURVES ",\"h2d\":{\"source\":\"s\",\"points\":[[2,\"1\"]]}}",
         {"h2d.points", "\"1\""}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_assert_null(read_text(bad[i].text, &error));
        g_assert_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, "platform-"));
        for (size_t n = 0; n < G_N_ELEMENTS(bad[i].named); n++)
            if (!strstr(error->message, bad[i].named[n]))
                g_error("'%s' is not in: %s", bad[i].named[n], error->message);
        g_error_free(error);
    }
    GError *error = NULL;
    g_assert_null(platform_read("/nowhere/machine.json", &error));
    g_assert_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "/nowhere/machine.json"));
    g_error_free(error);
}

/* 40GB of a file and of an option are one number. */
static void test_sizes(void)
{
    static const char *const texts[] = {"40GB", "40G", "40e9", "37.25GiB", "40000000000"};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        GError *error = NULL;
        uint64_t option = 0;
        g_autofree char *text = g_strdup_printf("{\"name\":\"n\",\"source\":\"s\",\"device_bytes\":"
                                                "\"%s\",\"host_bytes\":\"2TiB\"," CURVES
                                                ",\"h2d\":{\"source\":\"s\",\"points\":[[1,1]]}}",
                                                texts[i]);
        struct platform *platform = read_text(text, &error);
        g_assert_no_error(error);
        g_assert_true(size_parse(texts[i], &option, &error));
        g_assert_cmpuint(platform->device_capacity, ==, option);
        g_assert_cmpuint(platform->host_capacity, ==, UINT64_C(2) << 40);
        platform_free(platform);
    }
}

static void test_round_trip(void)
{
    GError *error = NULL;
    struct platform *platform =
        read_text("{" HEAD "," CURVES
                  ",\"h2d\":{\"source\":\"mine\",\"points\":[[100,0.5],[1e9,0.75],[2e9,1.25]]}}",
                  &error);
    g_assert_no_error(error);
    char *path;
    int descriptor = g_file_open_tmp("platform-XXXXXX.json", &path, NULL);
    g_close(descriptor, NULL);
    g_assert_true(platform_write(platform, path, &error));
    struct platform *again = platform_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(again->name, ==, "n");
    g_assert_cmpstr(again->source, ==, "s");
    g_assert_cmpuint(again->device_capacity, ==, 100);
    g_assert_cmpuint(again->host_capacity, ==, 200);
    g_assert_cmpstr(again->h2d.source, ==, "mine");
    g_assert_cmpmem(again->h2d.points, again->h2d.count * sizeof *again->h2d.points,
                    platform->h2d.points, platform->h2d.count * sizeof *platform->h2d.points);
    g_assert_cmpfloat(again->compute[1].points[0].seconds, ==, 0.1);
    g_unlink(path);
    g_free(path);
    platform_free(again);
    platform_free(platform);
}

#define H2D        ",\"h2d\":" CURVE
#define HOST(more) "\"host\":{\"source\":\"s\",\"bytes_per_second\":6e9" more "}"
#define RESERVED(device) \
    "\"reserved\":{\"source\":\"r\",\"device_bytes\":" device ",\"host_bytes\":80}"
#define FRAMEWORK(products, passes)                          \
    "\"framework\":{\"source\":\"f\",\"products\":" products \
    ",\"attention\":0.25,\"passes\":" passes "}"
#define MULTIPROCESSORS(count) "\"multiprocessors\":{\"source\":\"m\",\"count\":" count "}"
#define THREADS                                                            \
    "\"threads\":{\"source\":\"t\",\"host_cores\":2,\"put_seconds\":1e-5," \
    "\"wake_seconds\":2e-5,\"late_seconds\":3e-5,\"gap_seconds\":0,"       \
    "\"slow_down\":[[0,0.5,0],[0,0,0.25],[1,0,0]]}"

#define NVME(reads, writes) \
    "\"nvme\":{\"source\":\"d\",\"read\":[" reads "],\"write\":[" writes "]}"
#define NVME_POINTS                                                      \
    NVME("[4096,1,1e8],[1048576,4,2e9],[1048576,8,3e9],[2097152,1,9e9]", \
         "[4096,1,1e8],[1048576,4,2e9],[1048576,8,1e9]")

/* What a file may lack: absent, read and written again, refused where it is wrong. */
static void test_extras(void)
{
    static const char *const bad[] = {
        "\"move\":{\"source\":\"s\",\"points\":[]}",
        "\"threads\":{\"source\":\"t\"}",
        "\"threads\":{\"source\":\"t\",\"host_cores\":1,\"put_seconds\":-1}",
        "\"products\":[{\"rows\":1}]",
        "\"host\":{\"source\":\"s\"}",
        "\"reserved\":{\"source\":\"s\"}",
        RESERVED("0"),
        "\"multiprocessors\":{\"source\":\"s\"}",
        "\"multiprocessors\":{\"count\":1}",
        MULTIPROCESSORS("0"),
        MULTIPROCESSORS("1.5"),
        "\"framework\":{\"source\":\"s\"}",
        FRAMEWORK("0", "2"),
        FRAMEWORK("1.5", "2"),
        FRAMEWORK("0.5", "0.9"),
        "\"nvme\":[]",
        "\"nvme\":{\"source\":\"d\",\"read\":[[4096,1,1e8]]}",
        NVME("[4096,1,1e8]", ""),
        NVME("[4096,1,1e8]", "[4096,2,1e8]"),
        NVME("[4097,1,1e8]", "[4097,1,1e8]"),
        NVME("[0,1,1e8]", "[0,1,1e8]"),
        NVME("[4096,0,1e8]", "[4096,0,1e8]"),
        NVME("[4096,257,1e8]", "[4096,257,1e8]"),
        NVME("[4096,1,0]", "[4096,1,0]"),
        NVME("[4096,1]", "[4096,1]"),
        HOST(",\"ranks\":0"),
        HOST(",\"bound\":1"),
        HOST(",\"binding_speed_up\":0.5"),
        HOST(",\"binding_speed_up\":\"much\"")};
    GError *error = NULL;
    struct platform *without = read_text("{" HEAD "," CURVES H2D "}", &error);
    g_assert_no_error(error);
    g_assert_cmpuint(without->extra[PLATFORM_MOVE].count, ==, 0);
    g_assert_null(without->threads.source);
    g_assert_cmpuint(without->multiprocessors.count, ==, 0);
    g_assert_null(without->framework.source);
    g_assert_null(without->disk.source);
    g_assert_cmpuint(platform_device_room(without, 60), ==, 100);
    g_assert_cmpuint(platform_host_room(without), ==, 200);
    platform_free(without);

    struct platform *platform = read_text(
        "{" HEAD "," CURVES H2D "," THREADS "," NVME_POINTS
        "," RESERVED("30") "," MULTIPROCESSORS("7") "," FRAMEWORK("0.5", "3") "," HOST(
            ",\"ranks\":4,\"bound\":false") ",\"move_within\":" CURVE
                                            ",\"host_update_apart\":{\"source\":\"a\","
                                            "\"points\":[[5,7]]},\"products\":[{\"rows\":1,"
                                            "\"inputs\":2,\"outputs\":3,\"threads\":4,"
                                            "\"precision\":\"bf16\",\"seconds\":0.5}]}",
        &error);
    g_assert_no_error(error);
    g_autofree char *folder = g_dir_make_tmp("platform-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "machine.json", NULL);
    g_assert_true(platform_write(platform, path, &error));
    platform_free(platform);
    platform = platform_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(platform->extra[PLATFORM_MOVE_WITHIN].count, ==, 1);
    g_assert_cmpuint(platform->threads.host_cores, ==, 2);
    g_assert_cmpfloat(platform->threads.late_seconds, ==, 3e-5);
    g_assert_cmpfloat(platform->threads.slow_down[PLATFORM_PRODUCT_BF16][PLATFORM_BESIDE_UPDATE],
                      ==, 0.25);
    struct platform_disk_way way;
    g_assert_cmpstr(platform->disk.source, ==, "d");
    g_assert_true(platform_disk_best(&platform->disk, &way));
    g_assert_cmpuint(way.block_bytes, ==, 1 << 20); /* 9e9 reads, but nobody wrote so */
    g_assert_cmpuint(way.depth, ==, 4);             /* 3e9 and 1e9 take longer together */
    g_assert_cmpfloat(way.bytes_per_second[0], ==, 2e9);
    g_assert_cmpfloat(way.bytes_per_second[1], ==, 2e9);
    g_assert_cmpuint(platform->host.ranks, ==, 4);
    g_assert_cmpfloat(platform->host.bytes_per_second, ==, 6e9);
    g_assert_false(platform->host.bound);
    g_assert_cmpuint(platform->multiprocessors.count, ==, 7);
    g_assert_cmpfloat(platform->framework.products, ==, 0.5);
    g_assert_cmpfloat(platform->framework.attention, ==, 0.25);
    g_assert_cmpfloat(platform->framework.passes, ==, 3);
    g_assert_cmpuint(platform_device_room(platform, 0), ==, 70);
    g_assert_cmpuint(platform_device_room(platform, 20), ==, 90); /* 10 beyond the trace's */
    g_assert_cmpuint(platform_device_room(platform, 60), ==, 100);
    g_assert_cmpuint(platform_host_room(platform), ==, 30); /* of each of 4 ranks */
    g_assert_cmpuint(platform->product_count, ==, 1);
    g_assert_cmpuint(platform->products[0].outputs, ==, 3);
    g_assert_true(platform->products[0].bf16);
    platform_keep_apart(platform);
    g_assert_cmpfloat(platform->host_update.points[0].amount, ==, 5);
    g_assert_cmpfloat(platform->memory.points[0].amount, ==, 1000); /* knows none apart */
    platform_free(platform);
    g_unlink(path);
    g_rmdir(folder);

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *text = g_strdup_printf("{%s,%s}", HEAD "," CURVES H2D, bad[i]);
        g_assert_null(read_text(text, &error));
        g_assert_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID);
        g_clear_error(&error);
    }
}

/* The curve: 1000 elements in 0.1 s. Three ranks of four threads have 4/3 each, where an update
 * takes (6 + (12 - 6) * 2/3) / 3 times as long as with four; five have 0.8, and take 5/4 of one
 * thread's time. Far memory takes 1.5 times as long. */
static void test_host(void)
{
    static const char threads[] =
        ",\"update_threads\":{\"source\":\"s\",\"points\":[[1,12],[2,6],[4,3]]}";
    static const struct {
        const char *host, *threads;
        double seconds, rate;
    } expected[] = {{"\"host_update_apart\":" CURVE, threads, 0.1, 0},
                    {HOST(""), threads, 0.1, 6e9},
                    {HOST(",\"ranks\":3"), "", 0.1, 2e9},
                    {HOST(",\"ranks\":3"), threads, 0.1 * 10 / 3, 2e9},
                    {HOST(",\"ranks\":5"), threads, 0.1 * 15 / 3, 1.2e9},
                    {HOST(",\"ranks\":2,\"bound\":true,\"binding_speed_up\":1.5"), "", 0.1, 3e9},
                    {HOST(",\"ranks\":2,\"bound\":false,\"binding_speed_up\":1.5"), threads,
                     0.1 * 1.5 * 2, 2e9}};
    GError *error = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_autofree char *text = g_strdup_printf("{%s,%s%s}", HEAD "," CURVES H2D, expected[i].host,
                                                expected[i].threads);
        struct platform *platform = read_text(text, &error);
        g_assert_no_error(error);
        g_assert_cmpfloat_with_epsilon(platform_update_seconds(platform, 1000), expected[i].seconds,
                                       1e-9);
        g_assert_cmpfloat_with_epsilon(platform_host_rate(platform), expected[i].rate, 1);
        platform_free(platform);
    }
}

#define PLAIN  "{" HEAD ",\"h2d\":" CURVE "," CURVES
#define LEVEL  "\"source\":\"s\",\"bytes_per_second\":100,\"latency_seconds\":0.5"
#define POINTS "[[2,10,1],[2,100,2],[4,10,3],[4,100,9]]"

static void test_nodes_refused(void)
{
    static const struct {
        const char *text;
        const char *named[2];
    } bad[] = {
        {"\"node\":3", {"gpus", "missing"}},
        {"\"node\":{\"gpus\":0}", {"gpus", "0"}},
        {"\"node\":{\"gpus\":8}", {"source", "missing"}},
        {"\"node\":{\"gpus\":8,\"source\":\"s\"}", {"bytes_per_second", "missing"}},
        {"\"node\":{\"gpus\":8,\"source\":\"s\",\"bytes_per_second\":-1}",
         {"bytes_per_second", "-1"}},
        {"\"node\":{\"gpus\":8,\"gpus_per_switch\":2," LEVEL "}",
         {"switch_bytes_per_second", "missing"}},
        {"\"node\":{\"gpus\":8,\"gpus_per_switch\":3,\"switch_bytes_per_second\":1," LEVEL "}",
         {"gpus_per_switch", "divisor"}},
        {"\"network\":{\"source\":\"s\",\"gather\":" POINTS "}", {"bytes_per_second", "missing"}},
        {"\"network\":{" LEVEL ",\"gather\":[]}", {"gather", "[]"}},
        {"\"network\":{" LEVEL ",\"gather\":[[1,10,1]]}", {"gather", "at least 2 ranks"}},
        {"\"network\":{" LEVEL ",\"reduce\":[[2,10,1],[2,10,2]]}", {"reduce", "larger"}},
        {"\"network\":{" LEVEL ",\"reduce\":[[2,10,1,0]]}", {"reduce", "above 0"}},
        {"\"network\":{" LEVEL ",\"reduce\":[[2,10,1,1,1]]}", {"reduce", "core seconds"}},
        {"\"network\":{\"source\":\"s\",\"bytes_per_second\":1,\"latency_seconds\":1}",
         {"latency_seconds", "[0, 1)"}},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *text = g_strconcat(PLAIN ",", bad[i].text, "}", NULL);
        g_assert_null(read_text(text, &error));
        g_assert_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID);
        for (size_t n = 0; n < G_N_ELEMENTS(bad[i].named); n++)
            g_assert_nonnull(strstr(error->message, bad[i].named[n]));
    }
}

static struct platform *node_of(const char *keys)
{
    g_autofree char *text = g_strconcat(PLAIN ",", keys, "}", NULL);
    GError *error = NULL;
    struct platform *platform = platform_parse(text, "a text", &error);
    g_assert_no_error(error);
    return platform;
}

static double exchange(const struct platform *platform, enum platform_collective c, double bytes)
{
    return platform_exchange_seconds(platform, c, bytes);
}

#define assert_near(a, b) g_assert_cmpfloat_with_epsilon(a, b, 1e-9 * ((b) + 1))

/* A ring of 4 ranks in 2 nodes: of 400 bytes each rank receives 300, 2 steps are within a node and
 * 1 is between nodes, whose rate is a quarter. */
static void test_ring(void)
{
    struct platform *platform = node_of("\"node\":{\"gpus\":8," LEVEL "},"
                                        "\"network\":{\"source\":\"s\",\"bytes_per_second\":25,"
                                        "\"latency_seconds\":0.25}");
    g_assert_true(platform_spread_ranks(platform, 1, 0, NULL));
    g_assert_cmpfloat(exchange(platform, PLATFORM_GATHER, 400), ==, 0);
    g_assert_true(platform_spread_ranks(platform, 4, 0, NULL));
    g_assert_cmpuint(platform->spread.nodes, ==, 1);
    assert_near(exchange(platform, PLATFORM_GATHER, 400), 3 * 0.5 + 3);
    g_assert_true(platform_spread_ranks(platform, 4, 2, NULL));
    g_assert_cmpuint(platform_host_ranks(platform), ==, 2);
    assert_near(exchange(platform, PLATFORM_REDUCE, 400), 2 * 0.5 + 0.25 + 12);
    g_assert_true(platform_spread_ranks(platform, 20, 0, NULL));
    g_assert_cmpuint(platform->spread.nodes, ==, 4); /* 3 do not divide them */
    platform_free(platform);
}

static void test_points(void)
{
    struct platform *platform = node_of("\"node\":{\"gpus\":16,\"source\":\"s\",\"gather\":" POINTS
                                        ",\"reduce\":[[2,10,5]]}");
    g_assert_true(platform_spread_ranks(platform, 2, 1, NULL));
    assert_near(exchange(platform, PLATFORM_GATHER, 1), 1);
    assert_near(exchange(platform, PLATFORM_GATHER, 55), 1.5);
    assert_near(exchange(platform, PLATFORM_GATHER, 1000), 20);
    assert_near(exchange(platform, PLATFORM_REDUCE, 20), 10);
    g_assert_true(platform_spread_ranks(platform, 4, 1, NULL));
    assert_near(exchange(platform, PLATFORM_GATHER, 100), 9);
    g_assert_true(platform_spread_ranks(platform, 3, 1, NULL));
    assert_near(exchange(platform, PLATFORM_GATHER, 1), 2);
    g_assert_true(platform_spread_ranks(platform, 16, 1, NULL));
    assert_near(exchange(platform, PLATFORM_GATHER, 1), 15);
    platform_free(platform);
}

/* Core seconds go the way of seconds. */
static void test_core_seconds(void)
{
    struct platform *platform = node_of("\"node\":{\"gpus\":8,\"source\":\"s\",\"gather\":"
                                        "[[2,10,1,0.5],[2,100,2,1.5],[4,10,3,2]],"
                                        "\"reduce\":[[2,10,5]]}");
    static const struct {
        uint32_t ranks;
        double bytes, seconds, core_seconds;
    } expected[] = {{2, 1, 1, 0.5}, {2, 55, 1.5, 1}, {2, 200, 4, 3}, {3, 1, 2, 1.25}, {7, 1, 6, 4}};
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_assert_true(platform_spread_ranks(platform, expected[i].ranks, 1, NULL));
        struct platform_taken taken = platform_exchange_time(platform, PLATFORM_GATHER,
                                                             expected[i].bytes);
        assert_near(taken.seconds, expected[i].seconds);
        assert_near(taken.core_seconds, expected[i].core_seconds);
    }
    g_assert_cmpfloat(platform_exchange_time(platform, PLATFORM_REDUCE, 10).core_seconds, ==, 0);
    platform_free(platform);
}

static void assert_same_points(const struct platform_level *a, const struct platform_level *b)
{
    for (int c = 0; c < PLATFORM_COLLECTIVES; c++) {
        g_assert_cmpuint(a->point_count[c], ==, b->point_count[c]);
        for (uint32_t i = 0; i < a->point_count[c]; i++) {
            g_assert_cmpuint(a->points[c][i].ranks, ==, b->points[c][i].ranks);
            g_assert_cmpfloat(a->points[c][i].bytes, ==, b->points[c][i].bytes);
            g_assert_cmpfloat(a->points[c][i].seconds, ==, b->points[c][i].seconds);
            g_assert_cmpfloat(a->points[c][i].core_seconds, ==, b->points[c][i].core_seconds);
        }
    }
}

static void test_nodes_round_trip(void)
{
    struct platform *platform = node_of("\"node\":{\"gpus\":8,\"gpus_per_switch\":2,"
                                        "\"switch_bytes_per_second\":1.5e10," LEVEL "},"
                                        "\"network\":{\"source\":\"n\",\"gather\":" POINTS
                                        ",\"reduce\":[[2,10,5,2.5]]}");
    g_autofree char *folder = g_dir_make_tmp("platform-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "machine.json", NULL);
    GError *error = NULL;
    g_assert_true(platform_write(platform, path, &error));
    struct platform *again = platform_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(again->node.gpus, ==, 8);
    g_assert_cmpuint(again->node.gpus_per_switch, ==, 2);
    g_assert_cmpfloat(again->node.switch_bytes_per_second, ==, 1.5e10);
    g_assert_cmpfloat(again->node.level.latency_seconds, ==, 0.5);
    g_assert_cmpfloat(again->network.bytes_per_second, ==, 0);
    g_assert_cmpstr(again->network.source, ==, "n");
    assert_same_points(&platform->node.level, &again->node.level);
    assert_same_points(&platform->network, &again->network);
    platform_free(again);
    platform_free(platform);
    g_unlink(path);
    g_rmdir(folder);
}

static void test_spread_refused(void)
{
    static const struct {
        uint32_t ranks, nodes;
        const char *named;
    } bad[] = {{0, 0, "at least one"}, {4, 3, "evenly"}, {18, 1, "16 GPUs"}, {4, 8, "evenly"}};
    struct platform *platform = node_of("\"node\":{\"gpus\":16," LEVEL "}");
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_false(platform_spread_ranks(platform, bad[i].ranks, bad[i].nodes, &error));
        g_assert_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, bad[i].named));
    }
    g_assert_true(platform_spread_ranks(platform, 16, 1, NULL));
    g_assert_true(platform_knows_exchanges(platform));
    g_assert_true(platform_spread_ranks(platform, 32, 2, NULL));
    g_assert_false(platform_knows_exchanges(platform));
    platform_free(platform);
}

/* What ranks share of a node: memory, its rate, cores, the link of a switch. */
static void test_shares(void)
{
    struct platform *platform = node_of("\"node\":{\"gpus\":8,\"gpus_per_switch\":4,"
                                        "\"switch_bytes_per_second\":1000," LEVEL "},"
                                        "\"host\":{\"source\":\"s\",\"bytes_per_second\":800}");
    double alone = platform_update_seconds(platform, 1000);
    g_assert_cmpfloat(platform_switch_rate(platform), ==, 1000);
    g_assert_true(platform_spread_ranks(platform, 2, 1, NULL));
    g_assert_cmpfloat(platform_switch_rate(platform), ==, 500);
    g_assert_true(platform_spread_ranks(platform, 8, 1, NULL));
    g_assert_cmpfloat(platform_switch_rate(platform), ==, 250);
    g_assert_cmpfloat(platform_host_rate(platform), ==, 100);
    g_assert_cmpuint(platform_host_room(platform), ==, 200 / 8);
    assert_near(platform_update_seconds(platform, 1000), alone);
    platform_free(platform);
    platform = node_of("\"node\":{\"gpus\":8," LEVEL "}");
    g_assert_true(platform_spread_ranks(platform, 8, 1, NULL));
    assert_near(platform_update_seconds(platform, 1000), 8 * alone);
    g_assert_cmpfloat(platform_switch_rate(platform), ==, 0);
    platform_free(platform);
}

static void test_seconds(void)
{
    struct platform_point points[] = {{100, 2}, {200, 3}, {400, 9}};
    const struct platform_curve curve = {.points = points, .count = 3};
    g_assert_cmpfloat(platform_seconds(&curve, 0), ==, 0);
    g_assert_cmpfloat(platform_seconds(&curve, 50), ==, 1);
    g_assert_cmpfloat(platform_seconds(&curve, 100), ==, 2);
    g_assert_cmpfloat(platform_seconds(&curve, 150), ==, 2.5);
    g_assert_cmpfloat(platform_seconds(&curve, 200), ==, 3);
    g_assert_cmpfloat(platform_seconds(&curve, 300), ==, 6);
    g_assert_cmpfloat(platform_seconds(&curve, 400), ==, 9);
    g_assert_cmpfloat(platform_seconds(&curve, 800), ==, 18);
    const struct platform_curve rate = {.points = points, .count = 1};
    g_assert_cmpfloat(platform_seconds(&rate, 1000), ==, 20);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/platform/shipped", test_shipped);
    g_test_add_func("/platform/refused", test_refused);
    g_test_add_func("/platform/round-trip", test_round_trip);
    g_test_add_func("/platform/extras", test_extras);
    g_test_add_func("/platform/host", test_host);
    g_test_add_func("/platform/seconds", test_seconds);
    g_test_add_func("/platform/nodes-refused", test_nodes_refused);
    g_test_add_func("/platform/ring", test_ring);
    g_test_add_func("/platform/points", test_points);
    g_test_add_func("/platform/core-seconds", test_core_seconds);
    g_test_add_func("/platform/nodes-round-trip", test_nodes_round_trip);
    g_test_add_func("/platform/spread-refused", test_spread_refused);
    g_test_add_func("/platform/shares", test_shares);
    g_test_add_func("/platform/sizes", test_sizes);
    return g_test_run();
}
