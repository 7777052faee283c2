#include "engine/cuda/nccl.h"

#include "engine/device.h"

#include <dlfcn.h>
#include <string.h>

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* The library stays loaded: a communicator's threads may outlive it. */
bool nccl_load(struct nccl *nccl, GError **error)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library && find(library, "ncclGetUniqueId", &nccl->get_unique_id) &&
        find(library, "ncclCommInitRank", &nccl->comm_init_rank) &&
        find(library, "ncclCommDestroy", &nccl->comm_destroy) &&
        find(library, "ncclGroupStart", &nccl->group_start) &&
        find(library, "ncclGroupEnd", &nccl->group_end) && find(library, "ncclSend", &nccl->send) &&
        find(library, "ncclRecv", &nccl->receive) &&
        find(library, "ncclGetErrorString", &nccl->get_error_string))
        return true;
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE,
                "several ranks on GPUs need NCCL 2.7 or later: %s", dlerror());
    return false;
}
