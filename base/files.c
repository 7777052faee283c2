#include "base/files.h"

#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool input_file_check(const char *path, GError **error)
{
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return true;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "%s: not a regular file", path);
    return false;
}

bool input_text_check(const char *path, uint64_t most_bytes, GError **error)
{
    struct stat status;
    if (!input_file_check(path, error))
        return false;
    if (stat(path, &status) != 0)
        return true;
    g_autofree char *size = size_format((uint64_t)status.st_size), *most = size_format(most_bytes);
    if (S_ISDIR(status.st_mode))
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_ISDIR, "%s: is a folder, not a file", path);
    else if ((uint64_t)status.st_size > most_bytes)
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                    "%s: has %s; a file of this kind has at most %s", path, size, most);
    else
        return true;
    return false;
}

static bool fail_to_read(const char *path, GError **error)
{
    int code = errno;
    g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(code), "%s: %s", path,
                g_strerror(code));
    return false;
}

bool input_file_read(const char *path, void (*take)(void *data, const void *piece, size_t bytes),
                     void *data, GError **error)
{
    enum { PIECE = 1 << 18 };
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail_to_read(path, error);
    g_autofree uint8_t *piece = g_malloc(PIECE);
    bool ok = true;
    for (ssize_t got = 1; ok && got != 0;) {
        got = read(file, piece, PIECE);
        if (got > 0)
            take(data, piece, (size_t)got);
        else if (got < 0 && errno != EINTR)
            ok = fail_to_read(path, error);
    }
    close(file);
    return ok;
}

static void cannot_read(int code, json_error_t *where)
{
    *where = (json_error_t){.line = -1, .column = -1};
    g_strlcpy(where->text, g_strerror(code), sizeof where->text);
}

json_t *input_json_load(const char *path, size_t flags, json_error_t *where)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        cannot_read(errno, where);
        return NULL;
    }
    errno = 0;
    json_t *root = json_loadf(file, flags, where);
    if (ferror(file)) {
        cannot_read(errno ? errno : EIO, where);
        g_clear_pointer(&root, json_decref);
    }
    fclose(file);
    return root;
}

char *input_json_problem(const json_error_t *where)
{
    return where->line > 0 ? g_strdup_printf("line %d: %s", where->line, where->text)
                           : g_strdup(where->text);
}

char *library_file_find(const char *name, GError **error)
{
    g_autofree char *program = g_file_read_link("/proc/self/exe", error);
    if (!program)
        return NULL;
    g_autofree char *folder = g_path_get_dirname(program);
    char *library = g_build_filename(folder, name, NULL);
    if (access(library, R_OK) == 0)
        return library;
    g_free(library);
    library = g_build_filename(folder, PSTAR_LIBRARY_FOLDER, name, NULL);
    if (access(library, R_OK) == 0)
        return library;
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "%s: %s", library,
                g_strerror(errno));
    g_free(library);
    return NULL;
}

/* The section headers of a library are at its end. */
const char *library_file_refusal(const char *path)
{
    struct stat status;
    ElfW(Ehdr) header = {.e_shoff = 0};
    if (stat(path, &status) != 0)
        return NULL; /* the loader says why */
    if (!S_ISREG(status.st_mode))
        return "not a regular file";
    FILE *file = fopen(path, "re");
    bool read = file && fread(&header, sizeof header, 1, file) == 1 &&
                memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
    if (file)
        fclose(file);
    uint64_t end = (uint64_t)header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    return read && end > (uint64_t)status.st_size ? "the shared object is truncated" : NULL;
}
