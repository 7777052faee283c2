#include "engine/train/data.h"

#include "base/files.h"
#include "engine/kernels.h"
#include "engine/random.h"
#include "engine/train/data_kind.h"
#include "engine/train/file_pieces.h"
#include "engine/train/token_array.h"
#include "engine/train/token_mask.h"

#include <errno.h>
#include <math.h>
#include <string.h>

G_DEFINE_QUARK(pstar_data_error, data_error)

#define TEXT_VOCABULARY 256
#define DATA_SITE       UINT32_MAX /* site of the random stream, which no operator and no tensor uses */

struct data {
    char *path;
    struct file_pieces *file; /* that holds the tokens; NULL before it is open */
    struct token_array tokens;
    struct token_mask *mask; /* NULL if all tokens count */
    uint64_t training;       /* tokens of the training share, which come first in the file */
    bool text;               /* tokens are the bytes of a text */
    char *digest;            /* of what the file had when it was opened; NULL before that */
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

static bool open_file(struct data *data, const char *path, GError **error)
{
    data->file = file_pieces_open(path);
    return data->file || fail(data, DATA_ERROR_IO, error, "%s%s%s", path == data->path ? "" : path,
                              path == data->path ? "" : ": ", g_strerror(errno));
}

/* Tokens that are read at once. */
enum { WINDOW_TOKENS = 1 << 18 };

/* Returns a token as the file has it. */
static int64_t decode(const struct token_array *array, const uint8_t *bytes)
{
    uint64_t word = 0;
    memcpy(&word, bytes, array->bytes);
    word = GUINT64_FROM_LE(word);
    if (!array->is_signed)
        return (int64_t)word;
    uint64_t sign = UINT64_C(1) << (8 * array->bytes - 1);
    return (int64_t)((word ^ sign) - sign);
}

/* A number that is no token becomes UINT32_MAX, which is outside every vocabulary. */
static void read_window(const struct data *data, uint64_t first, size_t count, uint32_t *tokens)
{
    const struct token_array *array = &data->tokens;
    g_autofree uint8_t *bytes = g_malloc(count * array->bytes);
    file_pieces_read(data->file, array->at + first * array->bytes, count * array->bytes, bytes);
    for (size_t i = 0; i < count; i++) {
        int64_t token = decode(array, bytes + i * array->bytes);
        tokens[i] = token < 0 || token > UINT32_MAX ? UINT32_MAX : (uint32_t)token;
    }
}

static bool refuse_token(const struct data *data, uint64_t place, GError **error)
{
    const struct token_array *array = &data->tokens;
    uint8_t bytes[sizeof(uint64_t)];
    file_pieces_read(data->file, array->at + place * array->bytes, array->bytes, bytes);
    return fail(data, DATA_ERROR_TOKENS, error,
                "token %" G_GUINT64_FORMAT " is %" G_GINT64_FORMAT
                ", outside the model's vocabulary of %u",
                place, decode(array, bytes), data->options.vocabulary);
}

static bool check_tokens(const struct data *data, GError **error)
{
    g_autofree uint32_t *tokens = g_new(uint32_t, WINDOW_TOKENS);
    for (uint64_t first = 0; first < data->tokens.count; first += WINDOW_TOKENS) {
        size_t count = (size_t)MIN(WINDOW_TOKENS, data->tokens.count - first);
        read_window(data, first, count, tokens);
        for (size_t i = 0; i < count; i++)
            if (tokens[i] >= data->options.vocabulary)
                return refuse_token(data, first + i, error);
    }
    return data_check(data, error);
}

/* The file holds nothing but tokens. */
static bool read_bare(struct data *data, uint8_t token_bytes, GError **error)
{
    data->tokens = (struct token_array){.count = data->file->bytes / token_bytes,
                                        .bytes = token_bytes};
    if (data->file->bytes % token_bytes)
        return fail(data, DATA_ERROR_INVALID, error,
                    "is not a whole number of tokens of %u bytes each", token_bytes);
    return check_tokens(data, error);
}

/* Opens the .bin file beside the index, which takes the index's place. */
static bool read_megatron(struct data *data, GError **error)
{
    static const char ending[] = ".idx";
    if (!g_str_has_suffix(data->path, ending))
        return fail(data, DATA_ERROR_KIND, error,
                    "is the index of a Megatron data set; its name must end with .idx, because its "
                    "tokens lie beside it in a file whose name ends with .bin");
    g_autofree char *tokens =
        g_strdup_printf("%.*s.bin", (int)(strlen(data->path) - strlen(ending)), data->path);
    struct file_pieces *index = g_steal_pointer(&data->file);
    bool ok = input_file_check(tokens, error) && open_file(data, tokens, error) &&
              token_array_read_index(index->descriptor, index->bytes, data->file->bytes,
                                     &data->tokens, error);
    file_pieces_close(index);
    return ok;
}

/* Reads a file that says itself how its tokens are stored. */
static bool read_headed(struct data *data, enum data_form form, GError **error)
{
    const struct file_pieces *file = data->file;
    GError *fault = NULL;
    bool ok;
    if (form == DATA_FORM_MEGATRON)
        ok = read_megatron(data, &fault);
    else if (form == DATA_FORM_NPY)
        ok = token_array_read_npy(file->descriptor, file->bytes, &data->tokens, &fault);
    else if (form == DATA_FORM_LLAMA)
        ok = token_array_read_llmc(file->descriptor, file->bytes, 7, sizeof(uint32_t),
                                   &data->tokens, &fault);
    else
        ok = token_array_read_llmc(file->descriptor, file->bytes, 1, sizeof(uint16_t),
                                   &data->tokens, &fault);
    if (ok)
        return check_tokens(data, error);
    if (!g_str_has_prefix(fault->message, data->path))
        g_prefix_error(&fault, "%s: ", data->path);
    g_propagate_error(error, fault);
    return false;
}

static bool read_bytes(struct data *data, GError **error)
{
    if (data->options.vocabulary < TEXT_VOCABULARY) {
        return fail(data, DATA_ERROR_TOKENS, error,
                    "a text has %d distinct bytes, more than the model's vocabulary of %u",
                    TEXT_VOCABULARY, data->options.vocabulary);
    }
    data->text = true;
    return read_bare(data, 1, error);
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
    case DATA_FORM_LLAMA:
    case DATA_FORM_NPY:
    case DATA_FORM_MEGATRON:
        return read_headed(data, kind->form, error);
    case DATA_FORM_TEXT:
        return read_text(data, error);
    case DATA_FORM_JSON:
        return fail(data, DATA_ERROR_KIND, error,
                    "is JSON; of JSON lines, pstar-tokenize --model DIR --field text FILE.jsonl -o "
                    "tokens.bin makes a token file; --tokens bytes trains on its bytes instead");
    case DATA_FORM_BINARY:
        return fail(data, DATA_ERROR_KIND, error,
                    "is no text; if it holds bare token numbers, as nanoGPT's .bin files do, give "
                    "--tokens uint16 (or uint32); of a Megatron data set give the .idx file; "
                    "--tokens bytes trains on its bytes");
    case DATA_FORM_OTHER:
        return fail(data, DATA_ERROR_KIND, error, "is %s; %s", kind->name, kind->advice);
    }
    g_assert_not_reached();
}

static bool read_tokens(struct data *data, GError **error)
{
    size_t looked = (size_t)MIN(data->file->bytes, DATA_KIND_BYTES);
    g_autofree uint8_t *head = g_malloc(looked + 1);
    file_pieces_read(data->file, 0, looked, head);
    if (!data_check(data, error))
        return false;
    const struct data_kind kind = data_kind_of(head, looked, data->file->bytes);
    bool headed = kind.form == DATA_FORM_GPT2 || kind.form == DATA_FORM_LLAMA ||
                  kind.form == DATA_FORM_NPY || kind.form == DATA_FORM_MEGATRON;
    bool numbers = data->options.tokens == DATA_TOKENS_UINT16 ||
                   data->options.tokens == DATA_TOKENS_UINT32;
    bool believed = numbers && kind.doubtful; /* what the user says */
    if (data->options.tokens == DATA_TOKENS_AUTO || (kind.form == DATA_FORM_OTHER && !believed))
        return recognise(data, &kind, error);
    if (headed)
        return fail(data, DATA_ERROR_KIND, error,
                    "is %s, which says itself how it is read; leave out --tokens", kind.name);
    if (numbers && !believed && data->file->bytes && kind.form != DATA_FORM_BINARY)
        return fail(data, DATA_ERROR_KIND, error, "is %s, not bare numbers; leave out --tokens",
                    kind.name);
    switch ((enum data_tokens)data->options.tokens) {
    case DATA_TOKENS_UINT16:
        return read_bare(data, sizeof(uint16_t), error);
    case DATA_TOKENS_UINT32:
        return read_bare(data, sizeof(uint32_t), error);
    default:
        return read_bytes(data, error);
    }
}

static bool divide(struct data *data, GError **error)
{
    uint64_t least = (uint64_t)data->options.sequence + 1;
    uint64_t held_out = (uint64_t)((double)data->tokens.count * data->options.held_out);
    if (data->tokens.count < least) {
        return fail(data, DATA_ERROR_SHORT, error,
                    "holds %" G_GUINT64_FORMAT
                    " tokens; a sequence of %u and its last target need %" G_GUINT64_FORMAT,
                    data->tokens.count, data->options.sequence, least);
    }
    data->training = data->tokens.count - held_out;
    if (data->training < least || (data->options.held_out > 0 && held_out < least)) {
        return fail(data, DATA_ERROR_SHORT, error,
                    "holding out %g of %" G_GUINT64_FORMAT
                    " tokens leaves a share shorter than a sequence of %u and its last target",
                    data->options.held_out, data->tokens.count, data->options.sequence);
    }
    return true;
}

/* ---- which tokens count ---- */

/* A file that says that it has a mask must not be read without it. */
static bool open_mask(struct data *data, GError **error)
{
    g_autofree char *path = token_mask_path(data->path);
    const struct token_array *tokens = &data->tokens;
    if (!g_file_test(path, G_FILE_TEST_EXISTS))
        return !tokens->masked ||
               fail(data, DATA_ERROR_MASK, error,
                    "its mask, which says what counts in the loss, is missing: %s", path);
    data->mask = token_mask_open(path, tokens->count, error);
    if (!data->mask)
        return false;
    if (tokens->masked && tokens->mask_sum != token_mask_sum(data->mask))
        return fail(data, DATA_ERROR_MASK, error,
                    "%s is not the mask that was written with these tokens", path);
    return true;
}

static bool check_targets(const struct data *data, GError **error)
{
    static const char *const names[] = {"trained on", "held out"};
    for (enum data_share share = 0; share < DATA_SHARES; share++)
        if (data_sequences(data, share) > 0 && data_targets(data, share) == 0)
            return fail(data, DATA_ERROR_MASK, error,
                        "by its mask none of the tokens that are %s counts in the loss",
                        names[share]);
    return true;
}

bool data_has_mask(const struct data *data)
{
    return data->mask != NULL;
}

uint64_t data_targets(const struct data *data, enum data_share share)
{
    uint64_t tokens = data_tokens(data, share);
    uint64_t first = share == DATA_TRAINING ? 0 : data->training;
    if (tokens == 0)
        return 0;
    return data->mask ? token_mask_count(data->mask, first + 1, tokens - 1) : tokens - 1;
}

static char *compute_digest(const struct data *data)
{
    const uint64_t samples = 64, sample_bytes = 64 << 10;
    uint64_t bytes = data->file->bytes;
    uint8_t *sample = g_malloc(sample_bytes);
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(sum, (const guchar *)&bytes, sizeof(bytes));
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t start = bytes / samples * i;
        uint64_t length = MIN(sample_bytes, bytes - start);
        file_pieces_read(data->file, start, length, sample);
        g_checksum_update(sum, sample, (gssize)length);
    }
    g_free(sample);
    uint32_t mask = data->mask ? token_mask_sum(data->mask) : 0;
    if (data->mask)
        g_checksum_update(sum, (const guchar *)&mask, sizeof mask);
    char *digest = g_strdup(g_checksum_get_string(sum));
    g_checksum_free(sum);
    return digest;
}

struct data *data_open(const char *path, const struct data_options *options, GError **error)
{
    g_assert(options->sequence > 0 && options->held_out >= 0 && options->held_out < 1);
    struct data *data = g_new0(struct data, 1);
    data->path = g_strdup(path);
    data->options = *options;
    bool opened = g_file_test(path, G_FILE_TEST_IS_DIR)
                      ? fail(data, DATA_ERROR_KIND, error,
                             "is a folder; give one file of text or tokens")
                      : input_file_check(path, error) && open_file(data, data->path, error);
    if (!opened || !read_tokens(data, error) || !divide(data, error) || !open_mask(data, error) ||
        !check_targets(data, error)) {
        data_close(data);
        return NULL;
    }
    data->digest = compute_digest(data);
    return data;
}

void data_close(struct data *data)
{
    if (!data)
        return;
    file_pieces_close(data->file);
    token_mask_close(data->mask);
    g_free(data->path);
    g_free(data->digest);
    g_free(data);
}

uint64_t data_tokens(const struct data *data, enum data_share share)
{
    return share == DATA_TRAINING ? data->training : data->tokens.count - data->training;
}

/* Samples are compared, because a file may be written without a change, or grow. */
static void look_for_changes(const struct data *data)
{
    if (!data->digest || !file_pieces_is_written(data->file))
        return;
    g_autofree char *now = compute_digest(data);
    if (strcmp(now, data->digest) != 0)
        file_pieces_spoil(data->file);
}

bool data_check(const struct data *data, GError **error)
{
    const char *problem = file_pieces_problem(data->file);
    const char *of_mask = data->mask ? token_mask_problem(data->mask) : NULL;
    if (!problem) {
        look_for_changes(data);
        problem = file_pieces_problem(data->file);
    }
    if (problem)
        return fail(data, DATA_ERROR_IO, error, "%s", problem);
    return !of_mask || fail(data, DATA_ERROR_IO, error, "its mask %s", of_mask);
}

bool data_is_text(const struct data *data)
{
    return data->text;
}

static void read_sequence(const struct data *data, uint64_t start, uint32_t *tokens,
                          uint32_t *targets)
{
    size_t count = data->options.sequence;
    g_autofree uint32_t *read = g_new(uint32_t, count + 1);
    read_window(data, start, count + 1, read);
    for (size_t i = 0; i <= count; i++)
        if (read[i] >= data->options.vocabulary) { /* all were below when the file was opened */
            read[i] = 0;
            file_pieces_spoil(data->file);
        }
    memcpy(tokens, read, count * sizeof *read);
    memcpy(targets, read + 1, count * sizeof *read);
    if (!data->mask)
        return;
    g_autofree bool *counts = g_new(bool, count);
    token_mask_read(data->mask, start + 1, count, counts);
    for (size_t i = 0; i < count; i++)
        if (!counts[i])
            targets[i] = KERNEL_NO_TARGET;
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

uint64_t data_step_targets(const struct data *data, uint64_t step, uint32_t micro_batches,
                           uint32_t batch)
{
    uint64_t targets = 0;
    if (!data->mask)
        return (uint64_t)micro_batches * batch * data->options.sequence;
    for (uint32_t m = 0; m < micro_batches; m++)
        for (uint32_t row = 0; row < batch; row++) {
            uint64_t start = draw_start(data, step, m, micro_batches, batch, row);
            targets += token_mask_count(data->mask, start + 1, data->options.sequence);
        }
    return targets;
}

double data_unigram_entropy(const struct data *data)
{
    uint64_t *times = g_new0(uint64_t, data->options.vocabulary);
    g_autofree uint32_t *tokens = g_new(uint32_t, WINDOW_TOKENS);
    g_autofree bool *counts = g_new(bool, WINDOW_TOKENS);
    uint64_t counted = 0;
    for (uint64_t first = 0; first < data->training; first += WINDOW_TOKENS) {
        size_t count = (size_t)MIN(WINDOW_TOKENS, data->training - first);
        read_window(data, first, count, tokens);
        memset(counts, true, count * sizeof *counts);
        if (data->mask)
            token_mask_read(data->mask, first, count, counts);
        for (size_t i = 0; i < count; i++) { /* a token may have been rewritten */
            times[MIN(tokens[i], data->options.vocabulary - 1)] += counts[i];
            counted += counts[i];
        }
    }
    double entropy = 0;
    for (size_t value = 0; value < data->options.vocabulary; value++) {
        if (times[value] > 0) {
            double share = (double)times[value] / (double)counted;
            entropy -= share * log(share);
        }
    }
    g_free(times);
    return entropy;
}

char *data_digest(const struct data *data)
{
    return g_strdup(data->digest);
}
