/* The figures of one iteration: bytes over the link, copies, peaks of memory and times.
 *
 * Plans, sweeps, training logs and reports hold the same figures under the same names. Each figure
 * is one line of the table below; everybody else loops over the table. */
#ifndef PSTAR_CHUNKS_FIGURES_H
#define PSTAR_CHUNKS_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FIGURE(name, label, unit, kind, presence)
 *   name      the field of struct plan_figures, and the key in files
 *   label     for tables that people read
 *   unit      BYTES, COUNT or SECONDS; a field in SECONDS is a double, all others are uint64_t
 *   kind      SUM over the iteration, or its PEAK
 *   presence  REQUIRED in files; an OPTIONAL one is left out if it is 0, and reads as 0 from files
 *             that lack it, as those do that were written before a figure was introduced
 * To add a figure, add a line here and count it where it happens. */
/* clang-format off */
#define PLAN_FIGURES(FIGURE)                                                                       \
    /* over the link: chunks, and activations of operators on the host */                          \
    FIGURE(h2d_bytes, "H2D", BYTES, SUM, REQUIRED)                                                 \
    FIGURE(d2h_bytes, "D2H", BYTES, SUM, REQUIRED)                                                 \
    /* copies of chunks only */                                                                    \
    FIGURE(h2d_copies, "H2D copies", COUNT, SUM, REQUIRED)                                         \
    FIGURE(d2h_copies, "D2H copies", COUNT, SUM, REQUIRED)                                         \
    /* chunks that left the device, with or without a copy */                                      \
    FIGURE(evictions, "Evictions", COUNT, SUM, REQUIRED)                                           \
    /* from one address on the device to another */                                                \
    FIGURE(moves, "Device moves", COUNT, SUM, REQUIRED)                                            \
    FIGURE(moved_bytes, "Moved on the device", BYTES, SUM, REQUIRED)                               \
    /* when an operator starts: the end of the highest chunk plus the extent of non-model data */  \
    FIGURE(peak_device_bytes, "Device peak, by address", BYTES, PEAK, REQUIRED)                    \
    /* when an operator starts: the sum of the slots in use and of live non-model data */          \
    FIGURE(peak_live_device_bytes, "Device peak, live bytes", BYTES, PEAK, REQUIRED)               \
    /* slots of host-homed chunks, and staging of operators on the host */                         \
    FIGURE(peak_host_bytes, "Host peak", BYTES, PEAK, REQUIRED)                                    \
    /* times are 0 where no clock has predicted them; stalls are compute that waits for copies */  \
    FIGURE(stall_seconds, "Stall", SECONDS, SUM, REQUIRED)                                         \
    FIGURE(iteration_seconds, "Step time", SECONDS, SUM, REQUIRED)                                 \
    /* several ranks: gathers of whole parameters, and what the first rank exchanges with others */ \
    FIGURE(gathers, "Gathers", COUNT, SUM, OPTIONAL)                                               \
    FIGURE(sent_bytes, "Sent to other ranks", BYTES, SUM, OPTIONAL)                                \
    FIGURE(received_bytes, "Received", BYTES, SUM, OPTIONAL)                                       \
    /* chunks at home in NVMe */                                                                   \
    FIGURE(nvme_read_bytes, "Read from NVMe", BYTES, SUM, OPTIONAL)                                \
    FIGURE(nvme_write_bytes, "Written to NVMe", BYTES, SUM, OPTIONAL)                              \
    FIGURE(peak_nvme_bytes, "NVMe peak", BYTES, PEAK, OPTIONAL)

#define FIGURE_TYPE_BYTES   uint64_t
#define FIGURE_TYPE_COUNT   uint64_t
#define FIGURE_TYPE_SECONDS double
/* clang-format on */

/* An iteration in the steady state. A plan holds the predicted figures, a training log the measured
 * ones. */
struct plan_figures {
#define FIGURE(name, label, unit, kind, presence) FIGURE_TYPE_##unit name;
    PLAN_FIGURES(FIGURE)
#undef FIGURE
};

enum figure_unit { FIGURE_BYTES, FIGURE_COUNT, FIGURE_SECONDS };
enum figure_kind { FIGURE_SUM, FIGURE_PEAK };
enum figure_presence { FIGURE_REQUIRED, FIGURE_OPTIONAL };

/* One line of the table. */
struct plan_figure {
    const char *name;  /* "h2d_bytes" */
    const char *label; /* "H2D" */
    size_t offset;     /* into struct plan_figures */
    enum figure_unit unit;
    enum figure_kind kind;
    enum figure_presence presence;
};

/* All figures, in the order of every table and file; the entry after the last has no name. */
extern const struct plan_figure plan_figure_table[];

/* Returns the figure of this name, or NULL. */
const struct plan_figure *figures_find(const char *name);

/* Returns a figure that is not in seconds. */
uint64_t figures_count(const struct plan_figures *figures, const struct plan_figure *figure);

/* Returns any figure as a double, which is exact below 2^53. */
double figures_value(const struct plan_figures *figures, const struct plan_figure *figure);

/* Sets a figure that is in seconds. */
void figures_set_seconds(struct plan_figures *figures, const struct plan_figure *figure,
                         double seconds);

/* Returns whether both have an optional figure that is 0: it says nothing about them. */
bool figures_lack(const struct plan_figures *a, const struct plan_figures *b,
                  const struct plan_figure *figure);

/* Returns the bytes over the link in both directions. */
uint64_t figures_traffic(const struct plan_figures *figures);

/* Returns the first figure that differs, or NULL. Times are not compared: they are predicted or
 * measured, while all other figures are known exactly. */
const struct plan_figure *figures_first_difference(const struct plan_figures *a,
                                                   const struct plan_figures *b);
/* Returns whether all figures but times are the same. */
bool figures_equal(const struct plan_figures *a, const struct plan_figures *b);

/* Returns a new object with the figures in the order of the table. */
json_t *figures_to_json(const struct plan_figures *figures);

/* Reads all figures from an object, which may hold other members. Fails if a required one is
 * missing, or if one is negative or of another type: then *bad is that figure, and *figures is
 * unchanged. */
bool figures_from_json(const json_t *object, struct plan_figures *figures,
                       const struct plan_figure **bad);

#endif
