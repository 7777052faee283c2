/* Texts of files, made safe to show: they cannot command a terminal, forge a line, or reverse or
 * hide what stands around them. Everything that a program prints from a file passes through here.
 */
#ifndef PSTAR_BASE_PRINTABLE_H
#define PSTAR_BASE_PRINTABLE_H

#include <glib.h>
#include <jansson.h>
#include <stdio.h>

/* Returns valid UTF-8 in one line; bad bytes, control characters, ends of lines and characters that
 * only format become U+FFFD. NULL gives "". Free with g_free. */
char *text_printable(const char *text);

/* The same, but ends of lines and tabs stay. */
char *text_printable_lines(const char *text);

/* Returns the text as a JSON string. Bad bytes become U+FFFD; all else stays. NULL gives null. */
json_t *text_to_json(const char *text);

/* Returns printable text cut in the middle to at most `length` characters (>= 3), with "…" for the
 * rest. Free with g_free. */
char *text_shortened(const char *text, size_t length);

/* Prints one line, printable and shortened to 1,000 characters. The format has no end of line. */
G_GNUC_PRINTF(2, 3)
void text_print_line(FILE *out, const char *format, ...);

#endif
