#include "report/figure.h"

#include "report/error.h"
#include "report/palette.h"
#include "report/text.h"

#include <string.h>

#define PIXELS_A_LINE 14 /* of characters */
#define LABEL_LINE    1  /* for the label below */

struct figure *figure_new(char *name, char *title)
{
    struct figure *figure = g_new0(struct figure, 1);
    figure->name = name;
    figure->title = title;
    figure->data = g_string_new(NULL);
    figure->setup = g_string_new(NULL);
    figure->drawing = g_string_new(NULL);
    return figure;
}

void figure_free(struct figure *figure)
{
    if (!figure)
        return;
    g_free(figure->name);
    g_free(figure->title);
    g_free(figure->alt);
    g_free(figure->caption);
    g_string_free(figure->data, TRUE);
    g_string_free(figure->setup, TRUE);
    g_string_free(figure->drawing, TRUE);
    g_free(figure->svg);
    g_free(figure->phone_svg);
    g_free(figure);
}

char *figure_name(const char *stem, unsigned number)
{
    return number ? g_strdup_printf("%s-%u", stem, number + 1) : g_strdup(stem);
}

char *figure_find_gnuplot(GError **error)
{
    char *path = g_find_program_in_path("gnuplot");
    if (!path)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED,
                    "gnuplot is not in PATH: install it (Debian, Ubuntu: apt install gnuplot-nox)");
    return path;
}

/* What all figures share, so that they look alike. */
static const char style[] = "set encoding utf8\n"
                            "ink = '" PALETTE_INK "'; muted = '" PALETTE_MUTED
                            "'; grid = '" PALETTE_GRID "'\n";

static const char page_style[] = "    reset\n"
                                 "    phone = page == 3\n"
                                 "    set border 3 lc rgb muted lw 1\n"
                                 "    set tics out nomirror scale 0.5 textcolor rgb ink\n"
                                 "    set grid ytics lc rgb grid lw 1 lt 1\n"
                                 "    set key outside below center horizontal reverse Left samplen "
                                 "1.5 spacing 1.2 textcolor rgb ink\n";

static void append_terminals(const struct figure *figure, GString *script)
{
    g_string_append_printf(script,
                           "    if (page == 1) {\n"
                           "        set terminal svg size %d,%d dynamic noenhanced rounded "
                           "font 'sans-serif,14' background '" PALETTE_PAPER "'\n"
                           "        set output '%s.svg'\n    }\n",
                           FIGURE_WIDE, figure->wide_height, figure->name);
    g_string_append_printf(script,
                           "    if (page == 2) {\n"
                           "        set terminal pngcairo size %d,%d noenhanced rounded "
                           "font 'sans-serif,14' fontscale 1.5 linewidth 2 pointscale 2 "
                           "background '" PALETTE_PAPER "'\n"
                           "        set output '%s.png'\n    }\n",
                           2 * FIGURE_WIDE, 2 * figure->wide_height, figure->name);
    g_string_append_printf(script,
                           "    if (page == 3) {\n"
                           "        set terminal svg size %d,%d dynamic noenhanced rounded "
                           "font 'sans-serif,12' background '" PALETTE_PAPER "'\n"
                           "        set output '%s-phone.svg'\n    }\n",
                           FIGURE_PHONE, figure->phone_height, figure->name);
}

static GString *script_begin(const struct figure *figure)
{
    GString *script = g_string_new(NULL);
    g_autofree char *title = text_printable(figure->title);
    g_string_append_printf(
        script,
        "# %s\n# Draw it again with: gnuplot %s.gp, from any folder\n"
        "own = '%s.gp'\n"
        "if (strlen(ARG0) > strlen(own) && ARG0[strlen(ARG0)-strlen(own)+1:*] eq "
        "own) { cd ARG0[1:strlen(ARG0)-strlen(own)] }\n",
        title, figure->name, figure->name);
    g_string_append(script, style);
    g_string_append_printf(script, "data = '%s.dat'\n", figure->name);
    g_string_append(script, figure->setup->str);
    return script;
}

static GString *script_of(const struct figure *figure)
{
    GString *script = script_begin(figure);
    g_string_append(script, "do for [page = 1:3] {\n");
    append_terminals(figure, script);
    g_string_append(script, page_style);
    g_string_append(script, figure->drawing->str);
    g_string_append(script, "    unset output\n}\n");
    return script;
}

static char *replaced(const char *line, const char *pattern, const char *with)
{
    g_autoptr(GRegex) regex = g_regex_new(pattern, 0, 0, NULL);
    return g_regex_replace_literal(regex, line, -1, 0, with, 0, NULL);
}

/* What would not show as characters: grids and what lies behind the data have no paler ones; boxes
 * are outlines, of a character each, since they are all filled with the same one; a label that is
 * moved by less than a line lies on the key. */
static void append_as_text(GString *script, const char *line)
{
    if (g_str_has_prefix(line, "set grid ") || g_str_has_prefix(line, "set object rectangle "))
        return;
    g_autofree char *text = strstr(line, "with box")
                                ? replaced(line, "fs [a-z0-9. ]*border", "fs empty border")
                            : strstr(line, "set xlabel ") ? replaced(line, " offset [0-9.,]+", "")
                                                          : g_strdup(line);
    g_string_append_printf(script, "%s\n", text);
}

/* gnuplot fills areas with X up to version 5, and from 6 on with what it is told. */
static void append_text_terminal(GString *script, int lines)
{
    g_string_append_printf(script,
                           "page = 4\nset terminal dumb noenhanced size %d,%d\n"
                           "if (GPVAL_VERSION >= 6) { set terminal dumb fillchar 'X' }\n",
                           FIGURE_COLUMNS, lines);
}

static GString *text_script_of(const struct figure *figure)
{
    GString *script = script_begin(figure), *drawing = g_string_new(page_style);
    g_string_append(drawing, figure->drawing->str);
    append_text_terminal(script, LABEL_LINE + figure->wide_height / PIXELS_A_LINE);
    g_auto(GStrv) lines = g_strsplit(drawing->str, "\n", -1);
    for (size_t i = 0; lines[i]; i++)
        append_as_text(script, g_strchug(lines[i]));
    g_string_free(drawing, TRUE);
    return script;
}

static bool write_file(const char *folder, const char *name, const char *suffix,
                       const GString *text, GError **error)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    g_autofree char *path = g_build_filename(folder, file, NULL);
    GError *inner = NULL;
    if (g_file_set_contents(path, text->str, (gssize)text->len, &inner))
        return true;
    g_set_error_literal(error, REPORT_ERROR, REPORT_ERROR_FAILED, inner->message);
    g_error_free(inner);
    return false;
}

static char *read_back(const char *folder, const char *name, const char *suffix, GError **error)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    g_autofree char *path = g_build_filename(folder, file, NULL);
    char *text = NULL;
    gsize length = 0;
    if (g_file_get_contents(path, &text, &length, NULL) && length)
        return text;
    g_free(text);
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "gnuplot wrote no %s", file);
    return NULL;
}

/* `out` (may be NULL) is what it prints, to g_free. */
static bool run_gnuplot(const char *gnuplot, const char *folder, const char *name, char **out,
                        GError **error)
{
    g_autofree char *program = g_strdup(gnuplot);
    g_autofree char *script = g_strconcat(name, ".gp", NULL);
    char *command[] = {program, script, NULL};
    g_autofree char *complaint = NULL;
    int status = 0;
    GError *inner = NULL;
    bool ran = g_spawn_sync(folder, command, NULL,
                            out ? G_SPAWN_DEFAULT : G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, out,
                            &complaint, &status, &inner) &&
               g_spawn_check_wait_status(status, &inner);
    if (!ran)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "gnuplot %s: %s%s%s", script,
                    inner->message, complaint && *complaint ? ": " : "",
                    complaint ? g_strstrip(complaint) : "");
    g_clear_error(&inner);
    return ran;
}

bool figure_draw(struct figure *figure, const char *folder, const char *gnuplot, GError **error)
{
    GString *script = script_of(figure);
    bool drawn = write_file(folder, figure->name, ".dat", figure->data, error) &&
                 write_file(folder, figure->name, ".gp", script, error) &&
                 run_gnuplot(gnuplot, folder, figure->name, NULL, error);
    g_string_free(script, TRUE);
    if (!drawn)
        return false;
    figure->svg = read_back(folder, figure->name, ".svg", error);
    if (figure->svg)
        figure->phone_svg = read_back(folder, figure->name, "-phone.svg", error);
    return figure->svg && figure->phone_svg;
}

bool figure_draw_text(const struct figure *figure, const char *folder, const char *gnuplot,
                      GString *text, GError **error)
{
    GString *script = text_script_of(figure);
    g_autofree char *drawn = NULL, *title = text_printable(figure->title);
    g_autofree char *caption = text_printable(figure->caption);
    bool good = write_file(folder, figure->name, ".dat", figure->data, error) &&
                write_file(folder, figure->name, ".gp", script, error) &&
                run_gnuplot(gnuplot, folder, figure->name, &drawn, error);
    g_string_free(script, TRUE);
    if (!good)
        return false;
    g_string_append_printf(text, "%s\n", title);
    g_auto(GStrv) lines = g_strsplit(drawn, "\n", -1);
    for (size_t i = 0; lines[i]; i++)
        if (*g_strchomp(lines[i]))
            g_string_append_printf(text, "%s\n", lines[i]);
    g_string_append_printf(text, "%s\n\n", caption);
    return true;
}
