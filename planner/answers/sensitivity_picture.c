#include "chunks/plan.h"
#include "planner/answers/sensitivity.h"
#include "traces/output_file.h"
#include "traces/size.h"

#include <glib/gstdio.h>
#include <unistd.h>

static const char style[] =
    "set terminal svg size 820,460 dynamic enhanced font 'Helvetica,14' background '#ffffff'\n"
    "set title 'What more device memory or a faster link would buy'\n"
    "set xlabel 'device memory (GiB)'\n"
    "set ylabel 'iteration (s)'\n"
    "set border 3 lc rgb '#555555'\n"
    "set tics nomirror out\n"
    "set grid ytics lc rgb '#dddddd' lt 1\n"
    "set key inside top right reverse Left\n"
    "set yrange [0:*]\n"
    "set offsets graph 0.02, graph 0.02, graph 0.1, 0\n";

static const char *const colours[SENSITIVITY_LINKS] = {"#1f5fa8", "#c2571a"};

static char *title(uint32_t link)
{
    return link ? g_strdup_printf("a link %g times as fast", sensitivity_links[link])
                : g_strdup("the link as it is");
}

static GString *script(const struct sensitivity *s, uint64_t device_budget, const char *path)
{
    GString *text = g_string_new(style);
    g_autoptr(GString) quoted = g_string_new(path);

    g_string_replace(quoted, "'", "''", 0); /* as gnuplot's single quotes want it */
    g_string_append_printf(text, "set output '%s'\n$times << END\n", quoted->str);
    for (uint32_t m = 0; m < SENSITIVITY_MEMORIES; m++) {
        g_string_append_printf(text, "%.6f", (double)(device_budget + s->more[m]) / 0x1p30);
        for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
            g_string_append_printf(text, " %.9g", s->seconds[l][m]);
        g_string_append_c(text, '\n');
    }
    g_string_append(text, "END\nplot");
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++) {
        g_autofree char *name = title(l);
        g_string_append_printf(text,
                               "%s $times using 1:%u with linespoints lw 2 pt 7 ps 0.7 "
                               "lc rgb '%s' title '%s'",
                               l ? "," : "", l + 2, colours[l], name);
    }
    return g_string_append_c(text, '\n');
}

static bool run_gnuplot(const char *file, GError **error)
{
    g_autofree char *program = g_find_program_in_path("gnuplot"), *complaint = NULL;
    char *command[] = {program, (char *)file, NULL};
    g_autoptr(GError) inner = NULL;
    int status = 0;

    if (!program) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "gnuplot is not in PATH: install it (Debian, Ubuntu: apt install gnuplot-nox)");
        return false;
    }
    if (g_spawn_sync(NULL, command, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &complaint,
                     &status, &inner) &&
        g_spawn_check_wait_status(status, &inner))
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "gnuplot: %s%s%s", inner->message,
                complaint && *complaint ? ": " : "", complaint ? g_strstrip(complaint) : "");
    return false;
}

bool sensitivity_draw(const struct sensitivity *sensitivity, uint64_t device_budget,
                      const char *path, GError **error)
{
    g_autoptr(GString) text = script(sensitivity, device_budget, path);
    g_autofree char *file = NULL;
    int fd;

    if (!output_file_has_place(path, error)) /* gnuplot would say so in several lines */
        return false;
    fd = g_file_open_tmp("pstar-XXXXXX.gp", &file, error);
    if (fd < 0)
        return false;
    close(fd);
    bool drawn = g_file_set_contents(file, text->str, (gssize)text->len, error) &&
                 run_gnuplot(file, error);
    g_remove(file);
    return drawn;
}
