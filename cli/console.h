/* What a program says on standard error. Each message is one line that begins with the program's
 * name, which is coloured on a terminal (base/terminal.h). Names and values of files stand in
 * messages, so each is made printable (base/printable.h), with spaces for ends of lines, and cut
 * in the middle if it is longer than 1,000 characters. */
#ifndef PSTAR_CLI_CONSOLE_H
#define PSTAR_CLI_CONSOLE_H

#include <glib.h>
#include <stdbool.h>

struct console {
    const char *program; /* "pstar-sim" */
    bool quiet, verbose; /* of --quiet and --verbose; at most one */
};

/* Says why the program fails, or why a part of its work fails. */
void console_error(const struct console *console, const char *message);

/* Says that something is not as it was asked for. The program goes on. */
G_GNUC_PRINTF(2, 3)
void console_warn(const struct console *console, const char *format, ...);

/* Says what a reader of the results should know. With --quiet nothing is said. */
G_GNUC_PRINTF(2, 3)
void console_note(const struct console *console, const char *format, ...);

/* Says what the program does. Only with --verbose something is said. */
G_GNUC_PRINTF(2, 3)
void console_detail(const struct console *console, const char *format, ...);

#endif
