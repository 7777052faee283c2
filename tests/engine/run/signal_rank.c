/* A library that is loaded into one rank (LD_PRELOAD), and sends it a signal where MPI gives no
 * signs of life: $SIGNAL_AT_START before MPI starts, or $SIGNAL_AT_END when the rank has left the
 * others. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided);
int MPI_Finalize(void);

static void signal_from(const char *variable)
{
    const char *number = getenv(variable);
    if (number)
        raise(atoi(number));
}

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
    int (*init)(int *, char ***, int, int *);
    void *found = dlsym(RTLD_NEXT, "MPI_Init_thread");
    memcpy(&init, &found, sizeof init);
    signal_from("SIGNAL_AT_START");
    return init(count, arguments, required, provided);
}

int MPI_Finalize(void)
{
    int (*finalize)(void);
    void *found = dlsym(RTLD_NEXT, "MPI_Finalize");
    memcpy(&finalize, &found, sizeof finalize);
    signal_from("SIGNAL_AT_END");
    return finalize();
}
