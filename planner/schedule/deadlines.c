#include "planner/schedule/deadlines.h"

#include <stdbool.h>

static struct deadline *at(const GArray *deadlines, guint place)
{
    return &g_array_index(deadlines, struct deadline, place);
}

static bool comes_before(const GArray *deadlines, guint left, guint right)
{
    const struct deadline *a = at(deadlines, left), *b = at(deadlines, right);
    return a->moment != b->moment ? a->moment < b->moment : a->index < b->index;
}

static void swap(GArray *deadlines, guint left, guint right)
{
    struct deadline kept = *at(deadlines, left);
    *at(deadlines, left) = *at(deadlines, right);
    *at(deadlines, right) = kept;
}

GArray *deadlines_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(struct deadline));
}

void deadlines_add(GArray *deadlines, struct deadline deadline)
{
    g_array_append_val(deadlines, deadline);
    for (guint place = deadlines->len - 1, parent; place; place = parent) {
        parent = (place - 1) / 2;
        if (!comes_before(deadlines, place, parent))
            return;
        swap(deadlines, place, parent);
    }
}

uint32_t deadlines_first(const GArray *deadlines)
{
    return at(deadlines, 0)->index;
}

uint32_t deadlines_take(GArray *deadlines)
{
    uint32_t first = deadlines_first(deadlines);
    g_array_remove_index_fast(deadlines, 0); /* the last one is the root now */
    for (guint place = 0, least = 0;; place = least) {
        for (guint child = 2 * place + 1; child <= 2 * place + 2 && child < deadlines->len; child++)
            if (comes_before(deadlines, child, least))
                least = child;
        if (least == place)
            return first;
        swap(deadlines, place, least);
    }
}
