#include "collect/open_ranges.h"

#include <unistd.h>

struct thread {
    uint32_t id;
    GArray *open; /* of struct open_range, the innermost last */
};

static void free_thread(void *data)
{
    struct thread *thread = (struct thread *)data;
    g_array_unref(thread->open);
    g_free(thread);
}

static struct thread *this_thread(void)
{
    static GPrivate key = G_PRIVATE_INIT(free_thread);
    struct thread *thread = (struct thread *)g_private_get(&key);
    if (!thread) {
        thread = g_new(struct thread, 1);
        thread->id = (uint32_t)gettid();
        thread->open = g_array_new(false, false, sizeof(struct open_range));
        g_private_set(&key, thread);
    }
    return thread;
}

uint32_t open_ranges_thread(void)
{
    return this_thread()->id;
}

int open_ranges_push(const struct open_range *range)
{
    GArray *open = this_thread()->open;
    g_array_append_val(open, *range);
    return (int)open->len - 1;
}

int open_ranges_pop(const struct collector_domain *domain, struct open_range *range,
                    uint32_t *place)
{
    GArray *open = this_thread()->open;
    guint i = open->len;
    while (i > 0 && g_array_index(open, struct open_range, i - 1).domain != domain)
        i--;
    if (i == 0)
        return -1;
    *range = g_array_index(open, struct open_range, i - 1);
    g_array_remove_index(open, i - 1);
    *place = i - 1;
    return (int)open->len;
}

uint32_t open_ranges_count(void)
{
    return this_thread()->open->len;
}

const struct open_range *open_ranges_at(uint32_t place)
{
    return &g_array_index(this_thread()->open, struct open_range, place);
}
