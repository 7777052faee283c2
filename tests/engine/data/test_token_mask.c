/* Masks beside files of tokens: which targets count, how many a step has, and what is refused. */
#include "engine/kernels.h"
#include "engine/train/data.h"
#include "engine/train/token_mask.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEQUENCE = 5, BATCH = 2, TOKENS = 203, MICRO_BATCHES = 3 };

struct fixture {
    char *folder, *path, *mask;
    GRand *random;
    bool counts[TOKENS];
};

static void set_up(struct fixture *f, const void *unused)
{
    (void)unused;
    guint32 seed = (guint32)g_test_rand_int();
    g_test_message("seed %u", seed);
    f->folder = g_dir_make_tmp("mask-XXXXXX", NULL);
    f->path = g_build_filename(f->folder, "tokens.bin", NULL);
    f->mask = token_mask_path(f->path);
    f->random = g_rand_new_with_seed(seed);
    for (int i = 0; i < TOKENS; i++)
        f->counts[i] = g_rand_boolean(f->random);
    f->counts[0] = f->counts[7] = f->counts[TOKENS - 1] = true;
    f->counts[8] = false;
}

static void tear_down(struct fixture *f, const void *unused)
{
    (void)unused;
    g_unlink(f->path);
    g_unlink(f->mask);
    g_rmdir(f->folder);
    g_rand_free(f->random);
    g_free(f->path);
    g_free(f->mask);
    g_free(f->folder);
}

/* The slow and obvious CRC-32. */
static uint32_t crc_of(const uint8_t *bytes, size_t count)
{
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < 8 * count; i++) {
        uint32_t bit = (bytes[i / 8] >> i % 8 & 1) ^ (sum & 1);
        sum = sum >> 1 ^ (bit ? 0xedb88320 : 0);
    }
    return ~sum;
}

static void write_file(const char *path, const void *header, const void *body, size_t bytes)
{
    GByteArray *file = g_byte_array_new();
    g_byte_array_append(file, header, 1024);
    g_byte_array_append(file, body, (guint)bytes);
    g_assert_true(g_file_set_contents(path, (const char *)file->data, file->len, NULL));
    g_byte_array_free(file, TRUE);
}

/* Token i is i; returns the mask's CRC. */
static uint32_t write_mask(const struct fixture *f, uint32_t declared, uint8_t spare)
{
    uint8_t bits[(TOKENS + 7) / 8] = {0};
    for (int i = 0; i < TOKENS; i++)
        bits[i / 8] |= (uint8_t)(f->counts[i] << i % 8);
    bits[sizeof bits - 1] |= spare;
    const uint32_t header[256] = {20261125, 1, declared, 0, crc_of(bits, sizeof bits)};
    write_file(f->mask, header, bits, sizeof bits);
    return header[4];
}

static void write_tokens(const struct fixture *f, uint32_t masked, uint32_t sum)
{
    uint16_t tokens[TOKENS];
    const uint32_t header[256] = {20240520, 1, TOKENS, masked, sum};
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (uint16_t)i;
    write_file(f->path, header, tokens, sizeof tokens);
}

static const struct data_options options = {.vocabulary = 256, .sequence = SEQUENCE, .seed = 3};

static struct data *open_data(const struct fixture *f, enum data_order order, double held_out)
{
    GError *error = NULL;
    struct data_options with = options;
    with.order = order;
    with.held_out = held_out;
    struct data *data = data_open(f->path, &with, &error);
    g_assert_no_error(error);
    return data;
}

/* A token says where it stands, so a target says whether its bit is set. */
static uint64_t check_targets(const struct fixture *f, const uint32_t *tokens,
                              const uint32_t *targets, uint32_t count)
{
    uint64_t counted = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = tokens[i] + 1;
        g_assert_cmpuint(targets[i], ==, f->counts[next] ? next : KERNEL_NO_TARGET);
        counted += f->counts[next];
    }
    return counted;
}

static void steps(struct fixture *f, const void *order)
{
    write_tokens(f, 1, write_mask(f, TOKENS, 0));
    struct data *data = open_data(f, GPOINTER_TO_UINT(order), 0);
    g_assert_true(data_has_mask(data));
    for (uint64_t step = 0; step < 30; step++) {
        uint64_t counted = 0;
        for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
            uint32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
            data_batch(data, step, m, MICRO_BATCHES, BATCH, tokens, targets);
            counted += check_targets(f, tokens, targets, BATCH * SEQUENCE);
        }
        g_assert_cmpuint(data_step_targets(data, step, MICRO_BATCHES, BATCH), ==, counted);
    }
    g_assert_true(data_check(data, NULL));
    data_close(data);
}

/* Tokens that do not say that they have a mask may have one. Without one, all count. */
static void shares(struct fixture *f, const void *unused)
{
    (void)unused;
    write_tokens(f, 0, 0);
    struct data *data = open_data(f, DATA_RANDOM, 0.25);
    uint64_t training = data_tokens(data, DATA_TRAINING), counted[DATA_SHARES] = {0};
    g_autofree char *digest = data_digest(data);
    g_assert_false(data_has_mask(data));
    g_assert_cmpuint(data_targets(data, DATA_TRAINING), ==, training - 1);
    g_assert_cmpuint(data_step_targets(data, 0, MICRO_BATCHES, BATCH), ==,
                     MICRO_BATCHES * BATCH * SEQUENCE);
    data_close(data);

    write_mask(f, TOKENS, 0);
    data = open_data(f, DATA_RANDOM, 0.25);
    g_autofree char *masked = data_digest(data);
    g_assert_cmpstr(masked, !=, digest);
    for (uint64_t i = 1; i < TOKENS; i++)
        if (i != training)
            counted[i < training ? DATA_TRAINING : DATA_HELD_OUT] += f->counts[i];
    for (enum data_share share = 0; share < DATA_SHARES; share++)
        g_assert_cmpuint(data_targets(data, share), ==, counted[share]);
    /* All tokens differ, and the first one counts. */
    g_assert_cmpfloat_with_epsilon(data_unigram_entropy(data),
                                   log((double)counted[DATA_TRAINING] + 1), 1e-12);
    uint32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    data_read(data, DATA_HELD_OUT, 2, BATCH, tokens, targets);
    check_targets(f, tokens, targets, BATCH * SEQUENCE);
    data_close(data);
}

static void refuse(const struct fixture *f, double held_out, const char *reason)
{
    GError *error = NULL;
    struct data_options with = options;
    with.held_out = held_out;
    g_assert_null(data_open(f->path, &with, &error));
    g_assert_true(g_str_has_prefix(error->message, f->path));
    if (!strstr(error->message, reason))
        g_error("\"%s\" does not say \"%s\"", error->message, reason);
    g_error_free(error);
}

/* Changes a byte, or cuts the file there. */
static void damage(const char *path, gsize at, bool cut)
{
    char *bytes;
    gsize count;
    g_assert_true(g_file_get_contents(path, &bytes, &count, NULL));
    bytes[at] = (char)(bytes[at] ^ 4);
    g_assert_true(g_file_set_contents(path, bytes, (gssize)(cut ? at : count), NULL));
    g_free(bytes);
}

static void refusals(struct fixture *f, const void *unused)
{
    (void)unused;
    uint32_t sum = write_mask(f, TOKENS, 0);
    write_tokens(f, 1, sum + 1);
    refuse(f, 0, "tokens.bin.mask is not the mask that was written with these tokens");
    write_tokens(f, 1, sum);
    g_unlink(f->mask);
    refuse(f, 0, "its mask, which says what counts in the loss, is missing");
    write_mask(f, TOKENS + 1, 0);
    refuse(f, 0, "is the mask of 204 tokens, but the file beside it holds 203");
    write_mask(f, TOKENS, 0x80);
    refuse(f, 0, "the mask is damaged: it has bits behind the last token");
    static const struct {
        gsize at;
        bool cut;
        const char *reason;
    } damages[] = {{1, false, "is no mask of tokens"},
                   {4, false, "has version 5; it must be 1"},
                   {12, false, "is the mask of 17179869387 tokens"},
                   {16, false, "its checksum differs"},
                   {1030, false, "its checksum differs"},
                   {1023, true, "the header of the mask is truncated"},
                   {1030, true, "has 1050 bytes, not 1030: truncated or damaged"}};
    for (size_t i = 0; i < G_N_ELEMENTS(damages); i++) {
        write_mask(f, TOKENS, 0);
        damage(f->mask, damages[i].at, damages[i].cut);
        refuse(f, 0, damages[i].reason);
    }
    memset(f->counts, false, TOKENS - 20);
    write_tokens(f, 1, write_mask(f, TOKENS, 0));
    refuse(f, 0.2, "none of the tokens that are trained on counts in the loss");
    memset(f->counts, true, TOKENS - 60);
    memset(f->counts + TOKENS - 60, false, 60);
    write_tokens(f, 1, write_mask(f, TOKENS, 0));
    refuse(f, 0.2, "none of the tokens that are held out counts in the loss");
}

/* A mask that becomes shorter is found, as tokens that do are. */
static void cut(struct fixture *f, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    write_tokens(f, 1, write_mask(f, TOKENS, 0));
    struct data *data = open_data(f, DATA_RANDOM, 0);
    FILE *file = fopen(f->mask, "r+b");
    g_assert_cmpint(ftruncate(fileno(file), 1025), ==, 0);
    fclose(file);
    g_assert_false(data_check(data, &error));
    g_assert_nonnull(strstr(error->message, "its mask has become shorter while it is read"));
    g_error_free(error);
    data_close(data);
}

/* A mask that is written is another one if its bits are others. */
static void change(struct fixture *f, const void *unused)
{
    (void)unused;
    g_autoptr(GError) error = NULL;
    g_autofree char *bits = NULL;
    gsize bytes;
    const struct timespec times[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    write_tokens(f, 1, write_mask(f, TOKENS, 0));
    g_assert_true(g_file_get_contents(f->mask, &bits, &bytes, NULL));
    struct data *data = open_data(f, DATA_RANDOM, 0);
    FILE *file = fopen(f->mask, "r+b");
    g_assert_cmpint(futimens(fileno(file), times), ==, 0);
    g_assert_true(data_check(data, NULL));
    g_assert_cmpint(fseek(file, (long)bytes - 1, SEEK_SET), ==, 0);
    g_assert_cmpint(fputc(bits[bytes - 1] ^ 1, file), !=, EOF);
    fclose(file);
    g_assert_false(data_check(data, &error));
    g_assert_nonnull(strstr(error->message, "its mask has been changed while it is read"));
    data_close(data);
}

static void add(const char *path, const void *argument,
                void (*test)(struct fixture *, const void *))
{
    g_test_add(path, struct fixture, argument, set_up, test, tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add("/token_mask/random", GUINT_TO_POINTER(DATA_RANDOM), steps);
    add("/token_mask/sequential", GUINT_TO_POINTER(DATA_SEQUENTIAL), steps);
    add("/token_mask/shares", NULL, shares);
    add("/token_mask/refusals", NULL, refusals);
    add("/token_mask/cut", NULL, cut);
    add("/token_mask/change", NULL, change);
    return g_test_run();
}
