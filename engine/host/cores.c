#include "engine/host/cores.h"

#include <pthread.h>

struct cores cores_split(bool apart)
{
    struct cores cores;
    CPU_ZERO(&cores.all);
    if (pthread_getaffinity_np(pthread_self(), sizeof cores.all, &cores.all) != 0)
        CPU_SET(0, &cores.all);
    uint32_t count = (uint32_t)CPU_COUNT(&cores.all);
    cores.compute = cores.host = cores.all;
    cores.compute_count = cores.host_count = count;
    if (!apart || count == 1)
        return cores;

    cores.host_count = count / 4 ? count / 4 : 1;
    cores.compute_count = count - cores.host_count;
    uint32_t seen = 0;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &cores.all))
            CPU_CLR(core, seen++ < cores.compute_count ? &cores.host : &cores.compute);
    return cores;
}

void cores_bind(const cpu_set_t *set)
{
    pthread_setaffinity_np(pthread_self(), sizeof *set, set);
}
