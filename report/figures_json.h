/* An iteration's figures as files carry them: struct plan_figures by the names of its fields. */
#ifndef PSTAR_REPORT_FIGURES_JSON_H
#define PSTAR_REPORT_FIGURES_JSON_H

#include "chunks/plan.h"

#include <jansson.h>

/* One figure of a struct plan_figures. */
struct figure_field {
    const char *name;  /* in files: "h2d_bytes" */
    const char *label; /* for people: "H2D bytes" */
    size_t offset;     /* into struct plan_figures: a double where `seconds`, else a uint64_t */
    bool seconds;
    bool bytes; /* a size, not a count */
};

/* In the order of tables; the last has no name. */
extern const struct figure_field figure_fields[];

/* The value as a double: exact for what is below 2^53. */
double figure_value(const struct plan_figures *figures, const struct figure_field *field);

/* "1.46 GiB", "1,234", "312 ms". Free with g_free. */
char *figure_format(const struct plan_figures *figures, const struct figure_field *field);

/* H2D and D2H together. */
uint64_t figures_traffic(const struct plan_figures *figures);

/* Reads all figures of an object. False, with *missing naming the first one that is absent or
 * of another type, where any is. */
bool figures_from_json(const json_t *object, struct plan_figures *figures, const char **missing);

/* A new object of them all. */
json_t *figures_to_json(const struct plan_figures *figures);

#endif
