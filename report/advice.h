/* What the files show, in words: why the step takes as long as it does, and what to change. */
#ifndef PSTAR_REPORT_ADVICE_H
#define PSTAR_REPORT_ADVICE_H

#include "report/contents.h"

/* Adds the verdict and all advice that can be given from the inputs and the replays. */
void advice_add(struct contents *contents);

/* Its parts: of the first step that was given; of plans and sweeps; of memory; of what to buy. */
void advice_add_waits(struct contents *contents);
void advice_add_choices(struct contents *contents);
void advice_add_memory(struct contents *contents);
void advice_add_hardware(struct contents *contents);

/* How much less time or traffic, in words: "12 %". Free with g_free. */
char *advice_gain(double less, double more);

/* Adds one, which may be completed until the next is; takes claim, detail and command over. */
struct advice *advice_append(struct contents *contents, double seconds, const char *figure,
                             char *claim, char *detail, char *command);

#endif
