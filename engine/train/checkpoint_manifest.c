#include "engine/train/checkpoint_manifest.h"

#include "base/files.h"
#include "engine/train/checkpoint_files.h"
#include "engine/train/checkpoint_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define VERSION 1
#define STEM    CHECKPOINT_FILES_OWN
#define SINGLE  STEM ".json"
#define CHECK   "crc32"

static bool refuse(const char *path, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static bool refuse(const char *path, GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: damaged: %s", path, why);
    return false;
}

static char *name_of(uint32_t writer, uint32_t writers)
{
    return writers == 1 ? g_strdup(SINGLE)
                        : g_strdup_printf(STEM "-%05u-of-%05u.json", writer + 1, writers);
}

/* Returns the checksum of a manifest without its own. */
static uint32_t own_checksum(json_t *manifest)
{
    json_t *content = json_copy(manifest);
    json_object_del(content, CHECK);
    char *text = json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS);
    uint32_t sum = (uint32_t)crc32_z(0, (const Bytef *)text, strlen(text));
    free(text);
    json_decref(content);
    return sum;
}

/* ---- writing ---- */

static bool add_text(const char *folder, const char *name, json_t *files, GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    gsize bytes;
    if (!g_file_get_contents(path, &text, &bytes, error))
        return false;
    json_int_t sum = (json_int_t)crc32_z(0, (const Bytef *)text, bytes);
    json_object_set_new(files, name,
                        json_pack("{s:I, s:I}", "bytes", (json_int_t)bytes, CHECK, sum));
    return true;
}

/* Other writers' files of tensors come and go meanwhile. */
static bool add_texts(const char *folder, json_t *files, GError **error)
{
    g_auto(GStrv) names = checkpoint_files_list(folder, error);
    bool ok = names != NULL;
    for (char **name = names; ok && *name; name++)
        if ((g_str_has_suffix(*name, ".json") || !strstr(*name, ".safetensors")) &&
            !g_str_has_prefix(*name, STEM))
            ok = add_text(folder, *name, files, error);
    return ok;
}

bool checkpoint_manifest_write(const char *folder, struct weights_writer writer, GError **error)
{
    json_t *files = json_copy(writer.checksums);
    bool ok = writer.index > 0 || add_texts(folder, files, error);
    json_t *root = json_pack("{s:i, s:I, s:I, s:o}", "version", VERSION, "writer",
                             (json_int_t)writer.index, "writers", (json_int_t)writer.count, "files",
                             files);
    json_object_set_new(root, CHECK, json_integer(own_checksum(root)));
    g_autofree char *name = name_of(writer.index, writer.count);
    g_autofree char *path = g_build_filename(folder, name, NULL);
    char *text = json_dumps(root, JSON_INDENT(1));
    ok = ok && g_file_set_contents(path, text, -1, error);
    free(text);
    json_decref(root);
    return ok;
}

/* ---- checking ---- */

/* A part of a file, whose checksum is known. */
struct section {
    const char *kind, *name; /* "tensor", its name; name: NULL for a whole file */
    uint64_t bytes;
    uint32_t checksum;
};

static bool check_section(FILE *file, const char *path, const struct section *section,
                          GError **error)
{
    enum { BLOCK = 1 << 20 };
    g_autofree uint8_t *block = g_malloc(BLOCK);
    uLong sum = 0;
    const char *name = section->name ? section->name : "";
    const char *space = section->name ? " " : "";
    for (uint64_t done = 0; done < section->bytes;) {
        size_t more = (size_t)MIN(BLOCK, section->bytes - done);
        errno = 0;
        if (fread(block, 1, more, file) != more)
            return refuse(path, error, "%s%s%s: %s", section->kind, space, name,
                          errno ? g_strerror(errno) : "the file ends within it");
        sum = crc32_z(sum, block, more);
        done += more;
    }
    return sum == section->checksum ||
           refuse(path, error, "%s%s%s: its bytes are not those that were saved", section->kind,
                  space, name);
}

static uint64_t bytes_at(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* What costs no reading. */
static bool check_length(FILE *file, const char *path, const json_t *entry, GError **error)
{
    const json_t *tensors = json_object_get(entry, "tensors");
    uint64_t bytes = bytes_at(entry, "header_bytes");
    struct stat status;
    for (size_t i = 0; i < json_array_size(tensors); i++)
        bytes += bytes_at(json_array_get(tensors, i), "bytes");
    if (fstat(fileno(file), &status) != 0)
        return checkpoint_files_fail(path, error);
    return (uint64_t)status.st_size == bytes ||
           refuse(path, error,
                  "it has %" G_GUINT64_FORMAT " bytes, and was saved with %" G_GUINT64_FORMAT,
                  (uint64_t)status.st_size, bytes);
}

static bool check_tensors(FILE *file, const char *path, const json_t *entry, GError **error)
{
    const struct section header = {
        .kind = "the header of",
        .name = "the file",
        .bytes = bytes_at(entry, "header_bytes"),
        .checksum = (uint32_t)json_integer_value(json_object_get(entry, "header_crc32"))};
    const json_t *tensors = json_object_get(entry, "tensors");
    bool ok = check_section(file, path, &header, error);
    for (size_t i = 0; ok && i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i);
        const struct section section = {
            .kind = "tensor",
            .name = json_string_value(json_object_get(tensor, "name")),
            .bytes = bytes_at(tensor, "bytes"),
            .checksum = (uint32_t)json_integer_value(json_object_get(tensor, CHECK))};
        ok = check_section(file, path, &section, error);
    }
    return ok;
}

static bool check_text(FILE *file, const char *path, const json_t *entry, GError **error)
{
    const struct section whole = {
        .kind = "the file",
        .bytes = bytes_at(entry, "bytes"),
        .checksum = (uint32_t)json_integer_value(json_object_get(entry, CHECK))};
    return check_section(file, path, &whole, error);
}

/* Manifests and checkpoints are moved together, so files lie beside them, nowhere else. */
static bool check_file(const char *folder, const char *name, const json_t *entry, bool tensors,
                       GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    bool has_tensors = json_object_get(entry, "tensors") != NULL;
    if (strchr(name, '/') || g_str_equal(name, ".."))
        return refuse(folder, error, "a manifest names %s, which is in another folder", name);
    if (!input_file_check(path, error) ||
        (!has_tensors && !input_text_check(path, INPUT_SMALL, error)))
        return false;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return checkpoint_files_fail(path, error);
    bool ok = !has_tensors || check_length(file, path, entry, error);
    if (!has_tensors)
        ok = check_text(file, path, entry, error);
    else if (ok && tensors)
        ok = check_tensors(file, path, entry, error);
    if (ok && !has_tensors && fgetc(file) != EOF)
        ok = refuse(path, error, "it is longer than it was");
    fclose(file);
    return ok;
}

static json_t *read_manifest(const char *path, GError **error)
{
    json_error_t problem;
    if (!input_text_check(path, INPUT_SMALL, error))
        return NULL;
    json_t *root = input_json_load(path, JSON_REJECT_DUPLICATES, &problem);
    bool whole = root && json_is_object(json_object_get(root, "files")) &&
                 json_integer_value(json_object_get(root, CHECK)) == own_checksum(root);
    if (!whole)
        refuse(path, error, "%s", root ? "it is not as it was saved" : problem.text);
    else if (json_integer_value(json_object_get(root, "version")) != VERSION)
        whole = refuse(path, error, "version must be %d", VERSION);
    if (!whole)
        g_clear_pointer(&root, json_decref);
    return root;
}

static bool check_manifest(const char *folder, uint32_t writer, uint32_t writers, bool tensors,
                           GError **error)
{
    g_autofree char *name = name_of(writer, writers);
    g_autofree char *path = g_build_filename(folder, name, NULL);
    json_t *root = read_manifest(path, error);
    json_t *files = json_object_get(root, "files"), *entry;
    const char *file;
    bool ok = root != NULL;
    json_object_foreach (files, file, entry)
        ok = ok && check_file(folder, file, entry, tensors, error);
    json_decref(root);
    return ok;
}

/* Sets the number of writers that the names of manifests tell, or 0 if there are none. Fails if the
 * folder is there but cannot be read. */
static bool count_writers(const char *folder, uint32_t *writers, GError **error)
{
    bool there = g_file_test(folder, G_FILE_TEST_IS_DIR);
    g_auto(GStrv) names = there ? checkpoint_files_list(folder, error) : NULL;
    uint32_t writer, of;
    *writers = 0;
    for (char **name = names; names && *name; name++) {
        if (g_str_equal(*name, SINGLE)) {
            *writers = 1;
            break;
        }
        if (sscanf(*name, STEM "-%5u-of-%5u.json", &writer, &of) == 2)
            *writers = MAX(*writers, of);
    }
    return names || !there;
}

bool checkpoint_manifest_exists(const char *folder)
{
    uint32_t writers;
    return count_writers(folder, &writers, NULL) && writers > 0;
}

bool checkpoint_manifest_check(const char *folder, bool tensors, GError **error)
{
    uint32_t writers;
    bool ok = count_writers(folder, &writers, error);
    for (uint32_t writer = 0; ok && writer < writers; writer++)
        ok = check_manifest(folder, writer, writers, tensors, error);
    return ok;
}
