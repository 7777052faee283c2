#include "collect/own_memory.h"

struct device_bytes {
    uint32_t device;
    uint64_t free_bytes; /* before */
    uint64_t own_bytes;
};

struct own_memory {
    GMutex lock;     /* of what follows */
    GArray *devices; /* of struct device_bytes, that have a context */
};

struct own_memory *own_memory_new(void)
{
    struct own_memory *own = g_new0(struct own_memory, 1);
    g_mutex_init(&own->lock);
    own->devices = g_array_new(FALSE, FALSE, sizeof(struct device_bytes));
    return own;
}

/* NULL: it is not there. */
static struct device_bytes *find(const struct own_memory *own, uint32_t device)
{
    for (guint i = 0; i < own->devices->len; i++) {
        struct device_bytes *there = &g_array_index(own->devices, struct device_bytes, i);
        if (there->device == device)
            return there;
    }
    return NULL;
}

void own_memory_before(struct own_memory *own, const struct cuda_driver *driver,
                       const GPtrArray *contexts)
{
    g_mutex_lock(&own->lock);
    for (guint i = 0; i < contexts->len; i++) {
        struct device_bytes found = {0};
        if (cuda_driver_free_bytes(driver, g_ptr_array_index(contexts, i), &found.device,
                                   &found.free_bytes) &&
            !find(own, found.device))
            g_array_append_val(own->devices, found);
    }
    g_mutex_unlock(&own->lock);
}

uint64_t own_memory_after(struct own_memory *own, const struct cuda_driver *driver,
                          const GPtrArray *contexts)
{
    uint64_t all = 0;
    g_mutex_lock(&own->lock);
    for (guint i = 0; i < contexts->len; i++) {
        uint32_t device;
        uint64_t left;
        struct device_bytes *there = NULL;
        if (cuda_driver_free_bytes(driver, g_ptr_array_index(contexts, i), &device, &left))
            there = find(own, device);
        if (there && there->free_bytes > left)
            there->own_bytes = there->free_bytes - left;
    }
    for (guint i = 0; i < own->devices->len; i++)
        all += g_array_index(own->devices, struct device_bytes, i).own_bytes;
    g_mutex_unlock(&own->lock);
    return all;
}

uint64_t own_memory_of(struct own_memory *own, uint32_t device)
{
    g_mutex_lock(&own->lock);
    const struct device_bytes *there = find(own, device);
    uint64_t bytes = !there ? 0 : there->own_bytes;
    g_mutex_unlock(&own->lock);
    return bytes;
}
