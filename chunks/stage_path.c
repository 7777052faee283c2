#include "chunks/stage_path.h"

#include <string.h>

static const char place[] = "%s";

bool stage_path_has_place(const char *pattern)
{
    return strstr(pattern, place) != NULL;
}

char *stage_path(const char *pattern, uint32_t stage)
{
    g_autofree char *number = g_strdup_printf("%u", stage);
    g_auto(GStrv) pieces = g_strsplit(pattern, place, -1);
    return g_strjoinv(number, pieces);
}
