/* Sizes and rates as people write them: 64MiB, 1.5GB, 12GB/s. */
#ifndef PSTAR_BASE_SIZE_H
#define PSTAR_BASE_SIZE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum size_error {
    SIZE_ERROR_SYNTAX, /* not a number with a unit */
    SIZE_ERROR_RANGE   /* does not fit in 64 bits, or a rate of zero */
};
#define SIZE_ERROR size_error_quark()
GQuark size_error_quark(void);

/* A decimal number ("64", "1.5", "2e9"), then a unit: B, kB, MB, GB, TB, PB (powers of 1000; KB is
 * kB, and the B may be left out: 2G), KiB, MiB, GiB, TiB, PiB (powers of 1024). One space may stand
 * before the unit, so that what size_format prints can be given back. Without a unit the number is
 * bytes, and must be 0 or at least 1024, without a point unless it has an exponent: who writes 10
 * or 0.5 means something else. A fraction of a byte is dropped. On error *bytes is left alone and
 * the message quotes the text. */
bool size_parse(const char *text, uint64_t *bytes, GError **error);

/* Parses a size followed by "/s", which must be greater than zero. */
bool rate_parse(const char *text, double *bytes_per_second, GError **error);

/* Rates of the copies to and from the device: "h2d=12GB/s,d2h=10GB/s", or one of the two. A rate
 * that is not given is left alone. Errors are SIZE_ERROR, and begin with --link. */
bool link_parse(const char *text, double *h2d, double *d2h, GError **error);

/* Returns a text like "512 B", "64 MiB" or "1.46 GiB", in the largest binary unit that gives at
 * least 1. It has two digits after the point unless both are exactly zero. Free with g_free. */
char *size_format(uint64_t bytes);

/* Returns exactly this size as a person would give it to an option: in the largest unit of which it
 * is a whole number, "40GB", "1200MiB", "3B". Free with g_free. */
char *size_exact(uint64_t bytes);

#endif
