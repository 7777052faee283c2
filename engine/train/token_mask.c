#include "engine/train/token_mask.h"

#include "engine/train/data.h"
#include "traces/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 20261125, VERSION = 1, HEADER_BYTES = 256 * 4, WINDOW_BYTES = 1 << 16 };

/* The file is read, not mapped: a map of a file that is cut off ends the program. */
struct token_mask {
    char *path;
    int file;
    uint64_t bytes, tokens;
    uint32_t sum;
    gint *cut; /* not 0 if a read has found fewer bytes; atomic */
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

/* Reads bytes of the file; those that are not there any more become 0. */
static void fetch(const struct token_mask *mask, uint64_t at, size_t bytes, uint8_t *to)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(mask->file, to + done, bytes - done, (off_t)(at + done));
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            break;
    }
    if (done == bytes)
        return;
    memset(to + done, 0, bytes - done);
    g_atomic_int_set(mask->cut, 1);
}

/* ---- the checksum ---- */

static void make_table(uint32_t table[256])
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++)
            rest = rest & 1 ? rest >> 1 ^ 0xedb88320 : rest >> 1;
        table[byte] = rest;
    }
}

/* Returns the CRC-32 of the bits, as zlib computes it. *last becomes the last byte. */
static uint32_t sum_bits(const struct token_mask *mask, uint8_t *last)
{
    uint32_t table[256], sum = UINT32_MAX;
    g_autofree uint8_t *window = g_malloc(WINDOW_BYTES);
    make_table(table);
    for (uint64_t at = HEADER_BYTES; at < mask->bytes; at += WINDOW_BYTES) {
        size_t bytes = (size_t)MIN(WINDOW_BYTES, mask->bytes - at);
        fetch(mask, at, bytes, window);
        for (size_t i = 0; i < bytes; i++)
            sum = table[(sum ^ window[i]) & 0xff] ^ sum >> 8;
        *last = window[bytes - 1];
    }
    return ~sum;
}

/* ---- opening ---- */

static bool read_header(struct token_mask *mask, GError **error)
{
    uint32_t header[5];
    if (mask->bytes < HEADER_BYTES)
        return fail(mask, DATA_ERROR_INVALID, error, "the header of the mask is truncated");
    fetch(mask, 0, sizeof header, (uint8_t *)header);
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
    if (mask->bytes - HEADER_BYTES != bytes)
        return fail(mask, DATA_ERROR_INVALID, error,
                    "a mask of %" G_GUINT64_FORMAT " tokens has %" G_GUINT64_FORMAT
                    " bytes, not %" G_GUINT64_FORMAT ": truncated or damaged",
                    mask->tokens, HEADER_BYTES + bytes, mask->bytes);
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
    struct stat status;
    mask->path = g_strdup(path);
    mask->tokens = tokens;
    mask->cut = g_new0(gint, 1);
    mask->file = -1;
    bool ok = input_file_check(path, error);
    if (ok) {
        mask->file = open(path, O_RDONLY | O_CLOEXEC);
        ok = (mask->file >= 0 && fstat(mask->file, &status) == 0) ||
             fail(mask, DATA_ERROR_IO, error, "%s", g_strerror(errno));
    }
    if (ok) {
        mask->bytes = (uint64_t)status.st_size;
        ok = read_header(mask, error) && check_bits(mask, error);
    }
    if (ok)
        return mask;
    token_mask_close(mask);
    return NULL;
}

void token_mask_close(struct token_mask *mask)
{
    if (!mask)
        return;
    if (mask->file >= 0)
        close(mask->file);
    g_free(mask->cut);
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
    fetch(mask, HEADER_BYTES + first / 8, bytes, bits);
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

bool token_mask_is_whole(const struct token_mask *mask)
{
    struct stat now;
    return !g_atomic_int_get(mask->cut) && fstat(mask->file, &now) == 0 &&
           (uint64_t)now.st_size >= mask->bytes;
}
