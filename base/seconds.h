/* Times as tables and messages print them. */
#ifndef PSTAR_BASE_SECONDS_H
#define PSTAR_BASE_SECONDS_H

/* Returns the seconds with four decimals ("12.3457"), or with as many more, up to seven, as three
 * digits of a time below 10 ms need ("0.00357", "0.0000213"). The caller frees it with g_free. */
char *seconds_format(double seconds);

#endif
