/* Bold and coloured text on terminals that want it. */
#ifndef PSTAR_BASE_TERMINAL_H
#define PSTAR_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum terminal_style {
    TERMINAL_ERROR,   /* bold red: the program fails */
    TERMINAL_WARNING, /* bold yellow: something is not as it was asked for */
    TERMINAL_NOTE,    /* bold */
    TERMINAL_BEST     /* bold green: what the program chose */
};

/* Returns whether the stream is a terminal that understands how to move the cursor: TERM is set,
 * and is not "dumb". */
bool terminal_is_smart(FILE *stream);

/* Return the control sequences that begin a style and end it again. They are empty unless the
 * stream is a smart terminal and NO_COLOR is unset or empty (no-color.org). */
const char *terminal_begin(FILE *stream, enum terminal_style style);
const char *terminal_end(FILE *stream);

#endif
