/* A line about long work on a terminal, and a person's Ctrl-C. */
#ifndef PSTAR_SIM_PROGRESS_H
#define PSTAR_SIM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress;

/* From now on an interrupt (SIGINT) does not end the program: progress_update tells of it. Call it
 * before threads are made. `what` begins the line: "configurations". */
struct progress *progress_begin(const char *what);

/* Draws the line if stderr is a terminal. Returns false when an interrupt has come: the work should
 * stop and keep what it has. `data` is the struct progress, so that this function serves as a
 * callback. */
bool progress_update(void *data, uint32_t done, uint32_t total);

/* Clears the line, and lets interrupts end the program again. */
void progress_end(struct progress *progress);

#endif
