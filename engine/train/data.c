#include "engine/train/data.h"

#include "engine/random.h"
#include "engine/train/data_kind.h"
#include "traces/files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

G_DEFINE_QUARK(pstar_data_error, data_error)

#define TEXT_VOCABULARY  256
#define BIN_HEADER_BYTES (256 * sizeof(int32_t))
#define DATA_SITE        UINT32_MAX /* site of the random stream, which no operator and no tensor uses */

/* The file is read, not mapped: a map of a file that is cut off ends the program. */
struct data {
    char *path;
    int file;             /* its descriptor; -1 before it is open */
    uint64_t bytes;       /* when it was opened */
    gint *cut;            /* not 0 if a read has found fewer */
    uint64_t tokens_at;   /* the byte at which they begin */
    uint32_t token_bytes; /* 1, 2 or 4 */
    uint64_t tokens;      /* of the whole file */
    uint64_t training;    /* of the training share, which comes first in the file */
    struct data_options options;
};

static bool fail(const struct data *data, enum data_error code, GError **error, const char *format,
                 ...) G_GNUC_PRINTF(4, 5);
static bool fail(const struct data *data, enum data_error code, GError **error, const char *format,
                 ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, DATA_ERROR, code, "%s: %s", data->path, reason);
    g_free(reason);
    return false;
}

/* Reads bytes of the file; those that are not there any more become 0. */
static void fetch(const struct data *data, uint64_t at, size_t bytes, void *to)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(data->file, (uint8_t *)to + done, bytes - done, (off_t)(at + done));
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            break;
    }
    if (done == bytes)
        return;
    memset((uint8_t *)to + done, 0, bytes - done);
    g_atomic_int_set(data->cut, 1);
}

static bool open_file(struct data *data, GError **error)
{
    struct stat status;
    if (g_file_test(data->path, G_FILE_TEST_IS_DIR))
        return fail(data, DATA_ERROR_KIND, error, "is a folder; give one file of text or tokens");
    data->file = open(data->path, O_RDONLY | O_CLOEXEC);
    if (data->file < 0 || fstat(data->file, &status) != 0)
        return fail(data, DATA_ERROR_IO, error, "%s", g_strerror(errno));
    data->bytes = (uint64_t)status.st_size;
    return true;
}

static int32_t header_field(const struct data *data, size_t index)
{
    int32_t value;
    fetch(data, index * sizeof value, sizeof value, &value);
    return (int32_t)GINT32_FROM_LE(value);
}

/* Tokens that are read at once. */
enum { WINDOW_TOKENS = 1 << 18 };

static void read_window(const struct data *data, uint64_t first, size_t count, uint32_t *tokens)
{
    uint8_t *bytes = (uint8_t *)tokens;
    fetch(data, data->tokens_at + first * data->token_bytes, count * data->token_bytes, bytes);
    for (size_t i = count;
         i-- > 0;) { /* backwards, because a token takes more room than its bytes */
        uint32_t token = 0;
        memcpy(&token, bytes + i * data->token_bytes, data->token_bytes);
        tokens[i] = GUINT32_FROM_LE(token);
    }
}

static bool check_tokens(const struct data *data, uint64_t first, size_t count,
                         const uint32_t *tokens, GError **error)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= data->options.vocabulary)
            return fail(data, DATA_ERROR_TOKENS, error,
                        "token %" G_GUINT64_FORMAT " is %u, outside the model's vocabulary of %u",
                        first + i, tokens[i], data->options.vocabulary);
    return true;
}

static bool take_tokens(struct data *data, uint64_t begin, uint32_t token_bytes, GError **error)
{
    g_autofree uint32_t *tokens = g_new(uint32_t, WINDOW_TOKENS);
    data->tokens_at = begin;
    data->token_bytes = token_bytes;
    data->tokens = (data->bytes - begin) / token_bytes;
    if ((data->bytes - begin) % token_bytes)
        return fail(data, DATA_ERROR_INVALID, error,
                    "is not a whole number of tokens of %u bytes each", token_bytes);
    for (uint64_t first = 0; first < data->tokens; first += WINDOW_TOKENS) {
        size_t count = (size_t)MIN(WINDOW_TOKENS, data->tokens - first);
        read_window(data, first, count, tokens);
        if (!check_tokens(data, first, count, tokens, error))
            return false;
    }
    return data_check(data, error);
}

/* Reads a token file of llm.c. */
static bool read_headed(struct data *data, int32_t version, uint32_t token_bytes, GError **error)
{
    if (data->bytes < BIN_HEADER_BYTES)
        return fail(data, DATA_ERROR_INVALID, error, "the header of the token file is truncated");
    if (header_field(data, 1) != version) {
        return fail(data, DATA_ERROR_INVALID, error, "the token file has version %d; it must be %d",
                    header_field(data, 1), version);
    }
    int64_t declared = header_field(data, 2);
    uint64_t there = (data->bytes - BIN_HEADER_BYTES) / token_bytes;
    if (declared < 0 || (uint64_t)declared != there ||
        (data->bytes - BIN_HEADER_BYTES) % token_bytes != 0) {
        return fail(data, DATA_ERROR_INVALID, error,
                    "token file says that it holds %" G_GINT64_FORMAT
                    " tokens, but has %" G_GUINT64_FORMAT ": truncated or damaged",
                    declared, there);
    }
    return take_tokens(data, BIN_HEADER_BYTES, token_bytes, error);
}

static bool read_bytes(struct data *data, GError **error)
{
    if (data->options.vocabulary < TEXT_VOCABULARY) {
        return fail(data, DATA_ERROR_TOKENS, error,
                    "a text has %d distinct bytes, more than the model's vocabulary of %u",
                    TEXT_VOCABULARY, data->options.vocabulary);
    }
    return take_tokens(data, 0, 1, error);
}

/* Bytes are the tokens only of a model that has a token for each byte and no other. */
static bool read_text(struct data *data, GError **error)
{
    if (data->options.vocabulary <= TEXT_VOCABULARY)
        return read_bytes(data, error);
    g_autofree char *model = g_shell_quote(data->options.model ? data->options.model : "DIR");
    g_autofree char *text = g_shell_quote(data->path);
    return fail(
        data, DATA_ERROR_KIND, error,
        "is text, but the model's vocabulary of %u is not bytes. pstar-tokens --model %s %s "
        "-o tokens.bin makes a token file of it; --tokens bytes trains on its bytes instead",
        data->options.vocabulary, model, text);
}

/* Reads what the first bytes say. */
static bool recognise(struct data *data, const struct data_kind *kind, GError **error)
{
    switch (kind->form) {
    case DATA_FORM_GPT2:
        return read_headed(data, 1, sizeof(uint16_t), error);
    case DATA_FORM_LLAMA:
        return read_headed(data, 7, sizeof(uint32_t), error);
    case DATA_FORM_TEXT:
        return read_text(data, error);
    case DATA_FORM_JSON:
        return fail(data, DATA_ERROR_KIND, error,
                    "is JSON; write its texts to a text file first (for JSON lines: jq -r .text "
                    "FILE), or train on its bytes with --tokens bytes");
    case DATA_FORM_BINARY:
        return fail(data, DATA_ERROR_KIND, error,
                    "is no text; if it holds bare token numbers, as nanoGPT's .bin files do, give "
                    "--tokens uint16 (or uint32); --tokens bytes trains on its bytes");
    case DATA_FORM_OTHER:
        return fail(data, DATA_ERROR_KIND, error, "is %s; %s", kind->name, kind->advice);
    }
    g_assert_not_reached();
}

static bool read_tokens(struct data *data, GError **error)
{
    size_t looked = (size_t)MIN(data->bytes, DATA_KIND_BYTES);
    g_autofree uint8_t *head = g_malloc(looked + 1);
    fetch(data, 0, looked, head);
    const struct data_kind kind = data_kind_of(head, looked, data->bytes);
    bool headed = kind.form == DATA_FORM_GPT2 || kind.form == DATA_FORM_LLAMA;
    bool numbers = data->options.tokens == DATA_TOKENS_UINT16 ||
                   data->options.tokens == DATA_TOKENS_UINT32;
    bool believed = numbers && kind.doubtful; /* what the user says */
    if (data->options.tokens == DATA_TOKENS_AUTO || (kind.form == DATA_FORM_OTHER && !believed))
        return recognise(data, &kind, error);
    if (headed)
        return fail(data, DATA_ERROR_KIND, error,
                    "is %s, which says itself how it is read; leave out --tokens", kind.name);
    if (numbers && !believed && data->bytes && kind.form != DATA_FORM_BINARY)
        return fail(data, DATA_ERROR_KIND, error, "is %s, not bare numbers; leave out --tokens",
                    kind.name);
    switch ((enum data_tokens)data->options.tokens) {
    case DATA_TOKENS_UINT16:
        return take_tokens(data, 0, sizeof(uint16_t), error);
    case DATA_TOKENS_UINT32:
        return take_tokens(data, 0, sizeof(uint32_t), error);
    default:
        return read_bytes(data, error);
    }
}

static bool divide(struct data *data, GError **error)
{
    uint64_t least = (uint64_t)data->options.sequence + 1;
    uint64_t held_out = (uint64_t)((double)data->tokens * data->options.held_out);
    if (data->tokens < least) {
        return fail(data, DATA_ERROR_SHORT, error,
                    "holds %" G_GUINT64_FORMAT
                    " tokens; a sequence of %u and its last target need %" G_GUINT64_FORMAT,
                    data->tokens, data->options.sequence, least);
    }
    data->training = data->tokens - held_out;
    if (data->training < least || (data->options.held_out > 0 && held_out < least)) {
        return fail(data, DATA_ERROR_SHORT, error,
                    "holding out %g of %" G_GUINT64_FORMAT
                    " tokens leaves a share shorter than a sequence of %u and its last target",
                    data->options.held_out, data->tokens, data->options.sequence);
    }
    return true;
}

struct data *data_open(const char *path, const struct data_options *options, GError **error)
{
    g_assert(options->sequence > 0 && options->held_out >= 0 && options->held_out < 1);
    struct data *data = g_new0(struct data, 1);
    data->path = g_strdup(path);
    data->options = *options;
    data->file = -1;
    data->cut = g_new0(gint, 1);
    if (!input_file_check(path, error) || !open_file(data, error) || !read_tokens(data, error) ||
        !divide(data, error)) {
        data_close(data);
        return NULL;
    }
    return data;
}

void data_close(struct data *data)
{
    if (!data)
        return;
    if (data->file >= 0)
        close(data->file);
    g_free(data->cut);
    g_free(data->path);
    g_free(data);
}

uint64_t data_tokens(const struct data *data, enum data_share share)
{
    return share == DATA_TRAINING ? data->training : data->tokens - data->training;
}

bool data_check(const struct data *data, GError **error)
{
    struct stat now;
    if (!g_atomic_int_get(data->cut) && fstat(data->file, &now) == 0 &&
        (uint64_t)now.st_size >= data->bytes)
        return true; /* a file that is replaced or removed stays open */
    return fail(data, DATA_ERROR_IO, error, "has become shorter while it is read");
}

bool data_is_text(const struct data *data)
{
    return data->token_bytes == 1;
}

static void read_sequence(const struct data *data, uint64_t start, uint32_t *tokens,
                          uint32_t *targets)
{
    size_t count = data->options.sequence;
    g_autofree uint32_t *read = g_new(uint32_t, count + 1);
    read_window(data, start, count + 1, read);
    memcpy(tokens, read, count * sizeof *read);
    memcpy(targets, read + 1, count * sizeof *read);
}

uint64_t data_sequences(const struct data *data, enum data_share share)
{
    uint64_t tokens = data_tokens(data, share);
    return tokens > 0 ? (tokens - 1) / data->options.sequence : 0;
}

void data_read(const struct data *data, enum data_share share, uint64_t first, uint32_t count,
               uint32_t *tokens, uint32_t *targets)
{
    g_assert(first + count <= data_sequences(data, share));
    uint64_t begin = share == DATA_TRAINING ? 0 : data->training;
    for (uint64_t row = 0; row < count; row++) {
        uint64_t offset = row * data->options.sequence;
        read_sequence(data, begin + first * data->options.sequence + offset, tokens + offset,
                      targets + offset);
    }
}

/* Returns the token at which a row of a micro-batch starts. */
static uint64_t draw_start(const struct data *data, uint64_t step, uint32_t micro_batch,
                           uint32_t micro_batches, uint32_t batch, uint32_t row)
{
    uint32_t sequence = data->options.sequence;
    if (data->options.order == DATA_SEQUENTIAL) {
        uint64_t index = (step * micro_batches + micro_batch) * batch + row;
        return index % data_sequences(data, DATA_TRAINING) * sequence;
    }
    uint64_t starts = data->training - sequence; /* a row and its last target fit behind each */
    struct random_stream stream = {.seed = data->options.seed,
                                   .pass = (uint32_t)(step * micro_batches + micro_batch),
                                   .site = DATA_SITE};
    uint64_t drawn = (uint64_t)random_word(&stream, UINT64_C(2) * row) << 32 |
                     random_word(&stream, UINT64_C(2) * row + 1);
    return drawn % starts;
}

void data_batch(const struct data *data, uint64_t step, uint32_t micro_batch,
                uint32_t micro_batches, uint32_t batch, uint32_t *tokens, uint32_t *targets)
{
    for (uint32_t row = 0; row < batch; row++) {
        uint64_t start = draw_start(data, step, micro_batch, micro_batches, batch, row);
        uint64_t offset = (uint64_t)row * data->options.sequence;
        read_sequence(data, start, tokens + offset, targets + offset);
    }
}

double data_unigram_entropy(const struct data *data)
{
    uint64_t *times = g_new0(uint64_t, data->options.vocabulary);
    g_autofree uint32_t *tokens = g_new(uint32_t, WINDOW_TOKENS);
    for (uint64_t first = 0; first < data->training; first += WINDOW_TOKENS) {
        size_t count = (size_t)MIN(WINDOW_TOKENS, data->training - first);
        read_window(data, first, count, tokens);
        for (size_t i = 0; i < count; i++)
            times[MIN(tokens[i], data->options.vocabulary - 1)]++; /* it may have been rewritten */
    }
    double entropy = 0;
    for (size_t value = 0; value < data->options.vocabulary; value++) {
        if (times[value] > 0) {
            double share = (double)times[value] / (double)data->training;
            entropy -= share * log(share);
        }
    }
    g_free(times);
    return entropy;
}

char *data_digest(const struct data *data)
{
    const uint64_t samples = 64, sample_bytes = 64 << 10;
    uint64_t bytes = data->bytes;
    uint8_t *sample = g_malloc(sample_bytes);
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(sum, (const guchar *)&bytes, sizeof(bytes));
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t start = bytes / samples * i;
        uint64_t length = MIN(sample_bytes, bytes - start);
        fetch(data, start, length, sample);
        g_checksum_update(sum, sample, (gssize)length);
    }
    g_free(sample);
    char *digest = g_strdup(g_checksum_get_string(sum));
    g_checksum_free(sum);
    return digest;
}
