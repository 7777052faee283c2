#include "chunks/packing_sections.h"

#include <glib.h>
#include <stdlib.h>

struct event {
    uint64_t time;
    uint32_t item;
    bool begins;
};

/* Ends before begins: lifetimes are half open. */
static int by_time(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)a->begins - (int)b->begins;
}

static struct event *sort_events(const struct packing_item *items, uint32_t count)
{
    struct event *events = g_new(struct event, 2 * (size_t)count);

    for (uint32_t i = 0; i < count; i++) {
        g_assert(items[i].begin < items[i].end && items[i].bytes);
        events[2 * i] = (struct event){items[i].begin, i, true};
        events[2 * i + 1] = (struct event){items[i].end, i, false};
    }
    qsort(events, 2 * (size_t)count, sizeof *events, by_time);
    return events;
}

static void sum_loads(struct packing_sections *sections, const struct packing_item *items,
                      uint32_t count)
{
    sections->load = g_new0(uint64_t, sections->count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t s = sections->from[i]; s < sections->to[i]; s++)
            sections->load[s] += items[i].bytes;
}

struct packing_sections *packing_sections_new(const struct packing_item *items, uint32_t count)
{
    struct packing_sections *sections = g_new0(struct packing_sections, 1);
    g_autofree struct event *events = count ? sort_events(items, count) : NULL;
    bool grown = false; /* since the section began */

    sections->from = g_new(uint32_t, count);
    sections->to = g_new(uint32_t, count);
    for (size_t e = 0; e < 2 * (size_t)count; e++)
        if (events[e].begins) {
            sections->from[events[e].item] = sections->count;
            grown = true;
        } else {
            sections->count += grown;
            grown = false;
            sections->to[events[e].item] = sections->count;
        }
    sum_loads(sections, items, count);
    return sections;
}

void packing_sections_free(struct packing_sections *sections)
{
    if (!sections)
        return;
    g_free(sections->from);
    g_free(sections->to);
    g_free(sections->load);
    g_free(sections);
}
