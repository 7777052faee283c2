/* Names of enumerations, in tables, files and messages. */
#include "traces/trace.h"

#include <string.h>

static const char *const lists[TRACE_ACCESS_LISTS] = {"param",   "grad",       "master",
                                                      "exp_avg", "exp_avg_sq", "activation"};
static const char *const modes[] = {"read", "update", "overwrite"};
static const char *const phases[] = {"forward", "backward", "update"};
static const char *const places[] = {"device", "host"};

static bool find(const char *const *names, size_t count, const char *name, uint8_t *number)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            *number = (uint8_t)i;
            return true;
        }
    return false;
}

const char *trace_list_name(enum trace_list list)
{
    g_assert((size_t)list < G_N_ELEMENTS(lists));
    return lists[list];
}

bool trace_list_parse(const char *name, uint8_t *list)
{
    return find(lists, TRACE_LISTS, name, list);
}

bool trace_access_list_parse(const char *name, uint8_t *list)
{
    return find(lists, G_N_ELEMENTS(lists), name, list);
}

const char *trace_mode_name(enum trace_mode mode)
{
    g_assert((size_t)mode < G_N_ELEMENTS(modes));
    return modes[mode];
}

bool trace_mode_parse(const char *name, uint8_t *mode)
{
    return find(modes, G_N_ELEMENTS(modes), name, mode);
}

const char *trace_phase_name(enum trace_phase phase)
{
    g_assert((size_t)phase < G_N_ELEMENTS(phases));
    return phases[phase];
}

bool trace_phase_parse(const char *name, uint8_t *phase)
{
    return find(phases, G_N_ELEMENTS(phases), name, phase);
}

const char *trace_place_name(enum trace_place place)
{
    g_assert((size_t)place < G_N_ELEMENTS(places));
    return places[place];
}

bool trace_place_parse(const char *name, uint8_t *place)
{
    return find(places, G_N_ELEMENTS(places), name, place);
}
