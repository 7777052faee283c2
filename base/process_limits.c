#include "base/process_limits.h"

#include "base/failure.h"
#include "base/size.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t process_limit(int resource)
{
    struct rlimit limit;
    bool known = getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return known ? limit.rlim_cur : UINT64_MAX;
}

uint64_t process_bytes(enum process_size size)
{
    static const int places[PROCESS_SIZES] = {0, 1, 5}; /* in /proc/self/statm */
    g_autofree char *text = NULL;
    if (!g_file_get_contents("/proc/self/statm", &text, NULL, NULL))
        return 0;
    g_auto(GStrv) numbers = g_strsplit(text, " ", -1);
    int place = places[size];
    bool known = (int)g_strv_length(numbers) > place;
    return known ? g_ascii_strtoull(numbers[place], NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* ---- threads ---- */

uint64_t process_stack_bytes(void)
{
    pthread_attr_t usual;
    size_t bytes = 0;
    pthread_attr_init(&usual);
    pthread_attr_getstacksize(&usual, &bytes);
    pthread_attr_destroy(&usual);
    return bytes;
}

uint64_t process_thread_bytes(uint64_t threads)
{
    enum { BESIDE_STACK = 8 << 20 }; /* guard page, and buffers of libraries for each thread */
    uint64_t each = process_stack_bytes() + BESIDE_STACK;
    return threads && each > UINT64_MAX / threads ? UINT64_MAX : each * threads;
}

static void name_limit(GString *text, const char *format, int resource)
{
    g_autofree char *size = size_format(process_limit(resource));
    if (process_limit(resource) != UINT64_MAX)
        g_string_append_printf(text, format, size);
}

/* Names the limits of memory, or if there are none that of a user's threads. */
static char *name_limits(void)
{
    GString *text = g_string_new(NULL);
    uint64_t threads = process_limit(RLIMIT_NPROC);
    name_limit(text, "; the address space is limited to %s (ulimit -v)", RLIMIT_AS);
    if (text->len)
        g_string_append_printf(text, ", and more than %" G_GUINT64_FORMAT " bytes are needed",
                               process_bytes(PROCESS_ADDRESSES) + process_stack_bytes());
    name_limit(text, "; data are limited to %s (ulimit -d)", RLIMIT_DATA);
    if (!text->len && threads != UINT64_MAX)
        g_string_append_printf(
            text, "; a user may have %" G_GUINT64_FORMAT " threads and processes (ulimit -u)",
            threads);
    return g_string_free(text, FALSE);
}

GThread *process_thread_new(const char *name, GThreadFunc run, void *data, GError **error)
{
    g_autoptr(GError) why = NULL;
    GThread *thread = g_thread_try_new(name, run, data, &why);
    if (thread)
        return thread;
    g_autofree char *stack = size_format(process_stack_bytes()), *limits = name_limits();
    g_set_error(error, FAILURE, FAILURE_DOES_NOT_FIT,
                "the system refuses a thread, whose stack takes %s (ulimit -s): %s%s", stack,
                why->message, limits);
    return NULL;
}
