/* Token files of numpy and Megatron-LM: what is read of them, and which are refused. */
#include "engine/train/data.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

enum { SEQUENCE = 3, TOKENS = 7 };

static const struct data_options options = {
    .vocabulary = 60000, .sequence = SEQUENCE, .order = DATA_SEQUENTIAL};
static const uint16_t there[TOKENS] = {50256, 1, 0, 300, 59999, 5, 6};

struct fixture {
    char *folder, *npy, *index, *bin;
};

static void set_up(struct fixture *fixture, const void *unused)
{
    (void)unused;
    fixture->folder = g_dir_make_tmp("tokens-XXXXXX", NULL);
    fixture->npy = g_build_filename(fixture->folder, "tokens.npy", NULL);
    fixture->index = g_build_filename(fixture->folder, "set.idx", NULL);
    fixture->bin = g_build_filename(fixture->folder, "set.bin", NULL);
}

static void tear_down(struct fixture *fixture, const void *unused)
{
    (void)unused;
    char *const files[] = {fixture->npy, fixture->index, fixture->bin};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_unlink(files[i]);
        g_free(files[i]);
    }
    g_rmdir(fixture->folder);
    g_free(fixture->folder);
}

static void put(GByteArray *file, uint64_t value, guint bytes)
{
    uint64_t word = GUINT64_TO_LE(value);
    g_byte_array_append(file, (const guint8 *)&word, bytes);
}

static void put_tokens(GByteArray *file, guint token_bytes)
{
    for (int i = 0; i < TOKENS; i++)
        put(file, there[i], token_bytes);
}

/* Does not wait for the disk. */
static void write_bytes(const char *path, const void *bytes, gsize count)
{
    FILE *file = fopen(path, "wb");
    g_assert_nonnull(file);
    g_assert_cmpuint(fwrite(bytes, 1, count, file), ==, count);
    g_assert_cmpint(fclose(file), ==, 0);
}

static void write_file(const char *path, const GByteArray *file)
{
    write_bytes(path, file->data, file->len);
}

static void expect_refused(const char *path, const struct data_options *with, enum data_error code,
                           const char *reason)
{
    GError *error = NULL;
    g_assert_null(data_open(path, with, &error));
    g_assert_error(error, DATA_ERROR, (int)code);
    g_assert_true(g_str_has_prefix(error->message, path));
    g_assert_null(strchr(error->message, '\n'));
    if (!strstr(error->message, reason))
        g_error("\"%s\" does not say \"%s\"", error->message, reason);
    g_error_free(error);
}

static void expect_tokens(const char *path)
{
    GError *error = NULL;
    struct data *data = data_open(path, &options, &error);
    uint32_t tokens[2 * SEQUENCE], targets[2 * SEQUENCE];
    g_assert_no_error(error);
    g_assert_false(data_is_text(data));
    g_assert_cmpuint(data_tokens(data, DATA_TRAINING), ==, TOKENS);
    data_batch(data, 0, 0, 1, 2, tokens, targets);
    for (int t = 0; t < 2 * SEQUENCE; t++) {
        g_assert_cmpuint(tokens[t], ==, there[t]);
        g_assert_cmpuint(targets[t], ==, there[t + 1]);
    }
    data_close(data);
}

/* ---- numpy ---- */

static GByteArray *npy_new(uint8_t version, const char *header)
{
    GByteArray *file = g_byte_array_new();
    g_byte_array_append(file, (const guint8 *)"\x93NUMPY", 6);
    put(file, version, 1);
    put(file, 0, 1);
    put(file, strlen(header), version == 1 ? 2 : 4);
    g_byte_array_append(file, (const guint8 *)header, (guint)strlen(header));
    return file;
}

static void test_npy(struct fixture *fixture, const void *unused)
{
    static const struct {
        const char *type;
        guint bytes;
    } types[] = {{"<u2", 2}, {"<i4", 4}, {"<u4", 4}, {"<i8", 8}, {"<u8", 8}};
    (void)unused;
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        for (uint8_t version = 1; version <= 3; version++) {
            g_autofree char *header = g_strdup_printf(
                "{'descr': '%s', 'fortran_order': False, 'shape': (7,), }   \n", types[i].type);
            GByteArray *file = npy_new(version, header);
            put_tokens(file, types[i].bytes);
            write_file(fixture->npy, file);
            expect_tokens(fixture->npy);
            g_byte_array_unref(file);
        }
    }
}

static void test_bad_npy(struct fixture *fixture, const void *unused)
{
    static const struct {
        uint8_t version;
        const char *header, *reason;
    } files[] = {
        {1, "{'descr': '<f4', 'shape': (7,)}", "'<f4', not of integers"},
        {1, "{'descr': '|O', 'shape': (7,)}", "'|O', not of integers"},
        {1, "{'descr': [('a', '<u2')], 'shape': (7,)}", "'records', not of integers"},
        {1, "{'descr': '>u2', 'shape': (7,)}", "not in little-endian order"},
        {1, "{'descr': '<u2', 'shape': (7, 1)}", "shape (7, 1), not of one dimension"},
        {1, "{'descr': '<u2', 'shape': ()}", "shape (), not of one dimension"},
        {1, "{'descr': '<u2', 'shape': (6,)}", "holds 6 tokens, but has 7: truncated"},
        {1, "{'descr': '<u2', 'shape': (8,)}", "holds 8 tokens, but has 7: truncated"},
        {1, "{'descr': '<u2', 'shape': (9223372036854775815,)}", "truncated or damaged"},
        {1, "{'descr': '<u2', 'shape': (99999999999999999999,)}", "header of the NumPy array is"},
        {1, "{'descr': '<u2', 'shape': (-7,)}", "header of the NumPy array is damaged"},
        {1, "{'descr': '<u2'}", "header of the NumPy array is damaged"},
        {1, "", "header of the NumPy array is damaged"},
        {4, "{'descr': '<u2', 'shape': (7,)}", "version 4"},
    };
    (void)unused;
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        GByteArray *file = npy_new(files[i].version, files[i].header);
        put_tokens(file, 2);
        write_file(fixture->npy, file);
        expect_refused(fixture->npy, &options, DATA_ERROR_INVALID, files[i].reason);
        g_byte_array_unref(file);
    }
}

/* Lengths that the file does not have, and every place at which a file may be cut off. */
static void test_cut_npy(struct fixture *fixture, const void *unused)
{
    (void)unused;
    GByteArray *file = npy_new(2, "{'descr': '<u2', 'fortran_order': False, 'shape': (7,), }\n");
    put_tokens(file, 2);
    for (guint kept = 6; kept < file->len; kept++) {
        GError *error = NULL;
        write_bytes(fixture->npy, file->data, kept);
        g_assert_null(data_open(fixture->npy, &options, &error));
        g_assert_error(error, DATA_ERROR, DATA_ERROR_INVALID);
        g_clear_error(&error);
    }
    memset(file->data + 8, 0xff, sizeof(uint32_t));
    write_file(fixture->npy, file);
    expect_refused(fixture->npy, &options, DATA_ERROR_INVALID, "is truncated");
    g_byte_array_set_size(file, 1 << 20);
    memcpy(file->data + 8, "\xff\xff\x01\0", 4);
    write_file(fixture->npy, file);
    expect_refused(fixture->npy, &options, DATA_ERROR_INVALID, "longer than 65536 bytes");
    g_byte_array_unref(file);
}

static void test_outside_the_vocabulary(struct fixture *fixture, const void *unused)
{
    static const struct {
        int64_t token;
        const char *reason;
    } tokens[] = {{60000, "token 4 is 60000, outside the model's vocabulary of 60000"},
                  {-1, "token 4 is -1, outside"},
                  {INT64_C(1) << 32, "token 4 is 4294967296, outside"}};
    (void)unused;
    for (size_t i = 0; i < G_N_ELEMENTS(tokens); i++) {
        GByteArray *file = npy_new(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }");
        for (int t = 0; t < 4; t++)
            put(file, 1, 8);
        put(file, (uint64_t)tokens[i].token, 8);
        write_file(fixture->npy, file);
        expect_refused(fixture->npy, &options, DATA_ERROR_TOKENS, tokens[i].reason);
        g_byte_array_unref(file);
    }
    struct data_options bytes = options;
    bytes.tokens = DATA_TOKENS_BYTES;
    expect_refused(fixture->npy, &bytes, DATA_ERROR_KIND, "leave out --tokens");
}

/* ---- Megatron-LM ---- */

static const uint32_t sizes[] = {3, 0, 4};
enum { SEQUENCES = G_N_ELEMENTS(sizes), DOCUMENTS = 3, SIZES_AT = 34, PLACES_AT = 34 + 12 };

static GByteArray *index_new(uint8_t code, guint token_bytes)
{
    GByteArray *file = g_byte_array_new();
    uint64_t place = 0;
    g_byte_array_append(file, (const guint8 *)"MMIDIDX\0\0", 9);
    put(file, 1, 8);
    put(file, code, 1);
    put(file, SEQUENCES, 8);
    put(file, DOCUMENTS, 8);
    for (int i = 0; i < SEQUENCES; i++)
        put(file, sizes[i], 4);
    for (int i = 0; i < SEQUENCES; place += sizes[i++] * token_bytes)
        put(file, place, 8);
    for (uint64_t i = 0; i < DOCUMENTS; i++)
        put(file, i + (i == DOCUMENTS - 1), 8);
    return file;
}

static void write_bin(const struct fixture *fixture, guint token_bytes)
{
    g_autoptr(GByteArray) file = g_byte_array_new();
    put_tokens(file, token_bytes);
    write_file(fixture->bin, file);
}

static void test_megatron(struct fixture *fixture, const void *unused)
{
    static const struct {
        uint8_t code;
        guint bytes;
    } types[] = {{8, 2}, {4, 4}, {5, 8}};
    (void)unused;
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        GByteArray *index = index_new(types[i].code, types[i].bytes);
        write_file(fixture->index, index);
        write_bin(fixture, types[i].bytes);
        expect_tokens(fixture->index);
        g_byte_array_unref(index);
    }
}

static void test_bad_megatron(struct fixture *fixture, const void *unused)
{
    static const struct {
        guint at;
        const char *bytes; /* 8 of them */
        const char *reason;
    } changes[] = {
        {9, "\2\0\0\0\0\0\0\0", "version 2; it must be 1"},
        {17, "\7\3\0\0\0\0\0\0", "has the code 7"},
        {17, "\x09\3\0\0\0\0\0\0", "has the code 9"},
        {17, "\xff\3\0\0\0\0\0\0", "has the code 255"},
        {18, "\4\0\0\0\0\0\0\0", "holds 4 sequences and 3 documents"},
        {18, "\xff\xff\xff\xff\xff\xff\xff\xff", "truncated or damaged"},
        {18, "\0\0\0\0\0\0\0\x80", "truncated or damaged"},
        {26, "\xff\xff\xff\xff\xff\xff\xff\xff", "truncated or damaged"},
        {26, "\3\0\0\0\0\0\0\x20", "truncated or damaged"},
        {SIZES_AT, "\xff\xff\xff\xff\0\0\0\0", "sequence 0 of the Megatron data set"},
        {SIZES_AT, "\2\0\0\0\0\0\0\0", "sequence 1 of the Megatron data set"},
        {PLACES_AT, "\2\0\0\0\0\0\0\0", "sequence 0 of the Megatron data set"},
        {PLACES_AT + 16, "\xff\xff\xff\xff\xff\xff\xff\xff", "sequence 2 of the Megatron data set"},
    };
    (void)unused;
    write_bin(fixture, 2);
    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
        GByteArray *index = index_new(8, 2);
        memcpy(index->data + changes[i].at, changes[i].bytes, 8);
        write_file(fixture->index, index);
        expect_refused(fixture->index, &options, DATA_ERROR_INVALID, changes[i].reason);
        g_byte_array_unref(index);
    }
}

static void test_megatron_files(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_autoptr(GByteArray) index = index_new(8, 2);
    write_file(fixture->index, index);
    expect_refused(fixture->index, &options, DATA_ERROR_IO, "set.bin: No such file");
    write_bytes(fixture->bin, "12345678", 8);
    expect_refused(fixture->index, &options, DATA_ERROR_INVALID,
                   "describes 14 bytes of tokens, but its .bin file has 8");
    write_bin(fixture, 2);
    expect_refused(fixture->bin, &options, DATA_ERROR_KIND, "give the .idx file");
    write_file(fixture->npy, index);
    expect_refused(fixture->npy, &options, DATA_ERROR_KIND, "must end with .idx");
    for (guint kept = 9; kept < index->len; kept++) {
        GError *error = NULL;
        write_bytes(fixture->index, index->data, kept);
        g_assert_null(data_open(fixture->index, &options, &error));
        g_assert_error(error, DATA_ERROR, DATA_ERROR_INVALID);
        g_clear_error(&error);
    }
}

/* ---- any bytes ---- */

/* Whatever bytes a header has, it is read or refused; what is read has tokens of the model. */
static void test_drawn_headers(struct fixture *fixture, const void *unused)
{
    (void)unused;
    const guint32 seed = (guint32)g_test_rand_int();
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_test_message("seed %u", seed);
    write_bin(fixture, 2);
    for (int round = 0; round < 300; round++) {
        bool npy = g_rand_boolean(rand);
        GByteArray *file =
            npy ? npy_new(1, "{'descr': '<u2', 'fortran_order': False, 'shape': (7,), }")
                : index_new(8, 2);
        if (npy)
            put_tokens(file, 2);
        for (int i = g_rand_int_range(rand, 1, 4); i > 0; i--)
            file->data[g_rand_int_range(rand, 9, (gint)file->len)] =
                (guint8)g_rand_int_range(rand, 0, 256);
        write_file(npy ? fixture->npy : fixture->index, file);
        g_autoptr(GError) error = NULL;
        struct data *data = data_open(npy ? fixture->npy : fixture->index, &options, &error);
        g_assert_true((data != NULL) == (error == NULL));
        if (data) {
            uint32_t tokens[SEQUENCE], targets[SEQUENCE];
            data_batch(data, (uint64_t)round, 0, 1, 1, tokens, targets);
            for (int t = 0; t < SEQUENCE; t++)
                g_assert_cmpuint(MAX(tokens[t], targets[t]), <, options.vocabulary);
        }
        data_close(data);
        g_byte_array_unref(file);
    }
}

#define ADD(path, function) \
    g_test_add("/token-array/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("npy", test_npy);
    ADD("bad-npy", test_bad_npy);
    ADD("cut-npy", test_cut_npy);
    ADD("outside-the-vocabulary", test_outside_the_vocabulary);
    ADD("megatron", test_megatron);
    ADD("bad-megatron", test_bad_megatron);
    ADD("megatron-files", test_megatron_files);
    ADD("drawn-headers", test_drawn_headers);
    return g_test_run();
}
