#include "base/seconds.h"

#include <glib.h>
#include <math.h>

char *seconds_format(double seconds)
{
    enum { USUAL = 4, MOST = 7 };
    int decimals = USUAL;
    /* 0.0099996 would print as 0.01000. */
    for (double least = 0.0099995; decimals < MOST && seconds > 0 && seconds < least; least /= 10)
        decimals++;
    return g_strdup_printf("%.*f", decimals, seconds);
}
