/* Reads events from files that are larger than the window in memory. */
#include "traces/import/json_events.h"

#include <glib/gstdio.h>
#include <string.h>
#include <zlib.h>

enum { EVENTS = 60, LONGEST = 400000 }; /* the window grows by 1 MiB */

struct reader {
    const json_t *expected;
    size_t count;
};

static bool take(void *data, const json_t *event, GError **error)
{
    struct reader *reader = data;
    (void)error;
    g_assert_true(json_equal(event, json_array_get(reader->expected, reader->count)));
    reader->count++;
    return true;
}

/* Makes a text of any length with characters that end texts or values elsewhere. */
static json_t *random_text(GRand *random, gint32 longest)
{
    static const char *const parts[] = {
        "a", "\"", "\\",     "\\\"",   "{",  "}",   "[",  "]",    ",",    ":",
        " ", "\n", "\u00e9", "\u6f22", "\t", "\"}", "],", "\\\\", "\x7f", "gemm<float>(int)"};
    GString *text = g_string_new(NULL);
    gsize bytes = (gsize)g_rand_int_range(random, 0, longest);
    while (text->len < bytes)
        g_string_append(text, parts[g_rand_int_range(random, 0, G_N_ELEMENTS(parts))]);
    json_t *value = json_string(text->str);
    g_string_free(text, TRUE);
    return value;
}

static json_t *random_event(GRand *random)
{
    return json_pack("{s:o, s:f, s:[f, n, b, [o]], s:{}}", "name",
                     random_text(random, g_rand_boolean(random) ? 20 : LONGEST), "ts",
                     g_rand_double(random), "args", g_rand_double(random),
                     (int)g_rand_boolean(random), random_text(random, 9), "none");
}

static void write_file(const char *path, const char *text, bool compressed)
{
    gzFile file = gzopen(path, compressed ? "wb1" : "wbT");
    g_assert_cmpint(gzwrite(file, text, (unsigned)strlen(text)), ==, (int)strlen(text));
    g_assert_cmpint(gzclose(file), ==, Z_OK);
}

static void test_long(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    g_autofree char *folder = g_dir_make_tmp(NULL, NULL);
    g_autofree char *path = g_build_filename(folder, "events.json", NULL);
    json_t *events = json_array(), *file = json_object();
    for (int i = 0; i < EVENTS; i++)
        json_array_append_new(events, random_event(random));
    json_object_set_new(file, "before", random_text(random, LONGEST));
    json_object_set(file, "events", events);
    json_object_set_new(file, "after", json_true());
    char *text = json_dumps(file, g_rand_boolean(random) ? JSON_INDENT(4) : JSON_COMPACT);
    for (int compressed = 0; compressed < 2; compressed++) {
        GError *error = NULL;
        struct reader reader = {.expected = events};
        write_file(path, text, compressed);
        json_t *others = json_events_read(path, "events", take, &reader, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(reader.count, ==, EVENTS);
        g_assert_cmpuint(json_object_size(others), ==, 2);
        g_assert_true(
            json_equal(json_object_get(others, "before"), json_object_get(file, "before")));
        json_decref(others);
    }
    g_unlink(path);
    g_rmdir(folder);
    free(text);
    json_decref(events);
    json_decref(file);
}

/* A truncated compressed file is refused, even if all events are there. */
static void test_cut(void)
{
    g_autofree char *folder = g_dir_make_tmp(NULL, NULL), *packed = NULL;
    g_autofree char *path = g_build_filename(folder, "events.json.gz", NULL);
    json_t *expected = json_pack("[{s:f}, {s:f}]", "a", 1.0, "b", 2.0);
    gsize bytes;
    write_file(path, "{\"events\": [{\"a\": 1}, {\"b\": 2}]}", true);
    g_assert_true(g_file_get_contents(path, &packed, &bytes, NULL));
    for (gsize length = 0; length <= bytes; length++) {
        g_autoptr(GError) error = NULL;
        struct reader reader = {.expected = expected};
        g_assert_true(g_file_set_contents(path, packed, (gssize)length, NULL));
        json_t *others = json_events_read(path, "events", take, &reader, &error);
        g_assert_true((others != NULL) == (length == bytes));
        g_assert_true((error == NULL) == (length == bytes));
        json_decref(others);
    }
    json_decref(expected);
    g_unlink(path);
    g_rmdir(folder);
}

/* A small file does not make the reader take much memory and time. */
static void test_bomb(void)
{
    enum { MEBIBYTE = 1 << 20, MANY = 70, FEW = 60 };
    g_autofree char *folder = g_dir_make_tmp(NULL, NULL), *space = g_malloc(MEBIBYTE);
    g_autofree char *path = g_build_filename(folder, "events.json.gz", NULL);
    json_t *expected = json_pack("[{s:f}]", "a", 1.0);
    memset(space, ' ', MEBIBYTE);
    for (int large = 0; large < 2; large++) {
        g_autoptr(GError) error = NULL;
        struct reader reader = {.expected = expected};
        gzFile file = gzopen(path, "wb1");
        gzputs(file, "{\"events\": [{\"a\": 1}");
        for (int i = 0; i < (large ? MANY : FEW); i++)
            g_assert_cmpint(gzwrite(file, space, MEBIBYTE), ==, MEBIBYTE);
        gzputs(file, "]}");
        g_assert_cmpint(gzclose(file), ==, Z_OK);
        json_t *others = json_events_read(path, "events", take, &reader, &error);
        g_assert_true((others == NULL) == large);
        g_assert_true(!large || strstr(error->message, "unpacks to more than 50 times its size"));
        json_decref(others);
    }
    json_decref(expected);
    g_unlink(path);
    g_rmdir(folder);
}

/* Tries each prefix of a file, and each file without one of its characters. */
static void test_damaged(void)
{
    static const char whole[] = "{\"k\\\"\": [1.5e3, \"\\\\\"], \"events\": [{\"a\": {\"b\": "
                                "\"}]\"}}, {}], \"n\": null}";
    g_autofree char *folder = g_dir_make_tmp(NULL, NULL);
    g_autofree char *path = g_build_filename(folder, "events.json", NULL);
    json_t *expected = json_pack("[{s:{s:s}}, {}]", "a", "b", "}]");
    for (size_t length = 0; length < sizeof whole; length++) {
        g_autoptr(GError) error = NULL;
        struct reader reader = {.expected = expected};
        g_assert_true(g_file_set_contents(path, whole, (gssize)length, NULL));
        json_t *others = json_events_read(path, "events", take, &reader, &error);
        g_assert_true((others != NULL) == (length == sizeof whole - 1));
        g_assert_true((error == NULL) == (others != NULL));
        json_decref(others);
    }
    json_decref(expected);
    g_unlink(path);
    g_rmdir(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json_events/long", test_long);
    g_test_add_func("/json_events/cut", test_cut);
    g_test_add_func("/json_events/bomb", test_bomb);
    g_test_add_func("/json_events/damaged", test_damaged);
    return g_test_run();
}
