/* Whether a CUPTI library writes its records as the headers say that this was built with. */
#ifndef PSTAR_COLLECT_CUPTI_SIZES_H
#define PSTAR_COLLECT_CUPTI_SIZES_H

#include <cupti_activity.h>
#include <glib.h>
#include <stdbool.h>

typedef CUptiResult (*cupti_next_record)(uint8_t *buffer, size_t valid_bytes,
                                         CUpti_Activity **record);

enum cupti_error {
    CUPTI_ERROR_LIBRARY, /* there is none, or a function of it is not there */
    CUPTI_ERROR_RECORDS, /* it writes other records than we can read */
    CUPTI_ERROR_CALL     /* it refused */
};
#define CUPTI_ERROR cupti_error_quark()
GQuark cupti_error_quark(void);

/* Measures with the library's own function: bytes[CUPTI_ACTIVITY_KIND_COUNT], 0 for kinds that we
 * do not read. Fails where a kind that we read has the size of no version whose fields are known to
 * lie where ours do. */
bool cupti_sizes_measure(cupti_next_record next, size_t *bytes, GError **error);

#endif
