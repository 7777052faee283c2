#include "collect/window.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_LOCK_MS = 1000 };

G_DEFINE_QUARK(pstar_window_error, window_error)

bool window_parse(const char *text, struct window *window, GError **error)
{
    const char *colon = strchr(text, ':');
    *window = (struct window){.end = UINT64_MAX, .whole_run = strcmp(text, "all") == 0};
    if (window->whole_run)
        return true;
    if (colon) {
        char *first = g_strndup(text, (gsize)(colon - text));
        bool ok = g_ascii_string_to_unsigned(first, 10, 0, UINT64_MAX, &window->first, NULL) &&
                  g_ascii_string_to_unsigned(colon + 1, 10, 0, UINT64_MAX, &window->end, NULL);
        g_free(first);
        if (ok && window->first < window->end)
            return true;
    }
    g_set_error(error, WINDOW_ERROR, WINDOW_ERROR_SYNTAX,
                "'%s' is not a range of iterations: write A:B with A < B (1:2 records only the "
                "second one), or all",
                text);
    return false;
}

char *window_output(const char *pattern, uint64_t process, uint64_t rank)
{
    const char *folder_end = strrchr(pattern, '/');
    const char *name = !folder_end ? pattern : folder_end + 1;
    GString *output = g_string_new_len(pattern, name - pattern);
    for (const char *c = name; *c != '\0'; c++) {
        if (c[0] == '%' && (c[1] == 'p' || c[1] == 'r'))
            g_string_append_printf(output, "%" G_GUINT64_FORMAT, c[1] == 'p' ? process : rank);
        else
            g_string_append_c(output, *c);
        if (c[0] == '%' && (c[1] == 'p' || c[1] == 'r' || c[1] == '%'))
            c++;
    }
    return g_string_free(output, FALSE);
}

uint64_t window_rank(void)
{
    static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                            "SLURM_PROCID"};
    for (size_t i = 0; i < G_N_ELEMENTS(variables); i++) {
        const char *text = g_getenv(variables[i]);
        uint64_t rank;
        if (text && g_ascii_string_to_unsigned(text, 10, 0, UINT64_MAX, &rank, NULL))
            return rank;
    }
    return 0;
}

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return nanoseconds(now);
}

/* Files are dated by either clock; the coarse one advances only every few milliseconds. */
int64_t window_launch_time(void)
{
    int64_t launch = clock_ns(CLOCK_REALTIME);
    while (clock_ns(CLOCK_REALTIME_COARSE) <= launch)
        g_usleep(500);
    return launch;
}

int64_t window_file_changed(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? nanoseconds(status.st_ctim) : -1;
}

int window_lock_folder(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    int handle = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int ms = 0; handle >= 0 && ms < LONGEST_LOCK_MS; ms++) {
        if (flock(handle, LOCK_EX | LOCK_NB) == 0)
            return handle;
        if (errno != EWOULDBLOCK)
            break;
        g_usleep(1000);
    }
    if (handle >= 0)
        close(handle);
    return -1;
}
