/* Tells the thread sanitizer about GLib's locks, which it does not know: they are futexes in a
 * library that is not built with it. The script `threads` preloads this into programs of the preset
 * tsan. */
#include <dlfcn.h>
#include <glib.h>
#include <string.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

/* Sets *function to the next definition of the name. */
static void find_next(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

static void (*lock)(GMutex *), (*unlock)(GMutex *), (*wait)(GCond *, GMutex *);
static gboolean (*try_lock)(GMutex *), (*wait_until)(GCond *, GMutex *, gint64);

__attribute__((constructor)) static void begin(void)
{
    find_next("g_mutex_lock", &lock);
    find_next("g_mutex_unlock", &unlock);
    find_next("g_mutex_trylock", &try_lock);
    find_next("g_cond_wait", &wait);
    find_next("g_cond_wait_until", &wait_until);
}

void g_mutex_lock(GMutex *mutex)
{
    if (!lock) /* before `begin`, by GLib itself */
        begin();
    lock(mutex);
    __tsan_acquire(mutex);
}

void g_mutex_unlock(GMutex *mutex)
{
    __tsan_release(mutex);
    if (!unlock)
        begin();
    unlock(mutex);
}

gboolean g_mutex_trylock(GMutex *mutex)
{
    if (!try_lock)
        begin();
    gboolean locked = try_lock(mutex);
    if (locked)
        __tsan_acquire(mutex);
    return locked;
}

void g_cond_wait(GCond *cond, GMutex *mutex)
{
    __tsan_release(mutex);
    wait(cond, mutex);
    __tsan_acquire(mutex);
}

gboolean g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end_time)
{
    __tsan_release(mutex);
    gboolean signalled = wait_until(cond, mutex, end_time);
    __tsan_acquire(mutex);
    return signalled;
}
