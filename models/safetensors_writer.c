#include "models/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_ALIGNMENT 8

struct safetensors_writer {
    char *path;
    char *temporary; /* NULL until the first append, and after finish */
    FILE *stream;
    json_t *header;
    uint64_t declared, appended; /* elements */
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
    return writer;
}

void safetensors_writer_declare(struct safetensors_writer *writer, const char *name,
                                const uint64_t *shape, uint32_t rank)
{
    g_assert(!writer->stream && !json_object_get(writer->header, name));
    json_t *dimensions = json_array();
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        json_array_append_new(dimensions, json_integer((json_int_t)shape[i]));
        elements *= shape[i];
    }
    json_int_t begin = (json_int_t)(writer->declared * sizeof(float));
    writer->declared += elements;
    json_int_t end = (json_int_t)(writer->declared * sizeof(float));
    json_object_set_new(writer->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", dimensions,
                                  "data_offsets", begin, end));
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
    g_assert(writer->stream != NULL);

    char *text = json_dumps(writer->header, JSON_COMPACT);
    size_t bytes = strlen(text);
    size_t padded = (bytes + HEADER_ALIGNMENT - 1) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
    uint64_t length = GUINT64_TO_LE((uint64_t)padded);
    bool written = fwrite(&length, sizeof(length), 1, writer->stream) == 1 &&
                   fprintf(writer->stream, "%-*s", (int)padded, text) == (int)padded;
    free(text);
    return written || fail(writer, error);
}

bool safetensors_writer_append(struct safetensors_writer *writer, const float *values,
                               uint64_t count, GError **error)
{
    g_assert(count <= writer->declared - writer->appended);
    if (!writer->stream && !write_header(writer, error))
        return false;
    writer->appended += count;
    return fwrite(values, sizeof(*values), count, writer->stream) == count || fail(writer, error);
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

void safetensors_writer_free(struct safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->stream)
        fclose(writer->stream);
    if (writer->temporary)
        g_unlink(writer->temporary);
    json_decref(writer->header);
    g_free(writer->temporary);
    g_free(writer->path);
    g_free(writer);
}
