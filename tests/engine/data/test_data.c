/* Token files, their batches, and what is refused. */
#include "engine/train/data.h"
#include "engine/train/data_kind.h"
#include "engine/train/file_pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEQUENCE = 4, BATCH = 3 };

static const struct data_options text_options = {
    .vocabulary = 256, .sequence = SEQUENCE, .tokens = DATA_TOKENS_BYTES};
static const struct data_options auto_options = {.vocabulary = 256, .sequence = SEQUENCE};

struct fixture {
    char *folder, *path;
};

static void set_up(struct fixture *fixture, const void *unused)
{
    (void)unused;
    fixture->folder = g_dir_make_tmp("data-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, "tokens", NULL);
}

static void tear_down(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_unlink(fixture->path);
    g_rmdir(fixture->folder);
    g_free(fixture->path);
    g_free(fixture->folder);
}

/* Text whose byte at place i is i mod 256, so that a token says where it was read. */
static void write_counting_text(const char *path, gsize count)
{
    guint8 *bytes = g_new(guint8, count);
    for (gsize i = 0; i < count; i++)
        bytes[i] = (guint8)i;
    g_assert_true(g_file_set_contents(path, (const char *)bytes, (gssize)count, NULL));
    g_free(bytes);
}

/* A token file that declares `declared` tokens and holds `bytes` bytes of them. */
static void write_bin(const char *path, int32_t version, int32_t declared, const void *tokens,
                      gsize bytes)
{
    int32_t header[256] = {20240520, version, declared};
    GByteArray *file = g_byte_array_new();
    g_byte_array_append(file, (const guint8 *)header, sizeof(header));
    g_byte_array_append(file, tokens, (guint)bytes);
    g_assert_true(g_file_set_contents(path, (const char *)file->data, file->len, NULL));
    g_byte_array_free(file, TRUE);
}

static struct data *open_data(const struct fixture *fixture, const struct data_options *options)
{
    GError *error = NULL;
    struct data *data = data_open(fixture->path, options, &error);
    g_assert_no_error(error);
    return data;
}

static void expect_refused(const struct fixture *fixture, const struct data_options *options,
                           enum data_error code, const char *reason)
{
    GError *error = NULL;
    g_assert_null(data_open(fixture->path, options, &error));
    g_assert_error(error, DATA_ERROR, (int)code);
    g_assert_true(g_str_has_prefix(error->message, fixture->path));
    if (!strstr(error->message, reason))
        g_error("\"%s\" does not say \"%s\"", error->message, reason);
    g_error_free(error);
}

static void expect_rows_follow(const uint32_t *tokens, const uint32_t *targets)
{
    for (int row = 0; row < BATCH; row++) {
        for (int t = 0; t < SEQUENCE; t++) {
            int i = row * SEQUENCE + t;
            g_assert_cmpuint(targets[i], ==, (tokens[i] + 1) % 256);
            g_assert_true(t == 0 || tokens[i] == targets[i - 1]);
        }
    }
}

static void test_sequential(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct data_options options = text_options;
    options.order = DATA_SEQUENTIAL;
    write_counting_text(fixture->path, 8 * SEQUENCE + 1);
    struct data *data = open_data(fixture, &options);
    g_assert_cmpuint(data_sequences(data, DATA_TRAINING), ==, 8);
    uint32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    for (uint32_t step = 0; step < 3; step++) {
        for (uint32_t micro_batch = 0; micro_batch < 2; micro_batch++) {
            data_batch(data, step, micro_batch, 2, BATCH, tokens, targets);
            expect_rows_follow(tokens, targets);
            for (uint32_t row = 0; row < BATCH; row++) {
                uint32_t index = (step * 2 + micro_batch) * BATCH + row;
                g_assert_cmpuint(tokens[row * SEQUENCE], ==, index % 8 * SEQUENCE);
            }
        }
    }
    data_close(data);
}

static void test_random(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct data_options options = text_options;
    options.seed = 7;
    write_counting_text(fixture->path, 20 + SEQUENCE); /* starts 0..19 */
    struct data *data = open_data(fixture, &options);
    uint32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE], again[BATCH * SEQUENCE];
    int seen[20] = {0};
    for (uint64_t step = 0; step < 1000; step++) {
        data_batch(data, step, 0, 1, BATCH, tokens, targets);
        expect_rows_follow(tokens, targets);
        for (int row = 0; row < BATCH; row++) {
            g_assert_cmpuint(tokens[row * SEQUENCE], <, 20);
            seen[tokens[row * SEQUENCE]]++;
        }
    }
    for (int start = 0; start < 20; start++) /* 150 expected, deviation 12 */
        g_assert_cmpint(ABS(seen[start] - 150), <, 60);
    data_batch(data, 999, 0, 1, BATCH, again, targets);
    g_assert_cmpmem(again, sizeof(again), tokens, sizeof(tokens));
    data_close(data);

    options.seed = 8;
    data = open_data(fixture, &options);
    data_batch(data, 999, 0, 1, BATCH, again, targets);
    g_assert_true(memcmp(again, tokens, sizeof(again)) != 0);
    data_close(data);
}

static void test_micro_batches_differ(struct fixture *fixture, const void *unused)
{
    (void)unused;
    write_counting_text(fixture->path, 256);
    struct data *data = open_data(fixture, &text_options);
    uint32_t first[BATCH * SEQUENCE], second[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    data_batch(data, 3, 0, 2, BATCH, first, targets);
    data_batch(data, 3, 1, 2, BATCH, second, targets);
    g_assert_true(memcmp(first, second, sizeof(first)) != 0);
    data_close(data);
}

static void test_held_out(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct data_options options = text_options;
    options.held_out = 0.25;
    write_counting_text(fixture->path, 100);
    struct data *data = open_data(fixture, &options);
    g_assert_cmpuint(data_tokens(data, DATA_TRAINING), ==, 75);
    g_assert_cmpuint(data_tokens(data, DATA_HELD_OUT), ==, 25);
    g_assert_cmpuint(data_sequences(data, DATA_HELD_OUT), ==, 6);
    uint32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    data_read(data, DATA_HELD_OUT, 3, BATCH, tokens, targets);
    g_assert_cmpuint(tokens[0], ==, 75 + 3 * SEQUENCE);
    g_assert_cmpuint(targets[BATCH * SEQUENCE - 1], ==, 99);
    for (uint64_t step = 0; step < 200; step++) {
        data_batch(data, step, 0, 1, BATCH, tokens, targets);
        for (int i = 0; i < BATCH * SEQUENCE; i++)
            g_assert_cmpuint(targets[i], <, 75);
    }
    data_close(data);

    options.held_out = 0.04;
    expect_refused(fixture, &options, DATA_ERROR_SHORT, "holding out 0.04");
    options.held_out = 0.97;
    expect_refused(fixture, &options, DATA_ERROR_SHORT, "holding out 0.97");
}

static void test_no_held_out(struct fixture *fixture, const void *unused)
{
    (void)unused;
    write_counting_text(fixture->path, 100);
    struct data *data = open_data(fixture, &text_options);
    g_assert_cmpuint(data_tokens(data, DATA_HELD_OUT), ==, 0);
    g_assert_cmpuint(data_sequences(data, DATA_HELD_OUT), ==, 0);
    data_close(data);
}

static void test_entropy(struct fixture *fixture, const void *unused)
{
    (void)unused;
    /* a: 1/2, b: 1/4, c and d: 1/8. */
    g_assert_true(g_file_set_contents(fixture->path, "aaaabbcd", 8, NULL));
    struct data *data = open_data(fixture, &text_options);
    g_assert_cmpfloat_with_epsilon(data_unigram_entropy(data), 1.75 * log(2), 1e-12);
    data_close(data);
}

static void test_token_file(struct fixture *fixture, const void *unused)
{
    (void)unused;
    const uint16_t tokens_there[] = {50256, 1, 2, 300, 4, 5};
    const struct data_options options = {
        .vocabulary = 50257, .sequence = 5, .order = DATA_SEQUENTIAL};
    write_bin(fixture->path, 1, 6, tokens_there, sizeof(tokens_there));
    struct data *data = open_data(fixture, &options);
    uint32_t tokens[5], targets[5];
    data_batch(data, 0, 0, 1, 1, tokens, targets);
    for (int t = 0; t < 5; t++) {
        g_assert_cmpuint(tokens[t], ==, tokens_there[t]);
        g_assert_cmpuint(targets[t], ==, tokens_there[t + 1]);
    }
    g_assert_cmpfloat_with_epsilon(data_unigram_entropy(data), log(6), 1e-12);
    data_close(data);
}

static void test_bad_token_files(struct fixture *fixture, const void *unused)
{
    (void)unused;
    const uint16_t tokens[] = {1, 2, 3, 4, 5, 256};
    write_bin(fixture->path, 1, 6, tokens, sizeof(tokens));
    expect_refused(fixture, &auto_options, DATA_ERROR_TOKENS, "token 5 is 256");
    write_bin(fixture->path, 2, 6, tokens, sizeof(tokens));
    expect_refused(fixture, &auto_options, DATA_ERROR_INVALID, "version 2");
    write_bin(fixture->path, 1, 7, tokens, sizeof(tokens));
    expect_refused(fixture, &auto_options, DATA_ERROR_INVALID, "7 tokens, but has 6");
    write_bin(fixture->path, 1, -1, tokens, sizeof(tokens));
    expect_refused(fixture, &auto_options, DATA_ERROR_INVALID, "-1 tokens");
    write_bin(fixture->path, 1, 5, tokens, sizeof(tokens) - 1);
    expect_refused(fixture, &auto_options, DATA_ERROR_INVALID, "truncated");
    write_bin(fixture->path, 1, 4, tokens, 4 * sizeof(*tokens));
    expect_refused(fixture, &auto_options, DATA_ERROR_SHORT, "holds 4 tokens");
    write_bin(fixture->path, 1, 6, tokens, sizeof(tokens));
    expect_refused(fixture, &text_options, DATA_ERROR_KIND, "leave out --tokens");
    const int32_t magic = 20240520;
    g_assert_true(g_file_set_contents(fixture->path, (const char *)&magic, sizeof(magic), NULL));
    expect_refused(fixture, &auto_options, DATA_ERROR_INVALID,
                   "header of the token file is truncated");
}

/* llm.c's files for Llama, and bare numbers. */
static void test_wide_tokens(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct data_options options = {.vocabulary = 128256, .sequence = 3, .order = DATA_SEQUENTIAL};
    const uint32_t there[] = {128000, 70000, 3, 1};
    const uint16_t narrow[] = {300, 2, 3, 1};
    int32_t file[256 + 4] = {20240801, 7, 4};
    uint32_t tokens[3], targets[3];
    memcpy(file + 256, there, sizeof(there));
    g_assert_true(g_file_set_contents(fixture->path, (char *)file, sizeof(file), NULL));
    struct data *data = open_data(fixture, &options);
    g_assert_false(data_is_text(data));
    data_batch(data, 0, 0, 1, 1, tokens, targets);
    g_assert_cmpmem(tokens, sizeof(tokens), there, sizeof(tokens));
    g_assert_cmpmem(targets, sizeof(targets), there + 1, sizeof(targets));
    g_assert_cmpfloat_with_epsilon(data_unigram_entropy(data), log(4), 1e-12);
    data_close(data);
    options.vocabulary = 128000;
    expect_refused(fixture, &options, DATA_ERROR_TOKENS, "token 0 is 128000");

    options.vocabulary = 128256;
    g_assert_true(g_file_set_contents(fixture->path, (char *)there, sizeof(there), NULL));
    expect_refused(fixture, &options, DATA_ERROR_KIND, "give --tokens uint16 (or uint32)");
    options.tokens = DATA_TOKENS_UINT32;
    data_close(open_data(fixture, &options));
    g_assert_true(g_file_set_contents(fixture->path, (char *)there, sizeof(there) - 2, NULL));
    expect_refused(fixture, &options, DATA_ERROR_INVALID, "whole number of tokens of 4 bytes");
    options.tokens = DATA_TOKENS_UINT16;
    g_assert_true(g_file_set_contents(fixture->path, (char *)narrow, sizeof(narrow), NULL));
    data = open_data(fixture, &options);
    data_batch(data, 0, 0, 1, 1, tokens, targets);
    g_assert_cmpuint(tokens[0], ==, 300);
    g_assert_cmpuint(targets[2], ==, 1);
    data_close(data);
}

static void test_text_of_other_tokens(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct data_options options = {.vocabulary = 50257, .sequence = SEQUENCE, .model = "gpt2"};
    g_autofree char *command = g_strdup_printf("pstar-tokens --model 'gpt2' '%s' -o tokens.bin",
                                               fixture->path);
    g_assert_true(g_file_set_contents(fixture->path, "hello, world", -1, NULL));
    expect_refused(fixture, &options, DATA_ERROR_KIND, "vocabulary of 50257 is not bytes");
    expect_refused(fixture, &options, DATA_ERROR_KIND, command);
    options.tokens = DATA_TOKENS_BYTES;
    struct data *data = open_data(fixture, &options);
    g_assert_true(data_is_text(data));
    data_close(data);
    options.tokens = DATA_TOKENS_UINT16;
    expect_refused(fixture, &options, DATA_ERROR_KIND, "is text, not bare numbers");
    options.vocabulary = 256;
    options.tokens = DATA_TOKENS_AUTO;
    data_close(open_data(fixture, &options));
    /* Bare numbers may begin as a gzip file does, or have no byte that a text has not. */
    static const uint16_t like_gzip[] = {0x8b1f, 300, 301, 302, 303},
                          like_text[] = {0xb5c3, 0x6161, 0xffc3, 0x6262, 0x6363};
    options.vocabulary = 65536;
    options.tokens = DATA_TOKENS_UINT16;
    g_assert_true(
        g_file_set_contents(fixture->path, (const char *)like_gzip, sizeof like_gzip, NULL));
    data_close(open_data(fixture, &options));
    g_assert_true(
        g_file_set_contents(fixture->path, (const char *)like_text, sizeof like_text, NULL));
    data_close(open_data(fixture, &options));
}

/* No file of another format is trained as if its bytes were text. */
static void test_other_formats(struct fixture *fixture, const void *unused)
{
    (void)unused;
    static const struct {
        const char *bytes;
        gssize count;
        const char *reason;
    } files[] = {
        {"PAR1\25\4\25", -1, "is a Parquet file; pstar-tokenize"},
        {"ARROW1..", -1, "is an Arrow file"},
        {"\xff\xff\xff\xff\x20", -1, "is an Arrow stream"},
        {"TNTIDX\0\0..", 10, "older form; write the data set again"},
        {"\x1f\x8b\x08..", -1, "is a gzip file; unpack it first"},
        {"\x28\xb5\x2f\xfd..", -1, "is a Zstandard file"},
        {"PK\3\4..", -1, "is a zip archive"},
        {"%PDF-1.7", -1, "is a PDF file"},
        {"\xff\xfeT\0b\0", 6, "is text in UTF-16"},
        {"\xff\xfe\0\0T\0\0\0", 8, "is text in UTF-32"},
        {"\x89PNG\r\n\x1a\n", -1, "is an image"},
        {"\x80\x04\x95\x0b", -1, "is a Python pickle"},
        {"\x0a\0\0\0\0\0\0\0{\"a\": {}} ....", 22, "is a file of weights (safetensors)"},
        {"\xef\xbb\xbf{\"text\": \"one\"}\n{\"text\": \"two\"}\n", -1,
         "is JSON; of JSON lines, pstar-tokenize"},
        {"{\"text\": \"one\"}\n{\"text\": \"two\"}\n", -1,
         "is JSON; of JSON lines, pstar-tokenize"},
        {"\n[\n  {\"text\": \"one\"}\n]\n", -1, "is JSON; of JSON lines, pstar-tokenize"},
        {"hell\0 world", 11, "is no text; if it holds bare token numbers"},
    };
    g_assert_cmpint(data_kind_of((const uint8_t *)"a text", 6, 6).form, ==, DATA_FORM_TEXT);
    g_assert_cmpint(data_kind_of(NULL, 0, 0).form, ==, DATA_FORM_TEXT);
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_assert_true(g_file_set_contents(fixture->path, files[i].bytes, files[i].count, NULL));
        expect_refused(fixture, &auto_options, DATA_ERROR_KIND, files[i].reason);
    }
    /* A value that is longer than what is looked at, in lines; and an archive's second block. */
    g_autoptr(GString) value = g_string_new("[\n");
    while (value->len < 3 << 20)
        g_string_append(value, "  \"gr\303\274\303\237e\",\n");
    g_assert_true(g_file_set_contents(fixture->path, value->str, (gssize)value->len, NULL));
    expect_refused(fixture, &auto_options, DATA_ERROR_KIND,
                   "is JSON; of JSON lines, pstar-tokenize");
    g_string_printf(value, "%-257sustar", "a name");
    g_assert_true(g_file_set_contents(fixture->path, value->str, (gssize)value->len, NULL));
    expect_refused(fixture, &auto_options, DATA_ERROR_KIND, "is a tar archive; unpack it first");
    g_assert_true(g_file_set_contents(fixture->path, "{ is the begin of a text }", -1, NULL));
    data_close(open_data(fixture, &auto_options));
    g_assert_true(g_file_set_contents(fixture->path, "{\"text\": \"one\"}", -1, NULL));
    data_close(open_data(fixture, &text_options));
    g_unlink(fixture->path);
    g_assert_cmpint(g_mkdir(fixture->path, 0777), ==, 0);
    expect_refused(fixture, &auto_options, DATA_ERROR_KIND, "is a folder");
    g_rmdir(fixture->path);
}

static void test_bad_text(struct fixture *fixture, const void *unused)
{
    (void)unused;
    expect_refused(fixture, &text_options, DATA_ERROR_IO, "No such file");
    write_counting_text(fixture->path, 0);
    expect_refused(fixture, &text_options, DATA_ERROR_SHORT, "holds 0 tokens");
    write_counting_text(fixture->path, SEQUENCE);
    expect_refused(fixture, &text_options, DATA_ERROR_SHORT, "holds 4 tokens");
    write_counting_text(fixture->path, SEQUENCE + 1);
    data_close(open_data(fixture, &text_options));
    struct data_options narrow = text_options;
    narrow.vocabulary = 255;
    expect_refused(fixture, &narrow, DATA_ERROR_TOKENS, "vocabulary of 255");
}

static char *digest_of(const struct fixture *fixture)
{
    struct data *data = open_data(fixture, &text_options);
    char *digest = data_digest(data);
    data_close(data);
    return digest;
}

static void test_digest(struct fixture *fixture, const void *unused)
{
    (void)unused;
    write_counting_text(fixture->path, 1000);
    char *first = digest_of(fixture), *same = digest_of(fixture);
    g_assert_cmpstr(first, ==, same);
    write_counting_text(fixture->path, 1001);
    char *longer = digest_of(fixture);
    g_assert_cmpstr(first, !=, longer);
    char text[1000];
    for (int i = 0; i < 1000; i++)
        text[i] = (char)i;
    text[777] ^= 1;
    g_assert_true(g_file_set_contents(fixture->path, text, sizeof(text), NULL));
    char *changed = digest_of(fixture);
    g_assert_cmpstr(first, !=, changed);
    g_free(first);
    g_free(same);
    g_free(longer);
    g_free(changed);
}

/* Writes into the file, where it is, at a time of its own. */
static void overwrite(const struct fixture *fixture, long at, uint16_t token, time_t when)
{
    const struct timespec times[] = {{.tv_sec = when}, {.tv_sec = when}};
    uint16_t number = GUINT16_TO_LE(token);
    FILE *file = fopen(fixture->path, "r+b");
    g_assert_cmpint(fseek(file, at * (long)sizeof number, SEEK_SET), ==, 0);
    g_assert_cmpuint(fwrite(&number, sizeof number, 1, file), ==, 1);
    g_assert_cmpint(fflush(file), ==, 0);
    g_assert_cmpint(futimens(fileno(file), times), ==, 0);
    fclose(file);
}

static void expect_changed(struct data *data)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(data_check(data, &error));
    g_assert_nonnull(strstr(error->message, "tokens: has been changed while it is read"));
    data_close(data);
}

/* A file that is written while it is open is another one if its bytes are others. What is no token
 * of the model any more reaches no kernel. */
static void test_changed(struct fixture *fixture, const void *unused)
{
    (void)unused;
    enum { TOKENS = 1000, PLACE = 777 };
    const struct data_options options = {.vocabulary = 256,
                                         .sequence = SEQUENCE,
                                         .order = DATA_SEQUENTIAL,
                                         .tokens = DATA_TOKENS_UINT16};
    uint16_t numbers[TOKENS] = {0};
    uint32_t tokens[SEQUENCE], targets[SEQUENCE];
    g_assert_true(g_file_set_contents(fixture->path, (char *)numbers, sizeof numbers, NULL));
    struct data *data = open_data(fixture, &options);
    overwrite(fixture, PLACE, 0, 1000);
    g_assert_true(data_check(data, NULL));
    overwrite(fixture, TOKENS, 5, 2000); /* behind what was there */
    g_assert_true(data_check(data, NULL));
    overwrite(fixture, PLACE, 255, 3000);
    expect_changed(data);

    data = open_data(fixture, &options);
    g_assert_true(data_check(data, NULL));
    overwrite(fixture, PLACE, 256, 3000); /* the time says nothing */
    g_assert_true(data_check(data, NULL));
    data_batch(data, PLACE / SEQUENCE, 0, 1, 1, tokens, targets);
    for (uint32_t i = 0; i < SEQUENCE; i++)
        g_assert_cmpuint(MAX(tokens[i], targets[i]), ==, 0);
    expect_changed(data);
}

/* A disk that cannot read says so: what is missing is not taken for zeros, nor for a file that has
 * become shorter. Folders cannot be read as files, and neither can some files of Linux that say
 * that they have bytes. */
static void test_unreadable(struct fixture *fixture, const void *unused)
{
    (void)unused;
    static const char path[] = "/sys/class/net/lo/speed";
    write_counting_text(fixture->path, 100);
    struct file_pieces *file = file_pieces_open(fixture->path);
    int folder = open(fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    guint8 bytes[] = {1, 2, 3};
    file_pieces_read(file, 0, sizeof bytes, bytes);
    g_assert_null(file_pieces_problem(file));
    g_assert_cmpint(dup3(folder, file->descriptor, O_CLOEXEC), ==, file->descriptor);
    file_pieces_read(file, 0, sizeof bytes, bytes);
    g_assert_cmpmem(bytes, sizeof bytes, "\0\0", sizeof bytes);
    g_assert_cmpstr(file_pieces_problem(file), ==, g_strerror(EISDIR));
    file_pieces_close(file);
    close(folder);

    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    if (!g_file_test(path, G_FILE_TEST_EXISTS) || g_file_get_contents(path, &text, NULL, NULL)) {
        g_test_skip("no file here that cannot be read");
        return;
    }
    g_assert_null(data_open(path, &auto_options, &error));
    g_assert_error(error, DATA_ERROR, DATA_ERROR_IO);
}

#define ADD(path, function) \
    g_test_add("/data/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("sequential", test_sequential);
    ADD("random", test_random);
    ADD("micro-batches-differ", test_micro_batches_differ);
    ADD("held-out", test_held_out);
    ADD("no-held-out", test_no_held_out);
    ADD("entropy", test_entropy);
    ADD("token-file", test_token_file);
    ADD("bad-token-files", test_bad_token_files);
    ADD("wide-tokens", test_wide_tokens);
    ADD("text-of-other-tokens", test_text_of_other_tokens);
    ADD("other-formats", test_other_formats);
    ADD("bad-text", test_bad_text);
    ADD("digest", test_digest);
    ADD("changed", test_changed);
    ADD("unreadable", test_unreadable);
    return g_test_run();
}
