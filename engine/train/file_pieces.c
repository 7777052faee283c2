#include "engine/train/file_pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_pieces *file_pieces_open(const char *path)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    if (fstat(descriptor, &status) != 0) {
        int cause = errno;
        close(descriptor);
        errno = cause;
        return NULL;
    }
    struct file_pieces *file = g_new0(struct file_pieces, 1);
    file->descriptor = descriptor;
    file->bytes = (uint64_t)status.st_size;
    file->written = status.st_mtim;
    return file;
}

void file_pieces_close(struct file_pieces *file)
{
    if (file)
        close(file->descriptor);
    g_free(file);
}

void file_pieces_read(struct file_pieces *file, uint64_t at, size_t bytes, void *to)
{
    size_t done = 0;
    int failure = 0;
    while (done < bytes && !failure) {
        ssize_t got = pread(file->descriptor, (uint8_t *)to + done, bytes - done,
                            (off_t)(at + done));
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            failure = got == 0 ? ENODATA : errno;
    }
    if (!failure)
        return;
    memset((uint8_t *)to + done, 0, bytes - done);
    g_atomic_int_set(&file->failure, failure);
}

const char *file_pieces_problem(const struct file_pieces *file)
{
    struct stat now;
    int failure = g_atomic_int_get(&file->failure);
    if (!failure && fstat(file->descriptor, &now) != 0)
        failure = errno;
    else if (!failure && (uint64_t)now.st_size < file->bytes)
        failure = ENODATA;
    if (!failure)
        return NULL;
    return failure == ENODATA  ? "has become shorter while it is read"
           : failure == ESTALE ? "has been changed while it is read"
                               : g_strerror(failure);
}

bool file_pieces_is_written(struct file_pieces *file)
{
    struct stat now;
    if (fstat(file->descriptor, &now) != 0)
        return false;
    bool written = now.st_mtim.tv_sec != file->written.tv_sec ||
                   now.st_mtim.tv_nsec != file->written.tv_nsec;
    file->written = now.st_mtim;
    return written;
}

void file_pieces_spoil(struct file_pieces *file)
{
    g_atomic_int_set(&file->failure, ESTALE);
}
