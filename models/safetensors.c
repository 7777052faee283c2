#include "models/safetensors.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

G_DEFINE_QUARK(pstar_safetensors_error, safetensors_error)

#define LENGTH_BYTES    8
#define GREATEST_HEADER (100u << 20) /* bytes; the format's own limit */
#define METADATA        "__metadata__"

struct safetensors {
    char *path;
    int file;                                 /* descriptor, or -1 */
    uint64_t bytes, header_bytes, data_bytes; /* all are LENGTH_BYTES and the other two */
    GArray *tensors;                          /* struct safetensors_tensor, by offset */
    GHashTable *by_name; /* name -> struct safetensors_tensor, both owned by `tensors` */
    GPtrArray *parts;    /* struct safetensors, of an index; else NULL */
};

struct number_format {
    const char *name;
    uint8_t dtype; /* enum safetensors_dtype */
    uint8_t bytes;
};

static const struct number_format formats[] = {
    {"F32", SAFETENSORS_F32, 4},       {"F16", SAFETENSORS_F16, 2},
    {"BF16", SAFETENSORS_BF16, 2},     {"F64", SAFETENSORS_OTHER, 8},
    {"I64", SAFETENSORS_OTHER, 8},     {"U64", SAFETENSORS_OTHER, 8},
    {"I32", SAFETENSORS_OTHER, 4},     {"U32", SAFETENSORS_OTHER, 4},
    {"I16", SAFETENSORS_OTHER, 2},     {"U16", SAFETENSORS_OTHER, 2},
    {"I8", SAFETENSORS_OTHER, 1},      {"U8", SAFETENSORS_OTHER, 1},
    {"BOOL", SAFETENSORS_OTHER, 1},    {"F8_E4M3", SAFETENSORS_OTHER, 1},
    {"F8_E5M2", SAFETENSORS_OTHER, 1},
};

static const struct number_format *format_find(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    }
    return NULL;
}

static void tensor_clear(void *element)
{
    g_free(((struct safetensors_tensor *)element)->name);
}

static bool invalid(const struct safetensors *file, const char *tensor, GError **error,
                    const char *format, ...) G_GNUC_PRINTF(4, 5);
static bool invalid(const struct safetensors *file, const char *tensor, GError **error,
                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    if (tensor) {
        g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_INVALID, "%s: tensor %s: %s",
                    file->path, tensor, reason);
    } else {
        g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_INVALID, "%s: %s", file->path,
                    reason);
    }
    g_free(reason);
    return false;
}

/* `tensor` may be NULL. */
static bool unreadable(const struct safetensors *file, const char *tensor, const char *reason,
                       GError **error)
{
    g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_IO, "%s: %s%s%s%s", file->path,
                tensor ? "tensor " : "", tensor ? tensor : "", tensor ? ": " : "", reason);
    return false;
}

static bool open_to_read(struct safetensors *file, GError **error)
{
    struct stat status;
    if (g_file_test(file->path, G_FILE_TEST_IS_DIR))
        return unreadable(file, NULL, "is a folder, not a file", error);
    file->file = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->file < 0 || fstat(file->file, &status) != 0)
        return unreadable(file, NULL, g_strerror(errno), error);
    file->bytes = (uint64_t)status.st_size;
    return true;
}

/* Reads bytes of the file, of this tensor if it is not NULL. They are not mapped: a disk that
 * cannot read them would end the program by a signal. */
static bool read_bytes(const struct safetensors *file, const char *tensor, uint64_t first,
                       uint64_t count, void *to, GError **error)
{
    for (uint64_t done = 0; done < count;) {
        ssize_t got = pread(file->file, (uint8_t *)to + done, count - done, (off_t)(first + done));
        if (got == 0)
            return unreadable(file, tensor, "the file has become shorter while it is read", error);
        if (got < 0 && errno != EINTR)
            return unreadable(file, tensor, g_strerror(errno), error);
        done += got > 0 ? (uint64_t)got : 0;
    }
    return true;
}

/* A whole number >= 0. */
static bool natural(const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

static bool parse_shape(const struct safetensors *file, const json_t *entry,
                        struct safetensors_tensor *tensor, GError **error)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_RANK) {
        return invalid(file, tensor->name, error, "shape must be a list of at most %d integers",
                       SAFETENSORS_MAX_RANK);
    }
    tensor->rank = (uint32_t)json_array_size(shape);
    tensor->elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!natural(json_array_get(shape, i), &tensor->shape[i]) ||
            __builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements))
            return invalid(file, tensor->name, error, "shape: dimension %u is invalid or too large",
                           i);
    }
    return true;
}

static bool parse_tensor(const struct safetensors *file, const char *name, const json_t *entry,
                         struct safetensors_tensor *tensor, GError **error)
{
    tensor->name = g_strdup(name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const struct number_format *format = dtype ? format_find(dtype) : NULL;
    if (!format)
        return invalid(file, name, error, "dtype %s is not known", dtype ? dtype : "?");
    tensor->dtype = format->dtype;
    tensor->format = format->name;
    if (!parse_shape(file, entry, tensor, error))
        return false;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t end;
    if (json_array_size(offsets) != 2 || !natural(json_array_get(offsets, 0), &tensor->offset) ||
        !natural(json_array_get(offsets, 1), &end) || end < tensor->offset)
        return invalid(file, name, error,
                       "data_offsets must be [begin, end] with 0 <= begin <= end");
    if (end > file->data_bytes) {
        return invalid(file, name, error,
                       "ends at byte %" G_GUINT64_FORMAT
                       " of the data, but there are only %" G_GUINT64_FORMAT
                       " bytes: the file is truncated or damaged",
                       end, file->data_bytes);
    }
    tensor->bytes = end - tensor->offset;
    uint64_t wanted;
    if (__builtin_mul_overflow(tensor->elements, format->bytes, &wanted))
        return invalid(file, name, error, "its shape is too large");
    return wanted == tensor->bytes ||
           invalid(file, name, error,
                   "occupies %" G_GUINT64_FORMAT " bytes, but its shape takes %" G_GUINT64_FORMAT
                   " in %s",
                   tensor->bytes, wanted, dtype);
}

static bool parse_header(struct safetensors *file, const json_t *header, GError **error)
{
    const char *name;
    json_t *entry;
    json_object_foreach ((json_t *)header, name, entry) {
        if (strcmp(name, METADATA) == 0)
            continue;
        struct safetensors_tensor tensor = {0};
        bool parsed = parse_tensor(file, name, entry, &tensor, error);
        g_array_append_val(file->tensors, tensor);
        if (!parsed)
            return false;
    }
    return true;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Refuses holes, which could hide bytes, and overlaps, which would let two tensors share bytes. */
static bool check_cover(struct safetensors *file, GError **error)
{
    g_array_sort(file->tensors, compare_offsets);
    uint64_t end = 0;
    for (uint32_t i = 0; i < file->tensors->len; i++) {
        struct safetensors_tensor *tensor = &g_array_index(file->tensors, struct safetensors_tensor,
                                                           i);
        if (tensor->offset != end) {
            return invalid(file, tensor->name, error,
                           "begins at byte %" G_GUINT64_FORMAT
                           " of the data, but the tensor before it ends at %" G_GUINT64_FORMAT,
                           tensor->offset, end);
        }
        end += tensor->bytes;
        g_hash_table_insert(file->by_name, tensor->name, tensor);
    }
    if (end != file->data_bytes) {
        return invalid(file, NULL, error,
                       "the file has %" G_GUINT64_FORMAT
                       " bytes of data, but its tensors use %" G_GUINT64_FORMAT,
                       file->data_bytes, end);
    }
    return true;
}

static bool read_header(struct safetensors *file, GError **error)
{
    uint64_t length = 0;
    if (file->bytes < LENGTH_BYTES)
        return invalid(file, NULL, error, "too short to be a safetensors file");
    if (!read_bytes(file, NULL, 0, LENGTH_BYTES, &length, error))
        return false;
    length = GUINT64_FROM_LE(length);
    if (length > GREATEST_HEADER || length > file->bytes - LENGTH_BYTES) {
        return invalid(file, NULL, error,
                       "its header would have %" G_GUINT64_FORMAT
                       " bytes: not a safetensors file, or truncated",
                       length);
    }
    file->header_bytes = length;
    file->data_bytes = file->bytes - LENGTH_BYTES - length;

    g_autofree char *text = g_malloc(length + 1);
    if (!read_bytes(file, NULL, LENGTH_BYTES, length, text, error))
        return false;
    json_error_t problem;
    json_t *header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &problem);
    bool read;
    if (!header)
        read = invalid(file, NULL, error, "header is not JSON: %s", problem.text);
    else if (!json_is_object(header))
        read = invalid(file, NULL, error, "the header must be a JSON object");
    else
        read = parse_header(file, header, error) && check_cover(file, error);
    json_decref(header);
    return read;
}

static struct safetensors *safetensors_new(const char *path)
{
    struct safetensors *file = g_new0(struct safetensors, 1);
    file->path = g_strdup(path);
    file->file = -1;
    file->tensors = g_array_new(FALSE, FALSE, sizeof(struct safetensors_tensor));
    g_array_set_clear_func(file->tensors, tensor_clear);
    file->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    return file;
}

struct safetensors *safetensors_open(const char *path, GError **error)
{
    struct safetensors *file = safetensors_new(path);
    if (!input_file_check(path, error) || !open_to_read(file, error) || !read_header(file, error)) {
        safetensors_close(file);
        return NULL;
    }
    return file;
}

/* ---- an index of several files ---- */

/* Opens a file that an index lists, unless it is open already. It must lie beside the index. */
static struct safetensors *open_part(struct safetensors *index, GHashTable *open, const char *name,
                                     GError **error)
{
    struct safetensors *part = g_hash_table_lookup(open, name);
    g_autofree char *plain = g_path_get_basename(name);
    g_autofree char *folder = g_path_get_dirname(index->path);
    g_autofree char *path = g_build_filename(folder, plain, NULL);
    if (part)
        return part;
    if (strcmp(plain, name) != 0) {
        invalid(index, NULL, error, "%s is not the name of a file in the same folder", name);
        return NULL;
    }
    part = safetensors_open(path, error);
    if (!part)
        return NULL;
    g_ptr_array_add(index->parts, part);
    g_hash_table_insert(open, g_strdup(name), part);
    return part;
}

/* Opens all files, and checks that each tensor is where the index says. */
static bool open_parts(struct safetensors *index, const json_t *map, GError **error)
{
    g_autoptr(GHashTable) open = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const char *tensor;
    json_t *name;
    json_object_foreach ((json_t *)map, tensor, name) {
        if (!json_is_string(name))
            return invalid(index, tensor, error, "weight_map must name a file");
        const struct safetensors *part = open_part(index, open, json_string_value(name), error);
        if (!part)
            return false;
        if (!safetensors_find(part, tensor))
            return invalid(index, tensor, error, "it is not in %s", json_string_value(name));
    }
    return index->parts->len > 0 || invalid(index, NULL, error, "weight_map names no file");
}

static bool add_parts(struct safetensors *index, GError **error)
{
    for (guint p = 0; p < index->parts->len; p++) {
        const struct safetensors *part = g_ptr_array_index(index->parts, p);
        for (uint32_t i = 0; i < part->tensors->len; i++) {
            struct safetensors_tensor tensor = *safetensors_at(part, i);
            tensor.name = g_strdup(tensor.name);
            tensor.part = p;
            g_array_append_val(index->tensors, tensor);
        }
    }
    for (uint32_t i = 0; i < index->tensors->len; i++) {
        struct safetensors_tensor *tensor = &g_array_index(index->tensors,
                                                           struct safetensors_tensor, i);
        if (!g_hash_table_insert(index->by_name, tensor->name, tensor))
            return invalid(index, tensor->name, error, "it is in two files");
    }
    return true;
}

static bool read_index(struct safetensors *index, GError **error)
{
    json_error_t problem;
    if (!input_text_check(index->path, INPUT_SMALL, error))
        return false;
    json_t *root = input_json_load(index->path, JSON_REJECT_DUPLICATES, &problem);
    g_autofree char *why = root ? NULL : input_json_problem(&problem);
    if (!root)
        return invalid(index, NULL, error, problem.line > 0 ? "not JSON: %s" : "%s", why);
    const json_t *map = json_object_get(root, "weight_map");
    bool read = json_is_object(map)
                    ? open_parts(index, map, error) && add_parts(index, error)
                    : invalid(index, NULL, error, "weight_map is missing, or not an object");
    json_decref(root);
    return read;
}

struct safetensors *safetensors_open_index(const char *path, GError **error)
{
    struct safetensors *index = safetensors_new(path);
    index->parts = g_ptr_array_new_with_free_func((GDestroyNotify)safetensors_close);
    if (read_index(index, error))
        return index;
    safetensors_close(index);
    return NULL;
}

void safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    if (file->parts)
        g_ptr_array_unref(file->parts);
    if (file->file >= 0)
        close(file->file);
    g_hash_table_destroy(file->by_name);
    g_array_free(file->tensors, TRUE);
    g_free(file->path);
    g_free(file);
}

const char *safetensors_path(const struct safetensors *file)
{
    return file->path;
}

uint32_t safetensors_count(const struct safetensors *file)
{
    return file->tensors->len;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *file, uint32_t index)
{
    g_assert(index < file->tensors->len);
    return &g_array_index(file->tensors, struct safetensors_tensor, index);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    return g_hash_table_lookup(file->by_name, name);
}

static char *shape_text(const uint64_t *shape, uint32_t rank)
{
    GString *text = g_string_new("[");
    for (uint32_t i = 0; i < rank; i++)
        g_string_append_printf(text, "%s%" G_GUINT64_FORMAT, i > 0 ? ", " : "", shape[i]);
    return g_string_free(g_string_append_c(text, ']'), FALSE);
}

bool safetensors_expect(const struct safetensors *file, const struct safetensors_tensor *tensor,
                        const uint64_t *shape, uint32_t rank, GError **error)
{
    if (tensor->rank != rank || memcmp(tensor->shape, shape, rank * sizeof(*shape)) != 0) {
        char *there = shape_text(tensor->shape, tensor->rank), *wanted = shape_text(shape, rank);
        g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                    "%s: tensor %s: its shape is %s; the model needs %s", file->path, tensor->name,
                    there, wanted);
        g_free(there);
        g_free(wanted);
        return false;
    }
    if (tensor->dtype == SAFETENSORS_OTHER) {
        g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                    "%s: tensor %s: its type is %s; weights must be F32, F16 or BF16", file->path,
                    tensor->name, tensor->format);
        return false;
    }
    return true;
}

static float widen_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static float widen_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) { /* zero and subnormal: a multiple of 2^-24 */
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    uint32_t wide_exponent = exponent == 0x1fu ? 0xffu : exponent + (127 - 15);
    uint32_t wide = sign | (wide_exponent << 23) | (fraction << 13);
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

/* Numbers of 16 bits are read to the second half of `values`, and widened from the first one on:
 * each is read before another one takes its place. */
bool safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                      uint64_t first, uint64_t count, float *values, GError **error)
{
    g_assert(first <= tensor->elements && count <= tensor->elements - first);
    const struct safetensors *part = file->parts ? g_ptr_array_index(file->parts, tensor->part)
                                                 : file;
    bool whole = tensor->dtype == SAFETENSORS_F32;
    uint64_t size = whole ? sizeof(float) : sizeof(uint16_t);
    uint8_t *narrow = (uint8_t *)values + (whole ? 0 : count * size);
    uint64_t at = LENGTH_BYTES + part->header_bytes + tensor->offset + first * size;
    g_assert(whole || tensor->dtype == SAFETENSORS_F16 || tensor->dtype == SAFETENSORS_BF16);
    if (!read_bytes(part, tensor->name, at, count * size, narrow, error))
        return false;
    for (uint64_t i = 0; !whole && i < count; i++) {
        uint16_t bits;
        memcpy(&bits, narrow + i * sizeof(bits), sizeof(bits));
        values[i] = tensor->dtype == SAFETENSORS_BF16 ? widen_bf16(bits) : widen_f16(bits);
    }
    return true;
}

/* ---- writing ---- */

#define HEADER_ALIGNMENT 8

struct safetensors_writer {
    char *path;
    char *temporary; /* NULL until the first append, and after finish */
    FILE *stream;
    json_t *header;
    uint64_t declared, appended; /* bytes */

    uint64_t header_bytes; /* with their length */
    uint32_t header_checksum;
    json_t *tensors;     /* as safetensors_writer_checksums returns them */
    size_t current;      /* index of the tensor whose bytes are appended next */
    uint64_t current_at; /* its bytes that have been appended */
    uint32_t checksum;   /* of these */
};

static bool fail(const struct safetensors_writer *writer, GError **error)
{
    g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_IO, "%s: %s", writer->path,
                g_strerror(errno));
    return false;
}

struct safetensors_writer *safetensors_writer_new(const char *path)
{
    struct safetensors_writer *writer = g_new0(struct safetensors_writer, 1);
    writer->path = g_strdup(path);
    /* transformers refuses a file that does not say which framework's layout it has. */
    writer->header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    writer->tensors = json_array();
    return writer;
}

void safetensors_writer_declare(struct safetensors_writer *writer, enum safetensors_dtype dtype,
                                const char *name, const uint64_t *shape, uint32_t rank)
{
    bool half = dtype == SAFETENSORS_BF16;
    g_assert(!writer->stream && !json_object_get(writer->header, name));
    g_assert(half || dtype == SAFETENSORS_F32);
    json_t *dimensions = json_array();
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        json_array_append_new(dimensions, json_integer((json_int_t)shape[i]));
        elements *= shape[i];
    }
    json_int_t begin = (json_int_t)writer->declared;
    writer->declared += elements * (half ? sizeof(uint16_t) : sizeof(float));
    json_int_t end = (json_int_t)writer->declared;
    json_array_append_new(writer->tensors,
                          json_pack("{s:s, s:I}", "name", name, "bytes", end - begin));
    json_object_set_new(writer->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", half ? "BF16" : "F32", "shape",
                                  dimensions, "data_offsets", begin, end));
}

static bool write_header(struct safetensors_writer *writer, GError **error)
{
    writer->temporary = g_strconcat(writer->path, ".tmp-XXXXXX", NULL);
    int descriptor = g_mkstemp_full(writer->temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        g_clear_pointer(&writer->temporary, g_free);
        return fail(writer, error);
    }
    writer->stream = fdopen(descriptor, "wb");
    if (!writer->stream) {
        int cause = errno;
        close(descriptor);
        g_unlink(writer->temporary);
        g_clear_pointer(&writer->temporary, g_free);
        errno = cause;
        return fail(writer, error);
    }

    char *text = json_dumps(writer->header, JSON_COMPACT);
    size_t bytes = strlen(text);
    size_t padded = (bytes + HEADER_ALIGNMENT - 1) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
    uint64_t length = GUINT64_TO_LE((uint64_t)padded);
    g_autofree char *header = g_strdup_printf("%-*s", (int)padded, text);
    uLong sum = crc32_z(0, (const Bytef *)&length, sizeof length);
    writer->header_checksum = (uint32_t)crc32_z(sum, (const Bytef *)header, padded);
    writer->header_bytes = sizeof length + padded;
    bool written = fwrite(&length, sizeof length, 1, writer->stream) == 1 &&
                   fwrite(header, 1, padded, writer->stream) == padded;
    free(text);
    return written || fail(writer, error);
}

/* Ends the checksums of tensors whose bytes are complete. */
static void sum_up(struct safetensors_writer *writer, const uint8_t *data, uint64_t bytes)
{
    while (writer->current < json_array_size(writer->tensors)) {
        json_t *tensor = json_array_get(writer->tensors, writer->current);
        uint64_t all = (uint64_t)json_integer_value(json_object_get(tensor, "bytes"));
        uint64_t more = MIN(bytes, all - writer->current_at);
        writer->checksum = (uint32_t)crc32_z(writer->checksum, data, more);
        writer->current_at += more;
        data += more;
        bytes -= more;
        if (writer->current_at < all)
            return;
        json_object_set_new(tensor, "crc32", json_integer(writer->checksum));
        writer->current++;
        writer->current_at = writer->checksum = 0;
    }
}

bool safetensors_writer_append(struct safetensors_writer *writer, const void *data, uint64_t bytes,
                               GError **error)
{
    g_assert(bytes <= writer->declared - writer->appended);
    if (!writer->stream && !write_header(writer, error))
        return false;
    writer->appended += bytes;
    sum_up(writer, data, bytes);
    return fwrite(data, 1, bytes, writer->stream) == bytes || fail(writer, error);
}

bool safetensors_writer_finish(struct safetensors_writer *writer, GError **error)
{
    g_assert(writer->appended == writer->declared);
    if (!writer->stream && !write_header(writer, error))
        return false;
    bool kept = fflush(writer->stream) == 0 && fsync(fileno(writer->stream)) == 0;
    int cause = errno;
    kept = fclose(writer->stream) == 0 && kept;
    writer->stream = NULL;
    if (!kept || g_rename(writer->temporary, writer->path) != 0) {
        errno = kept ? errno : cause;
        return fail(writer, error);
    }
    g_clear_pointer(&writer->temporary, g_free);
    return true;
}

json_t *safetensors_writer_checksums(const struct safetensors_writer *writer)
{
    g_assert(writer->appended == writer->declared);
    return json_pack("{s:I, s:I, s:O}", "header_bytes", (json_int_t)writer->header_bytes,
                     "header_crc32", (json_int_t)writer->header_checksum, "tensors",
                     writer->tensors);
}

void safetensors_writer_free(struct safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->stream)
        fclose(writer->stream);
    if (writer->temporary)
        g_unlink(writer->temporary);
    json_decref(writer->header);
    json_decref(writer->tensors);
    g_free(writer->temporary);
    g_free(writer->path);
    g_free(writer);
}
