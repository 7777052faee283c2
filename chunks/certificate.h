/* A plan's certificate: lower bounds that hold for any schedule with the plan's layout, what the
 * plan achieves, and the prices from which anybody recomputes the bounds (planner/certificate.h).
 * In plan.json it is the key `certificate`; docs/formats.md describes it. */
#ifndef PSTAR_CHUNKS_CERTIFICATE_H
#define PSTAR_CHUNKS_CERTIFICATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define CERTIFICATE_SEAL_DIGITS 64 /* SHA-256, in hexadecimal */

/* A byte of room at a moment; BOUND_PRICE_SCALE is a byte of traffic. */
struct certificate_price {
    uint32_t moment;
    uint64_t price;
};

struct certificate_traffic {
    uint64_t achieved, bound;         /* bytes */
    struct certificate_price *prices; /* [price_count] moments ascending; of all others 0 */
    uint32_t price_count;
};

struct certificate {
    char *trace_sha256; /* of the trace's file; NULL: it was made in memory */
    char *platform;     /* contents of the platform's file; NULL: none */
    char *link;         /* as --link says; NULL: none */
    struct certificate_traffic traffic;
};

/* How far above the bound: 0.01 is one per cent; INFINITY above a bound of 0. */
double certificate_gap(uint64_t achieved, uint64_t bound);

void certificate_free(struct certificate *certificate);

/* Writes the seal into the text of a plan, in which its digits are 0: the SHA-256 of that text. */
void certificate_seal(char *text);

/* Whether a plan's file is, byte by byte, as it was sealed. PLAN_ERROR_INVALID, also where it has
 * no seal. */
bool certificate_check_seal(const char *path, GError **error);

/* The SHA-256 of a file, in hexadecimal; NULL where it cannot be read. Free with g_free. */
char *certificate_hash_file(const char *path, GError **error);

#endif
