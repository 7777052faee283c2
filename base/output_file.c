#include "base/output_file.h"

#include "base/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the descriptor N of "/dev/fd/N", or -1. */
static int descriptor_of(const char *path)
{
    guint64 number;
    if (!g_str_has_prefix(path, "/dev/fd/") ||
        !g_ascii_string_to_unsigned(path + strlen("/dev/fd/"), 10, 0, INT_MAX, &number, NULL))
        return -1;
    return (int)number;
}

const char *output_file_name(const char *path)
{
    return descriptor_of(path) < 0 ? path : "standard output";
}

static bool fail(const char *path, int code, GError **error)
{
    g_set_error(error, FAILURE, FAILURE_RUNNING, "%s: cannot be written: %s",
                output_file_name(path), g_strerror(code));
    return false;
}

/* Opening a pipe that nobody reads would wait for ever, whatever the signal. After two seconds, in
 * which a reader may start, it fails with ENXIO. */
static int open_for_writing(const char *path)
{
    enum { TRIES = 100, PAUSE_US = 20000 };
    int descriptor = -1;
    for (int i = 0; descriptor < 0 && i < TRIES; i++) {
        if (i > 0)
            g_usleep(PAUSE_US);
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != ENXIO)
            return -1;
    }
    if (descriptor >= 0)
        fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
    return descriptor;
}

FILE *output_stream_open(const char *path)
{
    int descriptor = descriptor_of(path);
    int copy = descriptor < 0 ? open_for_writing(path) : fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy < 0 ? NULL : fdopen(copy, "w");
    if (!stream && copy >= 0)
        close(copy);
    return stream;
}

FILE *output_stream_continue(const char *path, uint64_t bytes)
{
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = descriptor >= 0 && ftruncate(descriptor, (off_t)bytes) == 0 &&
              lseek(descriptor, 0, SEEK_END) >= 0;
    FILE *stream = ok ? fdopen(descriptor, "w") : NULL;
    if (!stream && descriptor >= 0)
        close(descriptor);
    return stream;
}

bool output_folder_has_place(const char *path, GError **error)
{
    g_autofree char *folder = g_strdup(path);
    while (*folder && !g_file_test(folder, G_FILE_TEST_EXISTS)) {
        char *parent = g_path_get_dirname(folder);
        g_free(folder);
        folder = parent;
    }
    if (!g_file_test(folder, G_FILE_TEST_IS_DIR))
        return fail(path, *folder ? ENOTDIR : ENOENT, error);
    return g_access(folder, W_OK | X_OK) == 0 || fail(path, errno, error);
}

/* A name that is nearly as long as names may be is cut, so that there is room for what follows, and
 * for what SQLite adds. */
static char *beginning_of_temporaries(const char *target)
{
    enum { LONGEST = 200 };
    size_t folder = (size_t)(strrchr(target, '/') ? strrchr(target, '/') + 1 - target : 0);
    size_t length = MIN(strlen(target), folder + LONGEST);
    return g_strdup_printf("%.*s.%d-", (int)length, target, (int)getpid());
}

char *output_file_temporary(const char *target)
{
    g_autofree char *beginning = beginning_of_temporaries(target);
    return g_strdup_printf("%s%08x.tmp", beginning, g_random_int());
}

char *output_file_target(const char *path)
{
    enum { MOST_LINKS = 40 }; /* as the kernel follows */
    char *target = g_strdup(path);
    for (int i = 0; i < MOST_LINKS && g_file_test(target, G_FILE_TEST_IS_SYMLINK); i++) {
        g_autofree char *before = target, *to = g_file_read_link(target, NULL);
        g_autofree char *folder = g_path_get_dirname(before);
        target = !to || g_path_is_absolute(to) ? g_strdup(to ? to : before)
                                               : g_build_filename(folder, to, NULL);
    }
    return target;
}

/* Makes a file beside the path and removes it, because permissions do not say everything. */
static bool try_to_create(const char *path, GError **error)
{
    g_autofree char *name = output_file_temporary(path);
    int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return fail(path, errno, error);
    close(descriptor);
    g_unlink(name);
    return true;
}

bool output_file_grows_in_place(const char *path, GError **error)
{
    if (descriptor_of(path) >= 0)
        return true;
    g_autofree char *target = output_file_target(path);

    if (*path == '\0' || g_file_test(path, G_FILE_TEST_IS_DIR))
        return fail(path, EISDIR, error);
    if (g_file_test(path, G_FILE_TEST_EXISTS))
        return g_access(path, W_OK) == 0 || fail(path, errno, error);
    return try_to_create(target, error);
}

/* In a folder such as /tmp only owners may replace files. */
static bool is_kept_by_owner(const char *target, uid_t owner)
{
    g_autofree char *path = g_path_get_dirname(target);
    struct stat folder;
    uid_t user = geteuid();
    return stat(path, &folder) == 0 && folder.st_mode & S_ISVTX && user != 0 && user != owner &&
           user != folder.st_uid;
}

/* Returns whether a new file can be moved to the place of the regular file that is there. */
static bool can_replace(const char *path, const char *target, GError **error)
{
    struct statx file;
    if (statx(AT_FDCWD, target, 0, STATX_UID, &file) != 0)
        return fail(path, errno, error);
    if (file.stx_attributes & STATX_ATTR_MOUNT_ROOT)
        return fail(path, EBUSY, error);
    return !is_kept_by_owner(target, file.stx_uid) || fail(path, EPERM, error);
}

bool output_file_has_place(const char *path, GError **error)
{
    if (!output_file_grows_in_place(path, error))
        return false;
    if (descriptor_of(path) >= 0 || !g_file_test(path, G_FILE_TEST_IS_REGULAR))
        return true;
    g_autofree char *target = output_file_target(path);
    return try_to_create(target, error) && can_replace(path, target, error);
}

/* Returns the temporary file that receives the bytes, or NULL if they go to `path` directly. */
static char *temporary_of(const char *path)
{
    struct stat status;
    if (descriptor_of(path) >= 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode)))
        return NULL;
    return output_file_temporary(path);
}

/* Opens a new file: a link that somebody has put in its place is not followed. */
static FILE *open_new(const char *path)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!stream && descriptor >= 0)
        close(descriptor);
    return stream;
}

bool output_file_open(struct output_file *file, const char *path, GError **error)
{
    bool follow = descriptor_of(path) < 0;
    *file = (struct output_file){.path = follow ? output_file_target(path) : g_strdup(path)};
    file->temporary = temporary_of(file->path);
    file->stream = file->temporary ? open_new(file->temporary) : output_stream_open(file->path);
    if (file->stream)
        return true;
    fail(path, errno, error);
    g_free(file->path);
    g_free(file->temporary);
    return false;
}

bool output_file_close(struct output_file *file, GError **error)
{
    bool ok = !ferror(file->stream);
    ok = fclose(file->stream) == 0 && ok;
    if (ok && file->temporary)
        ok = g_rename(file->temporary, file->path) == 0;
    if (!ok) {
        fail(file->path, errno, error);
        if (file->temporary)
            g_unlink(file->temporary);
    }
    g_free(file->path);
    g_free(file->temporary);
    return ok;
}

void output_file_abandon(struct output_file *file)
{
    fclose(file->stream);
    if (file->temporary)
        g_unlink(file->temporary);
    g_free(file->path);
    g_free(file->temporary);
}

void output_file_remove_unfinished(const char *path)
{
    g_autofree char *target = output_file_target(path), *name = g_path_get_basename(target);
    g_autofree char *folder = g_path_get_dirname(target);
    g_autofree char *beginning = beginning_of_temporaries(name);
    GDir *listed = g_dir_open(folder, 0, NULL);
    const char *entry;
    while (listed && (entry = g_dir_read_name(listed)))
        if (g_str_has_prefix(entry, beginning)) {
            g_autofree char *file = g_build_filename(folder, entry, NULL);
            g_unlink(file);
        }
    g_clear_pointer(&listed, g_dir_close);
}

bool output_file_write(const char *path, const char *text, GError **error)
{
    struct output_file file;
    if (!output_file_open(&file, path, error))
        return false;
    fputs(text, file.stream);
    return output_file_close(&file, error);
}

bool output_file_write_json(const char *path, const json_t *root, size_t flags, GError **error)
{
    struct output_file file;
    g_assert(root);
    if (!output_file_open(&file, path, error))
        return false;
    json_dumpf(root, file.stream, flags);
    fputc('\n', file.stream);
    return output_file_close(&file, error);
}
