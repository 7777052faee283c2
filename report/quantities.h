/* The quantities of an iteration: the fields of struct plan_figures, by the names that files give
 * them. */
#ifndef PSTAR_REPORT_QUANTITIES_H
#define PSTAR_REPORT_QUANTITIES_H

#include "chunks/plan.h"

#include <jansson.h>

enum quantity_unit { QUANTITY_BYTES, QUANTITY_COUNT, QUANTITY_SECONDS };

struct quantity {
    const char *name;        /* in files: "h2d_bytes" */
    const char *label;       /* for people: "H2D" */
    size_t offset;           /* into struct plan_figures */
    enum quantity_unit unit; /* the field is a double for seconds, else a uint64_t */
};

/* In the order of tables; the last has no name. */
extern const struct quantity quantities[];

/* The value as a double: exact for what is below 2^53. */
double quantity_value(const struct plan_figures *figures, const struct quantity *quantity);

/* "1.46 GiB", "1,234", "312 ms". Free with g_free. */
char *quantity_format(const struct plan_figures *figures, const struct quantity *quantity);

/* Sets a quantity in seconds. */
void quantity_set_seconds(struct plan_figures *figures, const struct quantity *quantity,
                          double seconds);

/* H2D and D2H together. */
uint64_t quantity_traffic(const struct plan_figures *figures);

/* Reads all quantities of an object. False, with *missing naming the first one that is absent or of
 * another type, where any is; *figures is left alone then. */
bool quantities_from_json(const json_t *object, struct plan_figures *figures, const char **missing);

/* A new object of them all. */
json_t *quantities_to_json(const struct plan_figures *figures);

#endif
