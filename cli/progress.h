/* Shows the progress of long work on a terminal, and handles Ctrl-C. */
#ifndef PSTAR_CLI_PROGRESS_H
#define PSTAR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress;

/* `what` names the pieces of work: "configurations". With `catch_interrupts`, from now on an
 * interrupt (SIGINT) does not end the program: progress_update and progress_show report it. A
 * second interrupt ends the program. Call this before threads are made. */
struct progress *progress_begin(const char *what, bool catch_interrupts);

/* Returns whether stderr is a terminal. */
bool progress_is_shown(void);

/* Draws how many pieces of work are done, and the time that is left if the rest goes on at the same
 * rate. Returns false when an interrupt has come: the work should stop and keep what it has. `data`
 * is the struct progress, so that this function serves as a callback. */
bool progress_update(void *data, uint32_t done, uint32_t total);

/* Draws the line with this time left. `detail` may be NULL. Returns false as progress_update does.
 */
bool progress_show(struct progress *progress, uint64_t done, uint64_t total, const char *detail,
                   double seconds_left);

/* Clears the line, and lets interrupts end the program again. `progress` may be NULL. */
void progress_end(struct progress *progress);

#endif
