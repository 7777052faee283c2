/* A library that is loaded into pstar-run (LD_PRELOAD) and stands for a disk that is slow or fails
 * while a checkpoint is written.
 *
 *   PSTAR_TEST_HOLD=FILE   syncs of a checkpoint's files wait as long as FILE exists
 *   PSTAR_TEST_FAIL=N      the N-th change of a checkpoint's folder fails (ENOSPC), N from 1
 *   PSTAR_TEST_COUNT=FILE  receives the number of such changes when the program ends
 *   PSTAR_TEST_FREE=N      every disk says that so many bytes are free, or with 0 nothing
 *   PSTAR_TEST_FULL=1      no bytes can be reserved for a file (ENOSPC)
 *   PSTAR_TEST_UNREAD=NAME a folder's list of names cannot be read from this one on (EIO)
 *
 * Files of a checkpoint are those whose path has "/step-", besides those of "step-0", with which
 * pstar-run tries whether it can save. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static atomic_long changes;

static bool is_checkpoint(const char *path)
{
    const char *at = strstr(path, "/step-");
    return at && strncmp(at, "/step-0.", 8) != 0;
}

/* Counts a change and returns whether it is the one that fails. */
static bool fails(const char *path)
{
    const char *fail = getenv("PSTAR_TEST_FAIL");
    if (!is_checkpoint(path) || atomic_fetch_add(&changes, 1) + 1 != (fail ? atol(fail) : 0))
        return false;
    errno = ENOSPC;
    return true;
}

static bool path_of(int descriptor, char *path, size_t bytes)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, bytes - 1);
    path[length < 0 ? 0 : length] = '\0';
    return length >= 0;
}

static bool fails_in(int place, const char *name)
{
    char path[8192];
    if (!path_of(place, path, sizeof path / 2))
        return false;
    strcat(strcat(path, "/"), name);
    return fails(path);
}

int fsync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *hold = getenv("PSTAR_TEST_HOLD");
    char path[4096];
    bool known = path_of(descriptor, path, sizeof path);
    while (known && hold && is_checkpoint(path) && access(hold, F_OK) == 0)
        usleep(1000);
    return known && fails(path) ? -1 : real(descriptor);
}

int mkdirat(int place, const char *name, mode_t mode)
{
    int (*real)(int, const char *, mode_t) = (int (*)(int, const char *, mode_t))dlsym(RTLD_NEXT,
                                                                                       "mkdirat");
    return fails_in(place, name) ? -1 : real(place, name, mode);
}

int renameat(int place, const char *from, int other, const char *to)
{
    int (*real)(int, const char *, int, const char *) =
        (int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat");
    return fails_in(place, from) ? -1 : real(place, from, other, to);
}

int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return flags & O_CREAT && fails(path) ? -1 : real(path, flags, mode);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes)
{
    int (*real)(int, int, off_t, off_t) = (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT,
                                                                                 "fallocate");
    if (!getenv("PSTAR_TEST_FULL"))
        return real(descriptor, mode, offset, bytes);
    errno = ENOSPC;
    return -1;
}

static bool is_unread(const char *name)
{
    const char *unread = getenv("PSTAR_TEST_UNREAD");
    if (!unread || strcmp(name, unread) != 0)
        return false;
    errno = EIO;
    return true;
}

struct dirent *readdir(DIR *folder)
{
    struct dirent *(*real)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    struct dirent *entry = real(folder);
    return entry && is_unread(entry->d_name) ? NULL : entry;
}

struct dirent64 *readdir64(DIR *folder)
{
    struct dirent64 *(*real)(DIR *) = (struct dirent64 * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
    struct dirent64 *entry = real(folder);
    return entry && is_unread(entry->d_name) ? NULL : entry;
}

int statvfs(const char *path, struct statvfs *system)
{
    int (*real)(const char *, struct statvfs *) =
        (int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs");
    const char *left = getenv("PSTAR_TEST_FREE");
    int result = real(path, system);
    if (!left || result != 0)
        return result;
    system->f_bavail = strtoul(left, NULL, 10) / system->f_frsize;
    if (!system->f_bavail)
        system->f_blocks = 0;
    return result;
}

__attribute__((destructor)) static void tell(void)
{
    const char *file = getenv("PSTAR_TEST_COUNT");
    FILE *stream = file ? fopen(file, "w") : NULL;
    if (!stream)
        return;
    fprintf(stream, "%ld\n", atomic_load(&changes));
    fclose(stream);
}
