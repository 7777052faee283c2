/* Shows the progress of long work, and handles the signals that ask a program to end. */
#ifndef PSTAR_CLI_PROGRESS_H
#define PSTAR_CLI_PROGRESS_H

#include "cli/console.h"

#include <stdint.h>

struct progress;

/* `what` names the pieces of work: "configurations". A terminal shows one line that changes;
 * without a terminal there is a line every few seconds. With --verbose there is one every second
 * that stays, and with --quiet there is none. The console must outlive the progress. With
 * `catch_signals`, from now on SIGINT, SIGTERM and SIGHUP do not end the program: progress_update,
 * progress_show and progress_signal report the first one, and a second one ends the program at
 * once. SIGUSR1 prints one line that stays, even with --quiet, when the next piece of work is done.
 * Signals that are ignored already, as SIGHUP is under nohup and SIGINT in the background of a
 * script, stay ignored. If no thread is left to listen, signals end the program. Call this before
 * threads are made.
 */
struct progress *progress_begin(const struct console *console, const char *what,
                                bool catch_signals);

/* As progress_begin with `catch_signals`, for work that writes the file `output` and asks nobody
 * whether to go on: the first signal removes what is written of it so far, and ends the program at
 * once with the status for that signal. SIGUSR1 is not caught. `output` must stay valid. */
struct progress *progress_begin_output(const struct console *console, const char *output);

/* Returns the signal that has come, or 0. */
int progress_signal(const struct progress *progress);

/* Draws how many pieces of work are done, and the time that is left if the rest goes on at the same
 * rate. Returns false when a signal has come: the work should stop and keep what it has. `data` is
 * the struct progress, so that this function serves as a callback. */
bool progress_update(void *data, uint32_t done, uint32_t total);

/* Draws the line with this time left. `detail` may be NULL; without a total it is all of the line.
 * Returns false as progress_update does. */
bool progress_show(struct progress *progress, uint64_t done, uint64_t total, const char *detail,
                   double seconds_left);

/* Clears the line, so that a message can be printed. `progress` may be NULL. */
void progress_clear(struct progress *progress);

/* Clears the line, and lets signals end the program again. `progress` may be NULL. */
void progress_end(struct progress *progress);

#endif
