#include "cli/console.h"

#include "base/printable.h"
#include "base/terminal.h"

#include <stdarg.h>
#include <stdio.h>

static void say(const struct console *console, enum terminal_style style, const char *message)
{
    enum { MOST = 1000 };
    g_autofree char *spaced = g_strdelimit(g_strdup(message), "\n", ' ');
    g_autofree char *line = text_shortened(spaced, MOST);
    fprintf(stderr, "%s%s:%s %s\n", terminal_begin(stderr, style), console->program,
            terminal_end(stderr), line);
}

static void say_formatted(const struct console *console, enum terminal_style style,
                          const char *format, va_list arguments) G_GNUC_PRINTF(3, 0);
static void say_formatted(const struct console *console, enum terminal_style style,
                          const char *format, va_list arguments)
{
    g_autofree char *message = g_strdup_vprintf(format, arguments);
    say(console, style, message);
}

void console_error(const struct console *console, const char *message)
{
    say(console, TERMINAL_ERROR, message);
}

void console_warn(const struct console *console, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_formatted(console, TERMINAL_WARNING, format, arguments);
    va_end(arguments);
}

void console_note(const struct console *console, const char *format, ...)
{
    va_list arguments;
    if (console->quiet)
        return;
    va_start(arguments, format);
    say_formatted(console, TERMINAL_NOTE, format, arguments);
    va_end(arguments);
}

void console_detail(const struct console *console, const char *format, ...)
{
    va_list arguments;
    if (!console->verbose)
        return;
    va_start(arguments, format);
    say_formatted(console, TERMINAL_NOTE, format, arguments);
    va_end(arguments);
}
