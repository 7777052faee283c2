#include "report/plot.h"

#include "base/size.h"
#include "report/report.h"
#include "report/text.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/statvfs.h>

#define PIXELS_A_LINE 14 /* height of a character */
#define LABEL_LINE    1  /* for the label below */

struct plot *plot_new(char *name, char *title)
{
    struct plot *plot = g_new0(struct plot, 1);
    plot->name = name;
    plot->title = title;
    plot->data = g_string_new(NULL);
    plot->setup = g_string_new(NULL);
    plot->drawing = g_string_new(NULL);
    plot->text = g_string_new(NULL);
    plot->timeline = -1;
    return plot;
}

void plot_free(struct plot *plot)
{
    if (!plot)
        return;
    g_free(plot->name);
    g_free(plot->title);
    g_free(plot->axis);
    g_free(plot->alt);
    g_free(plot->caption);
    g_free(plot->text_caption);
    g_string_free(plot->data, TRUE);
    g_string_free(plot->setup, TRUE);
    g_string_free(plot->drawing, TRUE);
    g_string_free(plot->text, TRUE);
    g_free(plot->svg);
    g_free(plot->phone_svg);
    g_free(plot);
}

char *plot_name(const char *stem, unsigned number)
{
    return number ? g_strdup_printf("%s-%u", stem, number + 1) : g_strdup(stem);
}

char *plot_find_gnuplot(GError **error)
{
    char *path = g_find_program_in_path("gnuplot");
    if (!path)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED,
                    "gnuplot is not in PATH; install it (Debian, Ubuntu: apt install gnuplot-nox)");
    return path;
}

/* Shared by all plots, so that they look alike. */
static const char style[] = TEXT_GNUPLOT_SETUP "set encoding utf8\n"
                                               "ink = '" PALETTE_INK "'; muted = '" PALETTE_MUTED
                                               "'; grid = '" PALETTE_GRID "'\n";

static const char page_style[] = "    reset\n"
                                 "    phone = page == 3\n"
                                 "    set border 3 lc rgb muted lw 1\n"
                                 "    set tics out nomirror scale 0.5 textcolor rgb ink\n"
                                 "    set grid ytics lc rgb grid lw 1 lt 1\n"
                                 "    set key outside below center horizontal reverse Left samplen "
                                 "1.5 spacing 1.2 textcolor rgb ink\n";

static void append_terminals(const struct plot *plot, GString *script)
{
    g_string_append_printf(script,
                           "    if (page == 1) {\n"
                           "        set terminal svg size %d,%d dynamic noenhanced rounded "
                           "font 'sans-serif,14' background '" PALETTE_PAPER "'\n"
                           "        set output '%s.svg'\n    }\n",
                           PLOT_WIDE, plot->wide_height, plot->name);
    g_string_append_printf(script,
                           "    if (page == 2) {\n"
                           "        set terminal pngcairo size %d,%d noenhanced rounded "
                           "font 'sans-serif,14' fontscale 1.5 linewidth 2 pointscale 2 "
                           "background '" PALETTE_PAPER "'\n"
                           "        set output '%s.png'\n    }\n",
                           2 * PLOT_WIDE, 2 * plot->wide_height, plot->name);
    g_string_append_printf(script,
                           "    if (page == 3) {\n"
                           "        set terminal svg size %d,%d dynamic noenhanced rounded "
                           "font 'sans-serif,12' background '" PALETTE_PAPER "'\n"
                           "        set output '%s-phone.svg'\n    }\n",
                           PLOT_PHONE, plot->phone_height, plot->name);
}

static GString *script_begin(const struct plot *plot)
{
    GString *script = g_string_new(NULL);
    g_autofree char *title = text_printable(plot->title);
    g_string_append_printf(
        script,
        "# %s\n# Draw it again with: gnuplot %s.gp, from any folder\n"
        "own = '%s.gp'\n"
        "if (strlen(ARG0) > strlen(own) && ARG0[strlen(ARG0)-strlen(own)+1:*] eq "
        "own) { cd ARG0[1:strlen(ARG0)-strlen(own)] }\n",
        title, plot->name, plot->name);
    g_string_append(script, style);
    g_string_append_printf(script, "data = '%s.dat'\n", plot->name);
    g_string_append(script, plot->setup->str);
    return script;
}

static GString *script_of(const struct plot *plot)
{
    GString *script = script_begin(plot);
    g_string_append(script, "do for [page = 1:3] {\n");
    append_terminals(plot, script);
    g_string_append(script, page_style);
    g_string_append(script, plot->drawing->str);
    g_string_append(script, "    unset output\n}\n");
    return script;
}

static char *replaced(const char *line, const char *pattern, const char *with)
{
    g_autoptr(GRegex) regex = g_regex_new(pattern, 0, 0, NULL);
    return g_regex_replace_literal(regex, line, -1, 0, with, 0, NULL);
}

/* Adapts a line for characters. Grids, background rectangles and the area between two lines would
 * hide the data, so they are left out; of the area, dots remain. Small offsets of labels are
 * removed, because they would put labels on the key. */
static void append_as_text(GString *script, const char *line)
{
    if (g_str_has_prefix(line, "set grid ") || g_str_has_prefix(line, "set object rectangle "))
        return;
    g_autofree char *text = strstr(line, "with filledcurves")
                                ? replaced(line, "with filledcurves.*notitle", "with dots notitle")
                            : strstr(line, "set xlabel ") ? replaced(line, " offset [0-9.,]+", "")
                                                          : g_strdup(line);
    g_string_append_printf(script, "%s\n", text);
}

static void append_text_terminal(GString *script, int lines)
{
    g_string_append_printf(script, "page = 4\nset terminal dumb noenhanced size %d,%d\n",
                           PLOT_COLUMNS, lines);
}

static GString *text_script_of(const struct plot *plot)
{
    GString *script = script_begin(plot), *drawing = g_string_new(page_style);
    g_string_append(drawing, plot->drawing->str);
    append_text_terminal(script, LABEL_LINE + plot->wide_height / PIXELS_A_LINE);
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

/* A full disk: gnuplot does not say why it wrote too little. */
static bool is_full(const char *folder)
{
    const uint64_t little = 64 << 10;
    struct statvfs room;
    return statvfs(folder, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize < little;
}

/* Returns the picture that gnuplot wrote, which must be whole. */
static char *read_back(const char *folder, const char *name, const char *suffix, GError **error)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    g_autofree char *path = g_build_filename(folder, file, NULL);
    char *text = NULL;
    if (g_file_get_contents(path, &text, NULL, NULL) && strstr(text, "</svg>"))
        return text;
    g_free(text);
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "gnuplot did not write %s%s%s", file,
                is_full(folder) ? ": " : "", is_full(folder) ? g_strerror(ENOSPC) : "");
    return NULL;
}

/* *out receives what gnuplot prints; free it with g_free. `out` may be NULL. */
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

bool plot_draw(struct plot *plot, const char *folder, const char *gnuplot, GError **error)
{
    GString *script = script_of(plot);
    bool drawn = write_file(folder, plot->name, ".dat", plot->data, error) &&
                 write_file(folder, plot->name, ".gp", script, error) &&
                 run_gnuplot(gnuplot, folder, plot->name, NULL, error);
    g_string_free(script, TRUE);
    if (!drawn)
        return false;
    plot->svg = read_back(folder, plot->name, ".svg", error);
    if (plot->svg)
        plot->phone_svg = read_back(folder, plot->name, "-phone.svg", error);
    return plot->svg && plot->phone_svg;
}

/* Returns what gnuplot draws, without empty lines. Free with g_free. */
static char *drawn_as_text(const struct plot *plot, const char *folder, const char *gnuplot,
                           GError **error)
{
    GString *script = text_script_of(plot), *text = g_string_new(NULL);
    g_autofree char *drawn = NULL;
    bool ok = write_file(folder, plot->name, ".dat", plot->data, error) &&
              write_file(folder, plot->name, ".gp", script, error) &&
              run_gnuplot(gnuplot, folder, plot->name, &drawn, error);
    g_string_free(script, TRUE);
    g_auto(GStrv) lines = g_strsplit(ok ? drawn : "", "\n", -1);
    for (size_t i = 0; lines[i]; i++)
        if (*g_strchomp(lines[i]))
            g_string_append_printf(text, "%s\n", lines[i]);
    return g_string_free(text, !ok);
}

bool plot_draw_text(const struct plot *plot, const char *folder, const char *gnuplot, GString *text,
                    GError **error)
{
    g_autofree char *title = text_printable(plot->title);
    g_autofree char *caption = text_printable(plot->text_caption ? plot->text_caption
                                                                 : plot->caption);
    g_autofree char *drawn = plot->text->len ? g_strdup(plot->text->str)
                                             : drawn_as_text(plot, folder, gnuplot, error);
    if (drawn)
        g_string_append_printf(text, "%s%s%s\n%s%s\n\n", title, plot->axis ? ", in " : "",
                               plot->axis ? plot->axis : "", drawn, caption);
    return drawn != NULL;
}

char *caption_name(const char *name)
{
    return text_shortened(name, 60);
}

void text_append_shade(GString *text, double share)
{
    static const char shades[] = " .:-=+*#%@";
    int last = (int)sizeof shades - 2;
    g_string_append_c(text, shades[CLAMP((int)ceil(share * last - 1e-9), 0, last)]);
}

struct axis_unit axis_bytes(double greatest)
{
    static const struct axis_unit units[] = {
        {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if (greatest >= 2 * units[i].size)
            return units[i];
    return (struct axis_unit){"bytes", 1};
}

struct axis_unit axis_seconds(double greatest)
{
    static const struct axis_unit units[] = {{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}};
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if (greatest >= units[i].size)
            return units[i];
    return greatest > 0 ? (struct axis_unit){"ns", 1e-9} : units[0];
}

void axis_append(GString *text, double value)
{
    if (isnan(value)) {
        g_string_append(text, "NaN");
        return;
    }
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    /* 15 digits are often enough. */
    g_ascii_formatd(digits, sizeof digits, "%.15g", value);
    if (g_ascii_strtod(digits, NULL) != value)
        g_ascii_dtostr(digits, sizeof digits, value);
    g_string_append(text, digits);
}

void axis_append_variable(GString *script, const char *name, double value)
{
    g_string_append_printf(script, "%s = real(", name);
    axis_append(script, value);
    g_string_append(script, ")\n");
}

char *axis_size(uint64_t size)
{
    struct axis_unit unit = axis_bytes(2 * (double)size); /* the largest that is not larger */
    g_autofree char *digits = text_number((double)size < 999.5 * unit.size ? "%.3g" : "%.0f",
                                          (double)size / unit.size);
    return g_strdup_printf("%s %s", digits, unit.name);
}

void axis_append_size_tics(GString *script, const GArray *sizes, double pixels, double letter)
{
    double least = (double)g_array_index(sizes, uint64_t, 0);
    double octaves = log2((double)g_array_index(sizes, uint64_t, sizes->len - 1) / least);
    double octave = octaves > 0 ? pixels / octaves : pixels, from = INFINITY;
    g_autoptr(GString) tics = g_string_new(NULL);
    for (guint i = sizes->len; i-- > 0;) {
        uint64_t size = g_array_index(sizes, uint64_t, i);
        g_autofree char *label = axis_size(size);
        double half = letter * (double)strlen(label) / 2, at = octave * log2((double)size / least);
        if (at + half + letter > from)
            continue;
        from = at - half;
        g_autofree char *tic = g_strdup_printf("%s'%s' %" G_GUINT64_FORMAT, tics->len ? ", " : "",
                                               label, size);
        g_string_append(tics, tic);
    }
    g_string_append_printf(script, "set xtics (%s)\n", tics->str);
}

struct maker_style {
    const char *maker;
    const char *colour;
    int point;
};

static const struct maker_style known_makers[] = {
    {"policy fifo", "#56b4e9", 5},
    {"policy lru", "#009e73", 7},
    {"policy lfu", "#e69f00", 11},
    {"policy clock", "#8c6d1f", 4},
    {"policy arc", "#a8a100", 8},
    {"policy s3fifo", "#44aa99", 6},
    {"policy sieve", "#882255", 10},
    {"policy random", "#7f7f7f", 14},
    {"policy patrickstar", "#cc79a7", 13},
    {"policy opt", "#0072b2", 9},
    {"policy opt-dirty", PALETTE_INK, 12},
    {"planner", PALETTE_PLAN, 15},
    {"resident", PALETTE_INK, 5},
    {"patrickstar", "#cc79a7", 13},
    {"gemini-static", "#a8a100", 10},
    {"gemini-auto", "#9488d4", 12},
    {"zero-offload", "#8c6d1f", 4},
    {"zero3-offload", "#882255", 6},
    {"twinflow", "#44aa99", 8},
    {"interleave", "#e69f00", 11},
    {"fsdp-offload", "#7f7f7f", 14},
    {"megatrain", "#56b4e9", 7},
    {"superoffload", "#009e73", 9},
};

static const struct maker_style other_makers[] = {
    {NULL, "#e69f00", 11}, {NULL, "#8c6d1f", 4}, {NULL, "#7f7f7f", 6}, {NULL, "#a8a100", 8}};

const char *palette_list(enum trace_list list)
{
    static const char *const colours[TRACE_ACCESS_LISTS] = {
        [TRACE_PARAM] = "#0072b2",   [TRACE_GRAD] = "#d55e00",       [TRACE_MASTER] = "#56b4e9",
        [TRACE_EXP_AVG] = "#009e73", [TRACE_EXP_AVG_SQ] = "#cc79a7", [TRACE_ACTIVATION] = "#8c6d1f",
    };
    return colours[list];
}

const char *palette_glyph(enum trace_list list)
{
    static const char *const glyphs[] = {
        [TRACE_PARAM] = "█",   [TRACE_GRAD] = "▓",       [TRACE_MASTER] = "#",
        [TRACE_EXP_AVG] = "░", [TRACE_EXP_AVG_SQ] = "▚", [TRACE_ACTIVATION] = "▞",
    };
    return glyphs[list];
}

const char *palette_track(enum track track)
{
    static const char *const colours[TRACKS] = {
        [TRACK_COMPUTE] = "#0072b2",    [TRACK_H2D] = "#56b4e9",     [TRACK_D2H] = "#009e73",
        [TRACK_HOST] = "#e69f00",       [TRACK_NETWORK] = "#cc79a7", [TRACK_NVME_READ] = "#8c6bb1",
        [TRACK_NVME_WRITE] = "#bfa5d4", [TRACK_WAIT] = "#d55e00",
    };
    return colours[track];
}

const char *palette_link(unsigned number)
{
    static const char *const purples[] = {"#5b4ba8", "#9488d4", "#332277"};
    return purples[(number - 1) % G_N_ELEMENTS(purples)];
}

const char *palette_compute(enum trace_phase phase)
{
    static const char *const blues[] = {"#6cb4e0", "#0072b2", "#2b4a7d"};
    return blues[phase];
}

const char *palette_wait(int cause)
{
    static const char *const reds[TRACKS + 1] = {
        [TRACK_COMPUTE] = "#c2857a",    [TRACK_H2D] = "#d55e00",     [TRACK_D2H] = "#f0a777",
        [TRACK_HOST] = "#9c3a1a",       [TRACK_NETWORK] = "#b0416b", [TRACK_NVME_READ] = "#7a1f4d",
        [TRACK_NVME_WRITE] = "#dd9cb4", [TRACK_UNKNOWN] = "#c2857a",
    };
    return reds[cause];
}

static const struct maker_style *style_of(const char *maker)
{
    const char *name = maker ? maker : "";
    size_t length = strcspn(name, ":"); /* a strategy's parameter does not change its style */
    for (size_t i = 0; i < G_N_ELEMENTS(known_makers); i++)
        if (strlen(known_makers[i].maker) == length &&
            !strncmp(known_makers[i].maker, name, length))
            return &known_makers[i];
    return &other_makers[g_str_hash(name) % G_N_ELEMENTS(other_makers)];
}

const char *palette_maker(const char *maker)
{
    return style_of(maker)->colour;
}

int palette_maker_point(const char *maker)
{
    return style_of(maker)->point;
}

/* Bands below this part of the width cannot be seen. */
#define NARROWEST 1000

/* Labels a phase in its middle if it is wide enough. The last phase is always labelled, at its end
 * if it is narrow. */
static void append_name(GString *drawing, const struct track_phase *phase, double share, bool last)
{
    bool narrow = share < 0.1;
    if (narrow && !last)
        return;
    g_string_append_printf(drawing, "    if (%s) { set label '%s' at ",
                           share < 0.2 && !last ? "!phone" : "1", trace_phase_name(phase->phase));
    axis_append(drawing, narrow ? phase->end : (phase->start + phase->end) / 2);
    g_string_append_printf(drawing, "/second, graph 1 %s offset 0,-0.7 textcolor rgb ink }\n",
                           narrow ? "right" : "center");
}

void phase_bands_append(GString *drawing, const GArray *phases, double duration)
{
    static const char *const shade[] = {"0.05", "0.16", "0.09"};
    for (guint i = 0; i < phases->len; i++) {
        const struct track_phase *phase = &g_array_index(phases, struct track_phase, i);
        bool last = i + 1 == phases->len;
        if (phase->end - phase->start < duration / NARROWEST && !last)
            continue;
        g_string_append(drawing, "    set object rectangle from ");
        axis_append(drawing, phase->start);
        g_string_append(drawing, "/second, graph 0 to ");
        axis_append(drawing, phase->end);
        g_string_append_printf(drawing,
                               "/second, graph 1 behind fc rgb muted fs transparent solid %s "
                               "noborder\n",
                               shade[phase->phase]);
        append_name(drawing, phase, (phase->end - phase->start) / (duration > 0 ? duration : 1),
                    last);
    }
}

double curve_most(const GArray *curve)
{
    double most = 0;
    for (guint i = 0; i < curve->len; i++)
        most = MAX(most, g_array_index(curve, struct curve_point, i).value);
    return most;
}

void curve_columns(const GArray *curve, double seconds, guint columns, double *most)
{
    double level = NAN, width = seconds / columns;
    guint next = 0;
    for (guint c = 0; c < columns; c++) {
        most[c] = level;
        for (; next < curve->len &&
               g_array_index(curve, struct curve_point, next).time < (c + 1) * width;
             next++) {
            level = g_array_index(curve, struct curve_point, next).value;
            most[c] = fmax(most[c], level);
        }
    }
}

void curve_append_data(GString *data, const GArray *curve, double seconds, guint columns)
{
    g_autofree double *most = g_new(double, columns);
    curve_columns(curve, seconds, columns, most);
    for (guint c = 0; c < columns; c++)
        for (guint edge = 0; edge < 2; edge++) {
            axis_append(data, (c + edge) * (seconds / columns));
            g_string_append_c(data, ' ');
            axis_append(data, most[c]);
            g_string_append_c(data, '\n');
        }
}
