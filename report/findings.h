/* What the figures show, in words. */
#ifndef PSTAR_REPORT_FINDINGS_H
#define PSTAR_REPORT_FINDINGS_H

#include "report/contents.h"

/* Adds what can be said from the inputs, the replays and the pairs; and what cannot, with the
 * command that would make it possible. */
void findings_add(struct contents *contents);
void missing_add(struct contents *contents);

#endif
