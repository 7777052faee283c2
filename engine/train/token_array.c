#include "engine/train/token_array.h"

#include "engine/train/data.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool fail(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
static bool fail(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, DATA_ERROR, DATA_ERROR_INVALID, reason);
    return false;
}

static bool read_exactly(int file, uint64_t at, size_t bytes, void *to, GError **error)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(file, (uint8_t *)to + done, bytes - done, (off_t)(at + done));
        if (got > 0)
            done += (size_t)got;
        else if (got == 0)
            return fail(error, "has become shorter while it is read");
        else if (errno != EINTR)
            return fail(error, "%s", g_strerror(errno));
    }
    return true;
}

static uint64_t number_at(const uint8_t *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = count; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

/* Fails unless exactly the `declared` tokens follow the header. */
static bool check_count(uint64_t file_bytes, const struct token_array *array, uint64_t declared,
                        GError **error)
{
    uint64_t rest = file_bytes - array->at;
    if (declared == rest / array->bytes && rest % array->bytes == 0)
        return true;
    return fail(error,
                "token file says that it holds %" G_GUINT64_FORMAT
                " tokens, but has %" G_GUINT64_FORMAT "%s: truncated or damaged",
                declared, rest / array->bytes, rest % array->bytes ? " and a part of one" : "");
}

/* ---- llm.c ---- */

bool token_array_read_llmc(int file, uint64_t file_bytes, int32_t version, uint8_t token_bytes,
                           struct token_array *array, GError **error)
{
    int32_t header[256];
    if (file_bytes < sizeof header)
        return fail(error, "the header of the token file is truncated");
    if (!read_exactly(file, 0, sizeof header, header, error))
        return false;
    int32_t found = (int32_t)GINT32_FROM_LE(header[1]),
            declared = (int32_t)GINT32_FROM_LE(header[2]);
    if (found != version)
        return fail(error, "the token file has version %d; it must be %d", found, version);
    if (declared < 0)
        return fail(error, "token file says that it holds %d tokens: damaged", declared);
    *array = (struct token_array){.at = sizeof header,
                                  .count = (uint64_t)declared,
                                  .bytes = token_bytes,
                                  .masked = GINT32_FROM_LE(header[3]) == 1,
                                  .mask_sum = (uint32_t)GINT32_FROM_LE(header[4])};
    return check_count(file_bytes, array, array->count, error);
}

/* ---- numpy ---- */

enum { NPY_LONGEST = 64 << 10 }; /* numpy itself reads 10,000 bytes */

/* Returns the value of a key of the header, a Python dictionary, or NULL; free with g_free. */
static char *npy_value(const char *header, const char *key, const char *pattern)
{
    g_autofree char *whole = g_strdup_printf("['\"]%s['\"]\\s*:\\s*%s", key, pattern);
    g_autoptr(GRegex) regex = g_regex_new(whole, G_REGEX_RAW, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    return g_regex_match(regex, header, 0, &match) ? g_match_info_fetch(match, 1) : NULL;
}

/* Reads a type such as "<u2": byte order, kind, bytes. */
static bool npy_take_type(const char *type, struct token_array *array, GError **error)
{
    bool integer = type && strlen(type) == 3 && strchr("<|>=", type[0]) &&
                   (type[1] == 'u' || type[1] == 'i') && strchr("1248", type[2]);
    if (!integer)
        return fail(error,
                    "is a NumPy array of '%s', not of integers; in Python: "
                    "numpy.save(FILE, array.astype('uint32'))",
                    type ? type : "records");
    array->bytes = (uint8_t)(type[2] - '0');
    array->is_signed = type[1] == 'i';
    if (array->bytes > 1 && type[0] != '<')
        return fail(error,
                    "is a NumPy array of '%s', whose bytes are not in little-endian order; in "
                    "Python: numpy.save(FILE, array.astype('uint32'))",
                    type);
    return true;
}

/* Reads a shape such as "123,". */
static bool npy_take_shape(const char *shape, uint64_t *count, GError **error)
{
    g_auto(GStrv) sizes = g_strsplit(shape, ",", 3);
    bool one = sizes[0] && sizes[1] && !sizes[2] && !*g_strstrip(sizes[1]);
    if (!one)
        return fail(error,
                    "is a NumPy array of shape (%s), not of one dimension; in Python: "
                    "numpy.save(FILE, array.ravel())",
                    shape);
    if (!g_ascii_string_to_unsigned(g_strstrip(sizes[0]), 10, 0, G_MAXUINT64, count, NULL))
        return fail(error, "the header of the NumPy array is damaged");
    return true;
}

static bool npy_take_header(const char *header, struct token_array *array, GError **error)
{
    g_autofree char *any = npy_value(header, "descr", "(.)");
    g_autofree char *type = npy_value(header, "descr", "['\"]([ -~]{1,16}?)['\"]");
    g_autofree char *shape = npy_value(header, "shape", "\\(([0-9L, ]{0,200})\\)");
    if (!any || !shape)
        return fail(error, "the header of the NumPy array is damaged");
    return npy_take_type(type, array, error) && npy_take_shape(shape, &array->count, error);
}

bool token_array_read_npy(int file, uint64_t file_bytes, struct token_array *array, GError **error)
{
    enum { MAGIC_BYTES = 6, LENGTH_AT = MAGIC_BYTES + 2 };
    uint8_t start[LENGTH_AT + sizeof(uint32_t)];
    if (file_bytes < sizeof start)
        return fail(error, "the header of the NumPy array is truncated");
    if (!read_exactly(file, 0, sizeof start, start, error))
        return false;
    uint8_t version = start[MAGIC_BYTES];
    if (version < 1 || version > 3)
        return fail(error, "is a NumPy array of version %u; it must be 1, 2 or 3", version);
    size_t length_bytes = version == 1 ? sizeof(uint16_t) : sizeof(uint32_t);
    uint64_t length = number_at(start + LENGTH_AT, length_bytes);
    array->at = LENGTH_AT + length_bytes + length;
    if (array->at > file_bytes)
        return fail(error, "the header of the NumPy array is truncated");
    if (length > NPY_LONGEST)
        return fail(error, "the header of the NumPy array is longer than %d bytes", NPY_LONGEST);
    g_autofree char *header = g_malloc0(length + 1);
    return read_exactly(file, LENGTH_AT + length_bytes, length, header, error) &&
           npy_take_header(header, array, error) &&
           check_count(file_bytes, array, array->count, error);
}

/* ---- Megatron-LM ---- */

enum {
    INDEX_VERSION_AT = 9, /* behind the magic number */
    INDEX_TYPE_AT = INDEX_VERSION_AT + 8,
    INDEX_SEQUENCES_AT = INDEX_TYPE_AT + 1,
    INDEX_DOCUMENTS_AT = INDEX_SEQUENCES_AT + 8,
    INDEX_HEADER_BYTES = INDEX_DOCUMENTS_AT + 8,
    INDEX_WINDOW = 1 << 14 /* sequences that are read at once */
};

/* The codes of types that are integers. */
static const struct {
    uint8_t bytes;
    bool is_signed;
} index_types[] = {[1] = {1, false}, [2] = {1, true}, [3] = {2, true},
                   [4] = {4, true},  [5] = {8, true}, [8] = {2, false}};

static bool index_take_type(uint8_t code, struct token_array *array, GError **error)
{
    if (code >= G_N_ELEMENTS(index_types) || !index_types[code].bytes)
        return fail(error,
                    "is the index of a Megatron data set whose type of tokens has the code %u; it "
                    "must be 1 to 5 or 8, an integer",
                    code);
    array->bytes = index_types[code].bytes;
    array->is_signed = index_types[code].is_signed;
    return true;
}

/* Adds up `count` sequences; each must begin where the one before it ends. */
static bool index_add(const uint8_t *sizes, const uint8_t *places, size_t count, uint64_t first,
                      struct token_array *array, GError **error)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t size = number_at(sizes + i * sizeof(int32_t), sizeof(int32_t));
        uint64_t place = number_at(places + i * sizeof(int64_t), sizeof(int64_t));
        if (size > G_MAXINT32 || place != array->count * array->bytes)
            return fail(error,
                        "sequence %" G_GUINT64_FORMAT
                        " of the Megatron data set does not begin where the one before it ends: "
                        "damaged, or not written by Megatron's tools",
                        first + i);
        array->count +=
            size; /* no overflow: at most 2^59 sequences, and the next place is checked */
    }
    return true;
}

static bool index_read_sequences(int file, uint64_t sequences, struct token_array *array,
                                 GError **error)
{
    const uint64_t sizes_at = INDEX_HEADER_BYTES,
                   places_at = sizes_at + sequences * sizeof(int32_t);
    g_autofree uint8_t *sizes = g_malloc(INDEX_WINDOW * sizeof(int32_t));
    g_autofree uint8_t *places = g_malloc(INDEX_WINDOW * sizeof(int64_t));
    for (uint64_t first = 0; first < sequences; first += INDEX_WINDOW) {
        size_t count = (size_t)MIN(INDEX_WINDOW, sequences - first);
        if (!read_exactly(file, sizes_at + first * sizeof(int32_t), count * sizeof(int32_t), sizes,
                          error) ||
            !read_exactly(file, places_at + first * sizeof(int64_t), count * sizeof(int64_t),
                          places, error) ||
            !index_add(sizes, places, count, first, array, error))
            return false;
    }
    return true;
}

bool token_array_read_index(int file, uint64_t file_bytes, uint64_t data_bytes,
                            struct token_array *array, GError **error)
{
    uint8_t header[INDEX_HEADER_BYTES];
    if (file_bytes < sizeof header)
        return fail(error, "the index of the Megatron data set is truncated");
    if (!read_exactly(file, 0, sizeof header, header, error))
        return false;
    uint64_t version = number_at(header + INDEX_VERSION_AT, sizeof(uint64_t));
    uint64_t sequences = number_at(header + INDEX_SEQUENCES_AT, sizeof(uint64_t));
    uint64_t documents = number_at(header + INDEX_DOCUMENTS_AT, sizeof(uint64_t));
    uint64_t rest = file_bytes - sizeof header;
    const uint64_t sequence_bytes = sizeof(int32_t) + sizeof(int64_t);
    *array = (struct token_array){0};
    if (version != 1)
        return fail(error,
                    "is the index of a Megatron data set of version %" G_GUINT64_FORMAT
                    "; it must be 1",
                    version);
    if (!index_take_type(header[INDEX_TYPE_AT], array, error))
        return false;
    bool whole = sequences <= rest / sequence_bytes && documents <= rest / sizeof(int64_t) &&
                 sequences * sequence_bytes + documents * sizeof(int64_t) == rest;
    if (!whole)
        return fail(error,
                    "the index of the Megatron data set says that it holds %" G_GUINT64_FORMAT
                    " sequences and %" G_GUINT64_FORMAT " documents, but has %" G_GUINT64_FORMAT
                    " bytes: truncated or damaged",
                    sequences, documents, file_bytes);
    if (!index_read_sequences(file, sequences, array, error))
        return false;
    uint64_t bytes = array->count * array->bytes;
    if (bytes == data_bytes)
        return true;
    return fail(error,
                "the index of the Megatron data set describes %" G_GUINT64_FORMAT
                " bytes of tokens, but its .bin file has %" G_GUINT64_FORMAT
                ": truncated or damaged",
                bytes, data_bytes);
}
