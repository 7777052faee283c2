#include "tests/collect/process.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>

void set_up(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    fixture->folder = g_dir_make_tmp("pstar-collect-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, "run.pstar", NULL);
}

static void forget_run(struct fixture *fixture)
{
    g_clear_pointer(&fixture->output, g_free);
    g_clear_pointer(&fixture->errors, g_free);
}

void tear_down(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    forget_run(fixture);
    char *journal = g_strconcat(fixture->path, "-journal", NULL);
    g_unlink(journal);
    g_free(journal);
    g_unlink(fixture->path);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->folder);
    g_free(fixture->path);
}

static void run(struct fixture *fixture, const char *line)
{
    char **command;
    GError *error = NULL;
    forget_run(fixture);
    g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
    g_spawn_sync(fixture->folder, command, NULL, G_SPAWN_DEFAULT, fixture->before_exec, NULL,
                 &fixture->output, &fixture->errors, &fixture->status, &error);
    g_assert_no_error(error);
    g_strfreev(command);
}

void collect(struct fixture *fixture, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    g_autofree char *arguments = g_strdup_vprintf(format, list);
    va_end(list);
    g_autofree char *line = g_strconcat(COLLECT " ", arguments, NULL);
    run(fixture, line);
}

void run_line(struct fixture *fixture, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    g_autofree char *line = g_strdup_vprintf(format, list);
    va_end(list);
    run(fixture, line);
}

void assert_exit(const struct fixture *fixture, int code)
{
    if (!WIFEXITED(fixture->status) || WEXITSTATUS(fixture->status) != code)
        g_error("status %x instead of exit %d: %s", (unsigned)fixture->status, code,
                fixture->errors);
}

void assert_says(const struct fixture *fixture, const char *text)
{
    if (!strstr(fixture->errors, text))
        g_error("'%s' does not say '%s'", fixture->errors, text);
}

int count_lines(const char *text)
{
    int lines = 0;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    return lines;
}
