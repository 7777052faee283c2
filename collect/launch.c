#include "collect/launch.h"

#include "base/files.h"
#include "collect/window.h"

#include <errno.h>
#include <glib.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INJECTED_LIBRARY "libpstar-collect.so"

G_DEFINE_QUARK(pstar_launch_error, launch_error)

/* Signals to us that are meant for the command. */
static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/* Free with g_strfreev. */
static char **make_environment(const char *library, const char *output, const char *iterations,
                               const char *range, gint64 launch_ns)
{
    char *absolute = g_canonicalize_filename(output, NULL); /* the command may change its folder */
    char *launch_time = g_strdup_printf("%" G_GINT64_FORMAT, launch_ns);
    char **environment = g_get_environ();
    environment = g_environ_setenv(environment, "NVTX_INJECTION64_PATH", library, TRUE);
    environment = g_environ_setenv(environment, "CUDA_INJECTION64_PATH", library, TRUE);
    environment = g_environ_setenv(environment, WINDOW_OUTPUT_VARIABLE, absolute, TRUE);
    environment = g_environ_setenv(environment, WINDOW_ITERATIONS_VARIABLE, iterations, TRUE);
    if (range)
        environment = g_environ_setenv(environment, WINDOW_RANGE_VARIABLE, range, TRUE);
    else
        environment = g_environ_unsetenv(environment, WINDOW_RANGE_VARIABLE);
    environment = g_environ_setenv(environment, WINDOW_LAUNCH_VARIABLE, launch_time, TRUE);
    g_free(launch_time);
    g_free(absolute);
    return environment;
}

static sigset_t watched_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < G_N_ELEMENTS(forwarded); i++)
        sigaddset(&signals, forwarded[i]);
    return signals;
}

/* Starts the command with the signals as they were before we changed them. Returns 0 on error. */
static pid_t start(char **command, char **environment, const sigset_t *mask, GError **error)
{
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t ignored;
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGXFSZ);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawnattr_setsigmask(&attributes, mask);
    pid_t child = 0;
    int failure = posix_spawnp(&child, command[0], NULL, &attributes, command, environment);
    posix_spawnattr_destroy(&attributes);
    if (failure == 0)
        return child;
    g_set_error(error, LAUNCH_ERROR, LAUNCH_ERROR_COMMAND, "%s: cannot be started: %s", command[0],
                g_strerror(failure));
    return 0;
}

static int wait_for(pid_t child, const sigset_t *signals)
{
    for (;;) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        siginfo_t signal;
        if (sigwaitinfo(signals, &signal) < 0 || signal.si_signo == SIGCHLD)
            continue;
        /* The terminal sends its signals to the command, too. */
        if (signal.si_code != SI_KERNEL)
            kill(child, signal.si_signo);
    }
}

int launch(char **command, const char *output, const char *iterations, const char *range,
           gint64 launch_ns, GError **error)
{
    char *library = library_file_find(INJECTED_LIBRARY, error);
    if (!library)
        return -1;
    char **environment = make_environment(library, output, iterations, range, launch_ns);
    sigset_t signals = watched_signals(), before;
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t child = start(command, environment, &before, error);
    int status = child == 0 ? -1 : wait_for(child, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    g_strfreev(environment);
    g_free(library);
    return status;
}

#define BACKEND "backend:cudaMallocAsync"

/* Returns `options` ("key:value,...", may be NULL) with our backend. Free with g_free. */
static char *with_backend(const char *options)
{
    g_auto(GStrv) parts = g_strsplit(!options ? "" : options, ",", -1);
    GString *text = g_string_new(BACKEND);
    for (char **part = parts; *part; part++)
        if (**part != '\0' && !g_str_has_prefix(g_strstrip(*part), "backend:"))
            g_string_append_printf(text, ",%s", *part);
    return g_string_free(text, FALSE);
}

char *allocator_show_tensors(void)
{
    /* The newer name has priority; older versions know only the older name. */
    const char *names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    const char *newer = g_getenv(names[0]), *older = g_getenv(names[1]);
    g_autofree char *options = with_backend(newer ? newer : older);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        g_setenv(names[i], options, TRUE);
    return g_strdup_printf("PyTorch's allocator on CUDA devices is set to cudaMallocAsync (%s=%s): "
                           "each tensor is visible; times and fragmentation are not those of the "
                           "native allocator",
                           names[0], options);
}
