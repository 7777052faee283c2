#include "report/palette.h"

#include <string.h>

struct maker_style {
    const char *maker;
    const char *colour;
    int point;
};

static const struct maker_style known_makers[] = {
    {"policy fifo", "#56b4e9", 5},
    {"policy lru", "#009e73", 7},
    {"policy lfu", "#e69f00", 11},
    {"policy clock", "#8c6d1f", 4},
    {"policy arc", "#a8a100", 8},
    {"policy s3fifo", "#44aa99", 6},
    {"policy sieve", "#882255", 10},
    {"policy random", "#7f7f7f", 14},
    {"policy patrickstar", "#cc79a7", 13},
    {"policy opt", "#0072b2", 9},
    {"policy opt-dirty", PALETTE_INK, 12},
    {"planner", PALETTE_PLAN, 15},
    {"resident", PALETTE_INK, 5},
    {"patrickstar", "#cc79a7", 13},
    {"gemini-static", "#a8a100", 10},
    {"gemini-auto", "#9488d4", 12},
    {"zero-offload", "#8c6d1f", 4},
    {"zero3-offload", "#882255", 6},
    {"twinflow", "#44aa99", 8},
    {"interleave", "#e69f00", 11},
    {"fsdp-offload", "#7f7f7f", 14},
};

static const struct maker_style other_makers[] = {
    {NULL, "#e69f00", 11}, {NULL, "#8c6d1f", 4}, {NULL, "#7f7f7f", 6}, {NULL, "#a8a100", 8}};

const char *palette_list(enum trace_list list)
{
    static const char *const colours[TRACE_ACCESS_LISTS] = {
        [TRACE_PARAM] = "#0072b2",   [TRACE_GRAD] = "#d55e00",       [TRACE_MASTER] = "#56b4e9",
        [TRACE_EXP_AVG] = "#009e73", [TRACE_EXP_AVG_SQ] = "#cc79a7", [TRACE_ACTIVATION] = "#e69f00",
    };
    return colours[list];
}

const char *palette_strip(enum strip strip)
{
    static const char *const colours[STRIPS] = {
        [STRIP_COMPUTE] = "#0072b2", [STRIP_H2D] = "#56b4e9",     [STRIP_D2H] = "#009e73",
        [STRIP_HOST] = "#e69f00",    [STRIP_NETWORK] = "#cc79a7", [STRIP_WAIT] = "#d55e00",
    };
    return colours[strip];
}

const char *palette_link(unsigned number)
{
    static const char *const purples[] = {"#5b4ba8", "#9488d4", "#332277"};
    return purples[(number - 1) % G_N_ELEMENTS(purples)];
}

const char *palette_compute(enum trace_phase phase)
{
    static const char *const blues[] = {"#6cb4e0", "#0072b2", "#2b4a7d"};
    return blues[phase];
}

const char *palette_wait(int cause)
{
    static const char *const reds[STRIPS + 1] = {
        [STRIP_COMPUTE] = "#c2857a", [STRIP_H2D] = "#d55e00",     [STRIP_D2H] = "#f0a777",
        [STRIP_HOST] = "#9c3a1a",    [STRIP_NETWORK] = "#b0416b", [STRIP_UNKNOWN] = "#c2857a",
    };
    return reds[cause];
}

static const struct maker_style *style_of(const char *maker)
{
    const char *name = maker ? maker : "";
    size_t length = strcspn(name, ":"); /* a strategy's parameter is no part of its looks */
    for (size_t i = 0; i < G_N_ELEMENTS(known_makers); i++)
        if (strlen(known_makers[i].maker) == length &&
            !strncmp(known_makers[i].maker, name, length))
            return &known_makers[i];
    return &other_makers[g_str_hash(name) % G_N_ELEMENTS(other_makers)];
}

const char *palette_maker(const char *maker)
{
    return style_of(maker)->colour;
}

int palette_maker_point(const char *maker)
{
    return style_of(maker)->point;
}
