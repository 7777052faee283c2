/* An iteration cut into windows, for the lower bound of its time. A window begins with an operator
 * on the device, or when the device has done all that is before the update; it ends where the next
 * one begins, and the last wraps round. */
#ifndef PSTAR_PLANNER_PROOF_WINDOWS_H
#define PSTAR_PLANNER_PROOF_WINDOWS_H

#include "chunks/certificate.h"
#include "planner/schedule/reuse.h"

/* What is limited in a window: nanoseconds of four resources, and bytes of room at its start. */
enum window_resource {
    WINDOW_COMPUTE,
    WINDOW_H2D,
    WINDOW_D2H,
    WINDOW_HOST,
    WINDOW_ROOM,
    WINDOW_USES
};

struct time_window {
    uint32_t moment; /* of the operator that it begins with, or of the first update */
    uint64_t room;   /* there, beside non-model data and that operator's own chunks; at the update,
                        all that anything could take */
    bool of_update;  /* it begins before its operator has what it needs */
};

struct time_windows {
    uint32_t count, moment_count;
    struct time_window *items;
    uint16_t *of_moment; /* [moment_count]; those before the first window's are of the last */
};

#define TIME_WINDOWS_MOST 60 /* of a certificate */

/* The moments at which windows should begin: in each of at most `most` equal stretches of forward
 * and backward, the operator on the device that leaves the least room; and the first update, if
 * nothing but updates follows. Appends them to `moments` (uint32_t), ascending; none where forward
 * and backward have none. */
void time_windows_choose(const struct trace *trace, const struct reuses *reuses, uint32_t most,
                         GArray *moments);

/* Whether windows can begin at these moments: ascending, and each one that windows_choose could
 * choose, the first of forward or backward. */
bool time_windows_are_possible(const struct trace *trace, const uint32_t *moments, uint32_t count);

struct time_windows *time_windows_new(const struct trace *trace, const struct reuses *reuses,
                                      const uint32_t *moments, uint32_t count);
void time_windows_free(struct time_windows *windows);

/* Moments in the order in which they follow the first window's beginning. */
uint32_t time_windows_moment(const struct time_windows *windows, uint32_t position);

#endif
