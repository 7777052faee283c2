/* Safetensors files: what is written reads back, and what is damaged is refused by name. */
#include "models/safetensors.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    char *folder, *path;
};

static void set_up(struct fixture *fixture, const void *data)
{
    (void)data;
    fixture->folder = g_dir_make_tmp("safetensors-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, "file.safetensors", NULL);
}

static void tear_down(struct fixture *fixture, const void *data)
{
    (void)data;
    g_unlink(fixture->path);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0); /* no temporary file is left */
    g_free(fixture->path);
    g_free(fixture->folder);
}

static void write_bytes(const char *path, const void *bytes, gsize count)
{
    g_assert_true(g_file_set_contents(path, bytes, (gssize)count, NULL));
}

/* A file of this header and so many zero bytes of data. */
static void write_file(const char *path, const char *header, gsize data_bytes)
{
    uint64_t length = GUINT64_TO_LE((uint64_t)strlen(header));
    GByteArray *bytes = g_byte_array_new();
    g_byte_array_append(bytes, (const guint8 *)&length, sizeof(length));
    g_byte_array_append(bytes, (const guint8 *)header, (guint)strlen(header));
    guint start = bytes->len;
    g_byte_array_set_size(bytes, start + (guint)data_bytes);
    memset(bytes->data + start, 0, data_bytes);
    write_bytes(path, bytes->data, bytes->len);
    g_byte_array_free(bytes, TRUE);
}

static void test_round_trip(struct fixture *fixture, const void *data)
{
    (void)data;
    const uint64_t shape_a[] = {2, 3}, shape_b[] = {5};
    const float values[11] = {1, -2, 3.5f, 1e-40f, -0.0f, 6, 7, 8, 9, 10, 3e38f};
    struct safetensors_writer *writer = safetensors_writer_new(fixture->path);
    safetensors_writer_declare(writer, SAFETENSORS_F32, "a", shape_a, 2);
    safetensors_writer_declare(writer, SAFETENSORS_F32, "b \"quoted\" é", shape_b, 1);
    /* Pieces cross the border between the tensors. */
    g_assert_true(safetensors_writer_append(writer, values, 4 * sizeof *values, NULL));
    g_assert_true(safetensors_writer_append(writer, values + 4, 7 * sizeof *values, NULL));
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
    g_assert_true(safetensors_writer_finish(writer, NULL));
    safetensors_writer_free(writer);

    GError *error = NULL;
    struct safetensors *file = safetensors_open(fixture->path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(safetensors_count(file), ==, 2);
    const struct safetensors_tensor *a = safetensors_find(file, "a");
    const struct safetensors_tensor *b = safetensors_find(file, "b \"quoted\" é");
    g_assert_true(a == safetensors_at(file, 0) && b == safetensors_at(file, 1));
    g_assert_null(safetensors_find(file, "c"));
    g_assert_true(safetensors_expect(file, a, shape_a, 2, &error));
    float read[11];
    g_assert_true(safetensors_read(file, a, 0, 6, read, NULL));
    g_assert_true(safetensors_read(file, b, 0, 2, read + 6, NULL));
    g_assert_true(safetensors_read(file, b, 2, 3, read + 8, NULL));
    g_assert_cmpmem(read, sizeof(read), values, sizeof(values));
    safetensors_close(file);
}

static void test_unfinished_leaves_nothing(struct fixture *fixture, const void *data)
{
    (void)data;
    const uint64_t shape[] = {4};
    const float values[4] = {0};
    struct safetensors_writer *writer = safetensors_writer_new(fixture->path);
    safetensors_writer_declare(writer, SAFETENSORS_F32, "a", shape, 1);
    g_assert_true(safetensors_writer_append(writer, values, 2 * sizeof *values, NULL));
    safetensors_writer_free(writer);
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
}

static void test_write_nowhere(struct fixture *fixture, const void *data)
{
    (void)data;
    char *path = g_build_filename(fixture->folder, "missing", "file", NULL);
    struct safetensors_writer *writer = safetensors_writer_new(path);
    GError *error = NULL;
    g_assert_false(safetensors_writer_finish(writer, &error));
    g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_IO);
    g_error_free(error);
    safetensors_writer_free(writer);
    g_free(path);
}

struct half {
    uint16_t bits;
    float value;
};

static const struct half f16[] = {
    {0x0000, 0.0f},
    {0x3c00, 1.0f},
    {0xc000, -2.0f},
    {0x7bff, 65504.0f},
    {0x0001, 0x1p-24f},
    {0x83ff, -0x1.ff8p-15f},
    {0x0400, 0x1p-14f},
    {0x3555, 0x1.554p-2f},
    {0x7c00, (float)INFINITY},
    {0xfc00, (float)-INFINITY},
};
static const struct half bf16[] = {
    {0x0000, 0.0f},        {0x3f80, 1.0f},      {0xc000, -2.0f},
    {0x7f7f, 0x1.fep127f}, {0x0001, 0x1p-133f}, {0x7f80, (float)INFINITY},
};

static void check_halves(const char *path, const char *dtype, const struct half *halves,
                         uint32_t count)
{
    char *header =
        g_strdup_printf("{\"x\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[0,%u]}}", dtype,
                        count, 2 * count);
    write_file(path, header, 2 * count);
    gsize bytes;
    char *text;
    g_assert_true(g_file_get_contents(path, &text, &bytes, NULL));
    for (uint32_t i = 0; i < count; i++)
        memcpy(text + bytes - 2 * (gsize)(count - i), &halves[i].bits, 2);
    write_bytes(path, text, bytes);
    struct safetensors *file = safetensors_open(path, NULL);
    for (uint32_t i = 0; i < count; i++) {
        float value;
        g_assert_true(safetensors_read(file, safetensors_at(file, 0), i, 1, &value, NULL));
        g_assert_cmpmem(&value, sizeof(value), &halves[i].value, sizeof(value));
    }
    safetensors_close(file);
    g_free(text);
    g_free(header);
}

static void test_widening(struct fixture *fixture, const void *data)
{
    (void)data;
    check_halves(fixture->path, "F16", f16, G_N_ELEMENTS(f16));
    check_halves(fixture->path, "BF16", bf16, G_N_ELEMENTS(bf16));
}

#define TENSOR(name, dtype, shape, begin, end)                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin \
    "," #end "]}"

struct bad_file {
    const char *what;
    const char *header;
    gsize data_bytes;
    const char *reason; /* a part of the message */
};

static const struct bad_file bad_files[] = {
    {"not JSON", "{\"a\":", 0, "not JSON"},
    {"no object", "[1]", 0, "must be a JSON object"},
    {"name twice", "{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR("a", "F32", "1", 4, 8) "}", 8,
     "not JSON"},
    {"entry is a number", "{\"a\":1}", 0, "tensor a: dtype"},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a: dtype"},
    {"unknown dtype", "{" TENSOR("a", "F31", "1", 0, 4) "}", 4, "tensor a: dtype F31"},
    {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor a: shape"},
    {"negative shape", "{" TENSOR("a", "F32", "-1", 0, 4) "}", 4, "tensor a: shape"},
    {"shape of text", "{" TENSOR("a", "F32", "\"1\"", 0, 4) "}", 4, "tensor a: shape"},
    {"rank 9", "{" TENSOR("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 4) "}", 4, "tensor a: shape"},
    {"shape overflows", "{" TENSOR("a", "F32", "4294967296,4294967296", 0, 4) "}", 4,
     "tensor a: shape"},
    {"bytes overflow", "{" TENSOR("a", "F32", "4611686018427387905", 0, 4) "}", 4,
     "tensor a: its shape is too large"},
    {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor a: data_offsets"},
    {"one offset", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
     "tensor a: data_offsets"},
    {"offsets swapped", "{" TENSOR("a", "F32", "1", 4, 0) "}", 4, "tensor a: data_offsets"},
    {"negative offset", "{" TENSOR("a", "F32", "1", -4, 0) "}", 4, "tensor a: data_offsets"},
    {"truncated data", "{" TENSOR("a", "F32", "2", 0, 8) "}", 7, "tensor a: ends at byte 8"},
    {"shape and bytes differ", "{" TENSOR("a", "F32", "2", 0, 4) "}", 4, "tensor a: occupies"},
    {"overlap", "{" TENSOR("a", "F32", "2", 0, 8) "," TENSOR("b", "F32", "2", 4, 12) "}", 12,
     "tensor b: begins at byte 4"},
    {"same place", "{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR("b", "F32", "1", 0, 4) "}", 4,
     "begins at byte 0"},
    {"hole", "{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR("b", "F32", "1", 8, 12) "}", 12,
     "tensor b: begins at byte 8"},
    {"bytes behind", "{" TENSOR("a", "F32", "1", 0, 4) "}", 5, "5 bytes of data"},
};

static void expect_refused(const char *path, const char *what, const char *reason)
{
    GError *error = NULL;
    struct safetensors *file = safetensors_open(path, &error);
    if (file)
        g_error("%s: was accepted", what);
    g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, path));
    if (!strstr(error->message, reason))
        g_error("%s: \"%s\" does not say \"%s\"", what, error->message, reason);
    g_error_free(error);
}

static void test_bad_files(struct fixture *fixture, const void *data)
{
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(bad_files); i++) {
        write_file(fixture->path, bad_files[i].header, bad_files[i].data_bytes);
        expect_refused(fixture->path, bad_files[i].what, bad_files[i].reason);
    }
}

static void test_bad_lengths(struct fixture *fixture, const void *data)
{
    (void)data;
    static const uint64_t lengths[] = {3, 1000, UINT32_MAX, UINT64_MAX, UINT64_MAX - 7};
    write_bytes(fixture->path, "", 0);
    expect_refused(fixture->path, "empty", "too short");
    write_bytes(fixture->path, "\2\0\0\0\0\0\0", 7);
    expect_refused(fixture->path, "seven bytes", "too short");
    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        char bytes[10] = {0};
        memcpy(bytes, &lengths[i], sizeof(lengths[i]));
        memcpy(bytes + 8, "{}", 2);
        write_bytes(fixture->path, bytes, sizeof(bytes));
        expect_refused(fixture->path, "absurd length", "its header would have");
    }
}

static void test_missing_file(struct fixture *fixture, const void *data)
{
    (void)data;
    GError *error = NULL;
    g_assert_null(safetensors_open(fixture->path, &error));
    g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_IO);
    g_clear_error(&error);
    g_assert_null(safetensors_open(fixture->folder, &error));
    g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_IO);
    g_error_free(error);
}

static void test_expect(struct fixture *fixture, const void *data)
{
    (void)data;
    write_file(fixture->path,
               "{" TENSOR("a", "F32", "2,3", 0, 24) "," TENSOR("b", "I64", "3", 24, 48) "}", 48);
    struct safetensors *file = safetensors_open(fixture->path, NULL);
    const uint64_t turned[] = {3, 2}, three[] = {3};
    GError *error = NULL;
    g_assert_false(safetensors_expect(file, safetensors_at(file, 0), turned, 2, &error));
    g_assert_nonnull(
        strstr(error->message, "tensor a: its shape is [2, 3]; the model needs [3, 2]"));
    g_clear_error(&error);
    g_assert_false(safetensors_expect(file, safetensors_at(file, 0), three, 1, &error));
    g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR);
    g_clear_error(&error);
    g_assert_false(safetensors_expect(file, safetensors_at(file, 1), three, 1, &error));
    g_assert_nonnull(strstr(error->message, "tensor b: its type is I64; weights must be"));
    g_error_free(error);
    safetensors_close(file);
}

/* A file that ends sooner than when it was opened, or that a disk cannot read, is an error, and not
 * a signal. */
static void test_shorter_meanwhile(struct fixture *fixture, const void *data)
{
    (void)data;
    GError *error = NULL;
    float values[4] = {0};
    write_file(fixture->path,
               "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
               "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}",
               16);
    struct safetensors *file = safetensors_open(fixture->path, NULL);
    GStatBuf status;
    g_assert_cmpint(g_stat(fixture->path, &status), ==, 0);
    g_assert_cmpint(truncate(fixture->path, status.st_size - 2), ==, 0);
    g_assert_true(safetensors_read(file, safetensors_at(file, 0), 0, 2, values, &error));
    g_assert_true(safetensors_read(file, safetensors_at(file, 1), 0, 3, values, &error));
    g_assert_no_error(error);
    g_assert_false(safetensors_read(file, safetensors_at(file, 1), 1, 3, values, &error));
    g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_IO);
    g_assert_nonnull(strstr(error->message, ": tensor b: "));
    g_assert_nonnull(strstr(error->message, "shorter while it is read"));
    g_error_free(error);
    safetensors_close(file);
}

/* Numbers of 16 bits that are read together are those that are read one by one. */
static void test_widening_together(struct fixture *fixture, const void *data)
{
    enum { COUNT = 1000 };
    (void)data;
    const uint64_t shape[] = {COUNT};
    uint16_t bits[COUNT];
    float together[COUNT], alone;
    struct safetensors_writer *writer = safetensors_writer_new(fixture->path);
    safetensors_writer_declare(writer, SAFETENSORS_BF16, "a", shape, 1);
    for (size_t i = 0; i < COUNT; i++)
        bits[i] = (uint16_t)g_test_rand_int_range(0, 0x7f80); /* finite */
    g_assert_true(safetensors_writer_append(writer, bits, sizeof bits, NULL));
    g_assert_true(safetensors_writer_finish(writer, NULL));
    safetensors_writer_free(writer);
    struct safetensors *file = safetensors_open(fixture->path, NULL);
    const struct safetensors_tensor *a = safetensors_at(file, 0);
    g_assert_true(safetensors_read(file, a, 0, COUNT, together, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        g_assert_true(safetensors_read(file, a, i, 1, &alone, NULL));
        g_assert_cmpmem(&alone, sizeof alone, &together[i], sizeof alone);
    }
    safetensors_close(file);
}

/* Reads everything that a file which was accepted claims to hold. */
static void read_all(const struct safetensors *file)
{
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        if (tensor->dtype != SAFETENSORS_OTHER) {
            float *values = g_new(float, tensor->elements);
            g_assert_true(safetensors_read(file, tensor, 0, tensor->elements, values, NULL));
            g_free(values);
        }
    }
}

static void test_random_damage(struct fixture *fixture, const void *data)
{
    (void)data;
    write_file(fixture->path,
               "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR(
                   "wte.weight", "F32", "4,2", 0,
                   32) "," TENSOR("ln.bias", "BF16", "5", 32, 42) "," TENSOR("x", "F16", "1,3", 42,
                                                                             48) "}",
               48);
    gsize bytes;
    char *text;
    g_assert_true(g_file_get_contents(fixture->path, &text, &bytes, NULL));
    int refused = 0;
    for (int round = 0; round < 3000; round++) {
        char *damaged = g_memdup2(text, bytes);
        gsize length = bytes;
        for (int flips = g_test_rand_int_range(1, 4); flips > 0; flips--) {
            damaged[g_test_rand_int_range(0, (gint32)bytes)] ^=
                (char)(1 << g_test_rand_int_range(0, 8));
        }
        if (round % 10 == 0)
            length = (gsize)g_test_rand_int_range(0, (gint32)bytes);
        /* Not g_file_set_contents, which waits for the disk. */
        FILE *stream = g_fopen(fixture->path, "wb");
        g_assert_cmpuint(fwrite(damaged, 1, length, stream), ==, length);
        fclose(stream);
        GError *error = NULL;
        struct safetensors *file = safetensors_open(fixture->path, &error);
        g_assert_true((file == NULL) == (error != NULL));
        if (file)
            read_all(file);
        refused += file == NULL;
        safetensors_close(file);
        g_clear_error(&error);
        g_free(damaged);
    }
    g_assert_cmpint(refused, >, 1000);
    g_free(text);
}

#define PART(name, begin, end) \
    "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}}"

/* Two files beside the fixture's, and an index of this text. Returns the index's path. */
static char *write_parts(const struct fixture *fixture, const char *second, const char *index)
{
    static const float values[] = {1, 2};
    char *path = g_build_filename(fixture->folder, "model.safetensors.index.json", NULL);
    g_autofree char *one = g_build_filename(fixture->folder, "one.safetensors", NULL);
    g_autofree char *two = g_build_filename(fixture->folder, "two.safetensors", NULL);
    write_file(one, PART("a", "0", "8"), 8);
    write_file(two, second, sizeof values);
    FILE *file = fopen(two, "r+b");
    g_assert_nonnull(file);
    g_assert_cmpint(fseek(file, -(long)sizeof values, SEEK_END), ==, 0);
    g_assert_cmpuint(fwrite(values, sizeof values, 1, file), ==, 1);
    fclose(file);
    write_bytes(path, index, strlen(index));
    return path;
}

static void remove_parts(const struct fixture *fixture, const char *index)
{
    g_autofree char *one = g_build_filename(fixture->folder, "one.safetensors", NULL);
    g_autofree char *two = g_build_filename(fixture->folder, "two.safetensors", NULL);
    g_unlink(one);
    g_unlink(two);
    g_unlink(index);
}

/* Tensors of several files are found and read as if there were one. */
static void test_index(struct fixture *fixture, const void *data)
{
    (void)data;
    GError *error = NULL;
    g_autofree char *path =
        write_parts(fixture, PART("b", "0", "8"),
                    "{\"weight_map\":{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}}");
    struct safetensors *file = safetensors_open_index(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(safetensors_count(file), ==, 2);
    float values[4];
    g_assert_true(safetensors_read(file, safetensors_find(file, "a"), 0, 2, values, NULL));
    g_assert_true(safetensors_read(file, safetensors_find(file, "b"), 0, 2, values + 2, NULL));
    g_assert_cmpmem(values, sizeof values, ((float[]){0, 0, 1, 2}), sizeof values);
    safetensors_close(file);
    remove_parts(fixture, path);
}

static void test_bad_index(struct fixture *fixture, const void *data)
{
    (void)data;
    static const struct {
        const char *second, *index, *named;
    } bad[] = {
        {PART("b", "0", "8"), "{", "not JSON"},
        {PART("b", "0", "8"), "{}", "weight_map is missing"},
        {PART("b", "0", "8"), "{\"weight_map\":{}}", "names no file"},
        {PART("b", "0", "8"), "{\"weight_map\":{\"a\":1}}", "tensor a: weight_map must name"},
        {PART("b", "0", "8"), "{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "same folder"},
        {PART("b", "0", "8"), "{\"weight_map\":{\"a\":\"three.safetensors\"}}",
         "three.safetensors"},
        {PART("b", "0", "8"), "{\"weight_map\":{\"a\":\"two.safetensors\"}}", "not in two"},
        {PART("a", "0", "8"),
         "{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", "duplicate"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}", "two files"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_autofree char *path = write_parts(fixture, bad[i].second, bad[i].index);
        g_assert_null(safetensors_open_index(path, &error));
        if (!strstr(error->message, bad[i].named))
            g_error("'%s' is not in: %s", bad[i].named, error->message);
        g_error_free(error);
        remove_parts(fixture, path);
    }
}

#define ADD(path, function) \
    g_test_add("/safetensors/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("round-trip", test_round_trip);
    ADD("unfinished-leaves-nothing", test_unfinished_leaves_nothing);
    ADD("write-nowhere", test_write_nowhere);
    ADD("widening", test_widening);
    ADD("widening-together", test_widening_together);
    ADD("shorter-meanwhile", test_shorter_meanwhile);
    ADD("bad-files", test_bad_files);
    ADD("bad-lengths", test_bad_lengths);
    ADD("missing-file", test_missing_file);
    ADD("expect", test_expect);
    ADD("random-damage", test_random_damage);
    ADD("index", test_index);
    ADD("bad-index", test_bad_index);
    return g_test_run();
}
