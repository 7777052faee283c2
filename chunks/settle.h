/* Which departures copy and which flushes are needed, once it is decided who comes and goes. */
#ifndef PSTAR_CHUNKS_SETTLE_H
#define PSTAR_CHUNKS_SETTLE_H

#include "chunks/decide.h"

/* Gives each departure of the schedule its kind, a write-back of what is dirty and a drop of what
 * is not, and takes out flushes of clean chunks. */
void decisions_settle(struct decisions *decisions, const struct accesses *accesses);

#endif
