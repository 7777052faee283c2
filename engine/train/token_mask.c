#include "engine/train/token_mask.h"

#include "base/files.h"
#include "engine/train/data.h"
#include "engine/train/file_pieces.h"

#include <errno.h>
#include <zlib.h>

enum { MAGIC = 20261125, VERSION = 1, HEADER_BYTES = 256 * 4, WINDOW_BYTES = 1 << 16 };

struct token_mask {
    char *path;
    struct file_pieces *file;
    uint64_t tokens;
    uint32_t sum;
};

static bool fail(const struct token_mask *mask, enum data_error code, GError **error,
                 const char *format, ...) G_GNUC_PRINTF(4, 5);
static bool fail(const struct token_mask *mask, enum data_error code, GError **error,
                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, DATA_ERROR, code, "%s: %s", mask->path, reason);
    return false;
}

/* ---- the checksum ---- */

/* Returns the CRC-32 of the bits. *last becomes the last byte. */
static uint32_t sum_bits(const struct token_mask *mask, uint8_t *last)
{
    uLong sum = 0;
    g_autofree uint8_t *window = g_malloc(WINDOW_BYTES);
    for (uint64_t at = HEADER_BYTES; at < mask->file->bytes; at += WINDOW_BYTES) {
        size_t bytes = (size_t)MIN(WINDOW_BYTES, mask->file->bytes - at);
        file_pieces_read(mask->file, at, bytes, window);
        sum = crc32_z(sum, window, bytes);
        *last = window[bytes - 1];
    }
    return (uint32_t)sum;
}

/* ---- opening ---- */

static bool read_header(struct token_mask *mask, GError **error)
{
    uint32_t header[5];
    if (mask->file->bytes < HEADER_BYTES)
        return fail(mask, DATA_ERROR_INVALID, error, "the header of the mask is truncated");
    file_pieces_read(mask->file, 0, sizeof header, header);
    for (size_t i = 0; i < G_N_ELEMENTS(header); i++)
        header[i] = GUINT32_FROM_LE(header[i]);
    uint64_t tokens = (uint64_t)header[3] << 32 | header[2];
    if (header[0] != MAGIC)
        return fail(mask, DATA_ERROR_KIND, error,
                    "is no mask of tokens; its first number must be %d", MAGIC);
    if (header[1] != VERSION)
        return fail(mask, DATA_ERROR_INVALID, error, "the mask has version %u; it must be %d",
                    header[1], VERSION);
    if (tokens != mask->tokens)
        return fail(mask, DATA_ERROR_INVALID, error,
                    "is the mask of %" G_GUINT64_FORMAT
                    " tokens, but the file beside it holds %" G_GUINT64_FORMAT,
                    tokens, mask->tokens);
    mask->sum = header[4];
    return true;
}

static bool check_bits(const struct token_mask *mask, GError **error)
{
    uint8_t last = 0;
    uint64_t bytes = mask->tokens / 8 + (mask->tokens % 8 > 0);
    if (mask->file->bytes - HEADER_BYTES != bytes)
        return fail(mask, DATA_ERROR_INVALID, error,
                    "a mask of %" G_GUINT64_FORMAT " tokens has %" G_GUINT64_FORMAT
                    " bytes, not %" G_GUINT64_FORMAT ": truncated or damaged",
                    mask->tokens, HEADER_BYTES + bytes, mask->file->bytes);
    uint32_t sum = sum_bits(mask, &last);
    bool spare = mask->tokens % 8 && last >> mask->tokens % 8;
    if (sum != mask->sum || spare)
        return fail(mask, DATA_ERROR_INVALID, error, "the mask is damaged: %s",
                    spare ? "it has bits behind the last token" : "its checksum differs");
    return true;
}

char *token_mask_path(const char *tokens)
{
    return g_strconcat(tokens, ".mask", NULL);
}

struct token_mask *token_mask_open(const char *path, uint64_t tokens, GError **error)
{
    struct token_mask *mask = g_new0(struct token_mask, 1);
    mask->path = g_strdup(path);
    mask->tokens = tokens;
    bool ok = input_file_check(path, error) &&
              ((mask->file = file_pieces_open(path)) ||
               fail(mask, DATA_ERROR_IO, error, "%s", g_strerror(errno)));
    if (ok && read_header(mask, error) && check_bits(mask, error))
        return mask;
    token_mask_close(mask);
    return NULL;
}

void token_mask_close(struct token_mask *mask)
{
    if (!mask)
        return;
    file_pieces_close(mask->file);
    g_free(mask->path);
    g_free(mask);
}

uint32_t token_mask_sum(const struct token_mask *mask)
{
    return mask->sum;
}

void token_mask_read(const struct token_mask *mask, uint64_t first, size_t count, bool *counts)
{
    size_t bytes = (size_t)((first + count + 7) / 8 - first / 8);
    g_autofree uint8_t *bits = g_malloc(bytes);
    file_pieces_read(mask->file, HEADER_BYTES + first / 8, bytes, bits);
    for (size_t i = 0; i < count; i++)
        counts[i] = bits[(first % 8 + i) / 8] >> (first + i) % 8 & 1;
}

uint64_t token_mask_count(const struct token_mask *mask, uint64_t first, uint64_t count)
{
    enum { MOST = 8 * WINDOW_BYTES };
    uint64_t counted = 0;
    g_autofree bool *counts = g_new(bool, MIN(count, MOST));
    for (uint64_t at = 0; at < count; at += MOST) {
        size_t some = (size_t)MIN(MOST, count - at);
        token_mask_read(mask, first + at, some, counts);
        for (size_t i = 0; i < some; i++)
            counted += counts[i];
    }
    return counted;
}

const char *token_mask_problem(const struct token_mask *mask)
{
    uint8_t last;
    const char *problem = file_pieces_problem(mask->file);
    if (!problem && file_pieces_is_written(mask->file) && sum_bits(mask, &last) != mask->sum)
        file_pieces_spoil(mask->file);
    return problem ? problem : file_pieces_problem(mask->file);
}
