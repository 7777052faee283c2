/* Plots of one step: where its time goes, how busy each resource is, and what the link carries. */
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

#include <string.h>

#define MOST_BARS 12 /* more cannot be read; the tables have all of them */

/* The parts of a bar, from left to right. */
enum { PARTS = TRACK_NO_PHASE + 1 + TRACKS + 1 };

static const char *const part_names[PARTS] = {
    [0] = "forward",
    [1] = "backward",
    [2] = "update on the device",
    [3] = "compute in all phases",
    [4 + TRACK_H2D] = "waits for H2D",
    [4 + TRACK_D2H] = "waits for D2H",
    [4 + TRACK_HOST] = "waits for the host",
    [4 + TRACK_NETWORK] = "waits for the network",
    [4 + TRACK_NVME_READ] = "waits for NVMe reads",
    [4 + TRACK_NVME_WRITE] = "waits for NVMe writes",
    [4 + TRACK_UNKNOWN] = "waits",
};

/* What stands for the parts in a terminal. */
static const char part_letters[PARTS] = {
    [0] = 'f',
    [1] = 'b',
    [2] = 'u',
    [3] = 'c',
    [4 + TRACK_H2D] = '>',
    [4 + TRACK_D2H] = '<',
    [4 + TRACK_HOST] = 'h',
    [4 + TRACK_NETWORK] = 'n',
    [4 + TRACK_NVME_READ] = 'r',
    [4 + TRACK_NVME_WRITE] = 'w',
    [4 + TRACK_UNKNOWN] = '.',
};

static double part_of(const struct breakdown *breakdown, int part)
{
    if (part <= TRACK_NO_PHASE)
        return breakdown->compute[part];
    return breakdown->wait[part - TRACK_NO_PHASE - 1];
}

static const char *colour_of(int part)
{
    if (part < TRACK_NO_PHASE)
        return palette_compute((enum trace_phase)part);
    return part == TRACK_NO_PHASE ? PALETTE_COMPUTE : palette_wait(part - TRACK_NO_PHASE - 1);
}

static void append_bar_data(GString *data, const GPtrArray *breakdowns, guint bars)
{
    g_string_append(data, "# bar, step in seconds and as text; from and to, in seconds, of:");
    for (int part = 0; part < PARTS; part++)
        if (part_names[part])
            g_string_append_printf(data, "%s %s", part ? "," : "", part_names[part]);
    for (guint b = 0; b < bars; b++) {
        const struct breakdown *breakdown = g_ptr_array_index(breakdowns, b);
        g_autofree char *length = text_seconds(breakdown->seconds);
        double end = 0;
        g_string_append_printf(data, "\n%u ", b + 1);
        axis_append(data, breakdown->seconds);
        g_string_append_printf(data, " \"%s\"", length);
        for (int part = 0; part < PARTS; part++) {
            if (!part_names[part])
                continue;
            g_string_append_c(data, ' ');
            axis_append(data, end);
            g_string_append_c(data, ' ');
            axis_append(data, end += part_of(breakdown, part));
        }
    }
    g_string_append_c(data, '\n');
}

static bool is_used(const GPtrArray *breakdowns, guint bars, int part)
{
    for (guint b = 0; b < bars; b++) {
        const struct breakdown *breakdown = g_ptr_array_index(breakdowns, b);
        if (part_of(breakdown, part) > 1e-3 * breakdown->seconds)
            return true;
    }
    return false;
}

static void append_names(GString *setup, const GPtrArray *breakdowns, guint bars)
{
    g_string_append_printf(setup, "bars = %u\narray name[bars]\n", bars);
    for (guint b = 0; b < bars; b++) {
        const struct breakdown *breakdown = g_ptr_array_index(breakdowns, b);
        g_autofree char *label = text_shortened(breakdown->label, 46);
        g_autofree char *quoted = text_gnuplot(label);
        g_string_append_printf(setup, "name[%u] = %s\n", b + 1, quoted);
    }
}

/* The label of a bar stands above it, so that it has the whole width on a phone too. */
static void append_plot(GString *drawing, const GPtrArray *breakdowns, guint bars)
{
    int column = 4;
    const char *separator = "    plot";
    for (int part = 0; part < PARTS; part++) {
        if (!part_names[part])
            continue;
        if (is_used(breakdowns, bars, part)) {
            g_string_append_printf(
                drawing,
                "%s data using (0):1:($%d/second):($%d/second):($1-0.1):($1+0.3) with boxxyerror "
                "lc rgb '%s' fs solid noborder title '%s'",
                separator, column, column + 1, colour_of(part), part_names[part]);
            separator = ", \\\n        ";
        }
        column += 2;
    }
    g_string_append_printf(drawing,
                           "%s data using ($2/second):($1+0.1):3 with labels left offset 0.5,0 "
                           "textcolor rgb ink notitle\n",
                           separator);
}

#define BAR_COLUMNS (PLOT_COLUMNS - 12) /* of the longest bar; its number follows */

/* Appends the bar of a step and its number, without anything over each other. */
static void append_bar_text(GString *text, const struct breakdown *breakdown, double longest)
{
    g_autofree char *label = text_shortened(breakdown->label, PLOT_COLUMNS - 2);
    g_autofree char *length = text_seconds(breakdown->seconds);
    double end = 0;
    int drawn = 0;
    g_string_append_printf(text, " %s\n ", label);
    for (int part = 0; part < PARTS; part++) {
        end += part_of(breakdown, part);
        for (; drawn < (int)(BAR_COLUMNS * end / longest + 0.5); drawn++)
            g_string_append_c(text, part_letters[part]);
    }
    g_string_append_printf(text, " %s\n", length);
}

static void append_bars_text(GString *text, const GPtrArray *breakdowns, guint bars, double longest)
{
    gsize line = 0;
    for (guint b = 0; b < bars; b++)
        append_bar_text(text, g_ptr_array_index(breakdowns, b), longest > 0 ? longest : 1);
    for (int part = 0; part < PARTS; part++) {
        if (!part_names[part] || !is_used(breakdowns, bars, part))
            continue;
        gsize length = strlen(part_names[part]) + 4;
        bool wraps = line + length > PLOT_COLUMNS;
        g_string_append_printf(text, "%s  %c %s", wraps ? "\n" : "", part_letters[part],
                               part_names[part]);
        line = wraps ? length : line + length;
    }
    g_string_append_c(text, '\n');
}

static void describe_bars(struct plot *plot, const GPtrArray *breakdowns, guint bars)
{
    GString *alt = g_string_new("Stacked bars of a step's time, compute and waiting:");
    for (guint b = 0; b < bars; b++) {
        const struct breakdown *breakdown = g_ptr_array_index(breakdowns, b);
        double waits = 0;
        for (int cause = 0; cause <= TRACK_UNKNOWN; cause++)
            waits += breakdown->wait[cause];
        g_autofree char *length = text_seconds(breakdown->seconds), *waiting = text_seconds(waits);
        g_string_append_printf(alt, "%s %s %s, of which %s waiting", b ? ";" : "", breakdown->label,
                               length, waiting);
    }
    plot->alt = g_string_free(g_string_append_c(alt, '.'), FALSE);
    g_autofree char *which = g_strconcat(
        bars < breakdowns->len ? " Only the fastest are drawn; the tables list all." : "",
        bars == 1 || ((const struct breakdown *)g_ptr_array_index(breakdowns, bars - 1))->given
            ? ""
            : " The given steps come first. Then come alternatives with the same memory, the "
              "fastest first.",
        NULL);
    plot->caption = g_strconcat("Blue is compute on the device (grey where the phase is unknown). "
                                "Red is waiting, by its cause.",
                                which, NULL);
    plot->text_caption = g_strconcat("f, b, u and c are compute on the device. The other "
                                     "characters are waiting, by its cause.",
                                     which, NULL);
}

struct plot *plot_bars(const GPtrArray *breakdowns)
{
    struct plot *plot = plot_new(plot_name("bars", 0), g_strdup("Where the time of a step goes"));
    guint bars = MIN(breakdowns->len, MOST_BARS);
    double longest = 0;
    for (guint b = 0; b < bars; b++)
        longest = MAX(longest,
                      ((const struct breakdown *)g_ptr_array_index(breakdowns, b))->seconds);
    struct axis_unit second = axis_seconds(longest);
    plot->wide_height = 110 + 44 * (int)bars;
    plot->phone_height = 150 + 44 * (int)bars;
    append_bar_data(plot->data, breakdowns, bars);
    append_names(plot->setup, breakdowns, bars);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "longest", longest);
    g_string_append_printf(
        plot->drawing,
        "    set border 1 lc rgb muted lw 1\n    unset ytics\n"
        "    set grid xtics lc rgb grid lw 1 lt 1\n"
        "    set lmargin 1; set rmargin 3; set tmargin 0.3\n"
        "    set xrange [0:(phone ? 1.22 : 1.1)*longest/second]\n    set yrange [bars+0.4:0.4]\n"
        "    set xlabel 'time of a step, %s' offset 0,0.6 textcolor rgb ink\n"
        "    do for [b = 1:bars] { set label name[b] at graph 0.003, first b-(page < 4 ? 0.34 : "
        "0.4) "
        "left textcolor rgb ink }\n",
        second.name);
    append_plot(plot->drawing, breakdowns, bars);
    append_bars_text(plot->text, breakdowns, bars, longest);
    describe_bars(plot, breakdowns, bars);
    return plot;
}

#define COLUMNS \
    320 /* parts of the iteration; the height of each is the share of it that was busy */

/* The tracks that the file knows, from the top down. */
struct shown_tracks {
    unsigned count;
    enum track tracks[TRACKS];
};

static struct shown_tracks known_of(const struct tracks *tracks)
{
    struct shown_tracks known = {0};
    for (int s = 0; s < TRACKS; s++)
        if (tracks->known[s] && (s != TRACK_HOST || tracks->spans[s]->len))
            known.tracks[known.count++] = (enum track)s;
    return known;
}

static void append_busy_data(GString *data, const struct tracks *tracks,
                             const struct shown_tracks *known)
{
    g_autofree double *busy = g_new(double, (size_t)COLUMNS *TRACKS);
    double width = tracks->seconds / COLUMNS;
    g_string_append(data, "# seconds; the busy share of the time around it, of:");
    for (unsigned k = 0; k < known->count; k++) {
        g_string_append_printf(data, "%s %s", k ? "," : "", track_label(known->tracks[k]));
        tracks_busy_columns(tracks, known->tracks[k], busy + (size_t)k * COLUMNS, COLUMNS);
    }
    for (guint c = 0; c < COLUMNS; c++)
        for (int edge = 0; edge < 2; edge++) {
            g_string_append_c(data, '\n');
            axis_append(data, (c + (guint)edge) * width);
            for (unsigned k = 0; k < known->count; k++) {
                char share[G_ASCII_DTOSTR_BUF_SIZE];
                g_string_append_printf(
                    data, " %s",
                    g_ascii_formatd(share, sizeof share, "%.4f", busy[k * COLUMNS + c] / width));
            }
        }
    g_string_append_c(data, '\n');
}

#define TEXT_NAME    25 /* characters of the name of a track and its share */
#define TEXT_COLUMNS (PLOT_COLUMNS - TEXT_NAME)

static char *share_text(double part, double whole)
{
    g_autofree char *percent = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(percent, " %", NULL);
}

/* The band of a track begins at its number, counted from below, and is 0.6 high. */
static void append_bands(struct plot *plot, const struct tracks *tracks,
                         const struct shown_tracks *known, const struct track_sums *sums)
{
    GString *drawing = plot->drawing;
    for (unsigned k = 0; k < known->count; k++) {
        unsigned y = known->count - 1 - k;
        g_autofree char *share = share_text(sums->busy[known->tracks[k]], tracks->seconds);
        g_string_append_printf(
            drawing,
            "    set object rectangle from graph 0, first %u to graph 1, first %u.6 behind "
            "fc rgb muted fs transparent solid 0.10 noborder\n"
            "    set label '%s  %s' at graph 0, first %u.78 left textcolor rgb ink\n",
            y, y, track_label(known->tracks[k]), share, y);
    }
    g_string_append(drawing, "    plot");
    for (unsigned k = 0; k < known->count; k++)
        g_string_append_printf(drawing,
                               "%s data using ($1/second):(%u):(%u+0.6*$%u) with filledcurves "
                               "lc rgb '%s' fs solid noborder notitle",
                               k ? ", \\\n        " : "", known->count - 1 - k,
                               known->count - 1 - k, k + 2, palette_track(known->tracks[k]));
    g_string_append_c(drawing, '\n');
}

static void append_axes(struct plot *plot, const struct tracks *tracks, unsigned bands)
{
    struct axis_unit second = axis_seconds(tracks->seconds);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "duration", tracks->seconds);
    g_string_append_printf(plot->drawing,
                           "    set border 1 lc rgb muted lw 1\n    unset grid\n    unset ytics\n"
                           "    set lmargin 2; set rmargin 2; set tmargin 0.5\n"
                           "    set xrange [0:duration/second]\n    set yrange [0:%u.45]\n"
                           "    set xlabel 'time in the step, %s' offset 0,0.6 textcolor rgb ink\n",
                           bands, second.name);
}

static void append_text_axis(GString *text, const struct tracks *tracks)
{
    g_autofree char *length = text_seconds(tracks->seconds);
    g_string_append_printf(text, "%*s0%*s\n", TEXT_NAME, "", TEXT_COLUMNS - 1, length);
}

/* Appends a line of characters for each track: the denser, the busier. */
static void append_busy_text(GString *text, const struct tracks *tracks,
                             const struct shown_tracks *known, const struct track_sums *sums)
{
    double busy[TEXT_COLUMNS], width = tracks->seconds / TEXT_COLUMNS;
    text_append_phases(text, tracks->phases, tracks->seconds, TEXT_NAME, TEXT_COLUMNS);
    for (unsigned k = 0; k < known->count; k++) {
        enum track track = known->tracks[k];
        g_autofree char *share = share_text(sums->busy[track], tracks->seconds);
        g_string_append_printf(text, " %-16s %5s |", track_label(track), share);
        tracks_busy_columns(tracks, track, busy, TEXT_COLUMNS);
        for (int c = 0; c < TEXT_COLUMNS - 1; c++)
            text_append_shade(text, busy[c] / width);
        g_string_append(text, "|\n");
    }
    append_text_axis(text, tracks);
}

static void describe_busy(struct plot *plot, const struct tracks *tracks,
                          const struct shown_tracks *known, const struct track_sums *sums)
{
    GString *shares = g_string_new(NULL);
    for (unsigned k = 0; k < known->count; k++) {
        g_autofree char *share = share_text(sums->busy[known->tracks[k]], tracks->seconds);
        g_string_append_printf(shares, "%s%s %s", k ? ", " : "", track_label(known->tracks[k]),
                               share);
    }
    g_autofree char *length = text_seconds(tracks->seconds), *origin = caption_name(tracks->origin);
    plot->alt = g_strdup_printf("One track per resource over a step of %s, filled where the "
                                "resource is busy. Shares of the step: %s.",
                                length, shares->str);
    g_autofree char *rest = g_strconcat(
        "Percentages are shares of the whole step. While the device waits, it waits for the track "
        "that is busy then.",
        tracks->known[TRACK_H2D] ? "" : " The trace has no copies.",
        !tracks->known[TRACK_NETWORK] ? ""
        : tracks->measured && tracks->gpu
            ? " The network is busy during copies between devices and "
              "while NCCL kernels run, which also wait for other ranks."
        : tracks->measured
            ? " The network is busy while something is exchanged with other ranks or stages, and "
              "while these are waited for. Updates that exchange what they changed count as the "
              "device's computing."
            : " The network is busy while ranks exchange something. All "
              "ranks do the same at the same time.",
        NULL);
    const char *how = tracks->measured ? "Measured" : "Simulated";
    plot->caption = g_strdup_printf("%s, %s. The height of a track shows how busy the resource "
                                    "is. %s",
                                    how, origin, rest);
    plot->text_caption = g_strdup_printf("%s, %s. The denser a character, the busier the resource "
                                         "is. %s",
                                         how, origin, rest);
    g_string_free(shares, TRUE);
}

struct plot *plot_busy(const struct tracks *tracks, unsigned number)
{
    struct plot *plot = plot_new(plot_name("busy", number),
                                 tracks_title("How busy each resource is", tracks));
    struct shown_tracks known = known_of(tracks);
    struct track_sums sums = tracks_sum_all(tracks);
    plot->timeline = (int)number;
    plot->wide_height = 75 + 58 * (int)known.count;
    plot->phone_height = 75 + 52 * (int)known.count;
    append_busy_data(plot->data, tracks, &known);
    append_axes(plot, tracks, known.count);
    phase_bands_append(plot->drawing, tracks->phases, tracks->seconds);
    append_bands(plot, tracks, &known, &sums);
    append_busy_text(plot->text, tracks, &known, &sums);
    describe_busy(plot, tracks, &known, &sums);
    return plot;
}

#define COLUMNS 320 /* parts of the iteration; the rate is the mean over each */

static void append_rate_data(GString *data, const struct tracks *tracks)
{
    double bytes[2][COLUMNS], width = tracks->seconds / COLUMNS;
    tracks_byte_columns(tracks, TRACK_H2D, bytes[0], COLUMNS);
    tracks_byte_columns(tracks, TRACK_D2H, bytes[1], COLUMNS);
    g_string_append(data,
                    "# seconds; mean rates of H2D and D2H around this time, in bytes per second\n");
    for (guint c = 0; c < COLUMNS; c++)
        for (int edge = 0; edge < 2; edge++) {
            axis_append(data, (c + (guint)edge) * width);
            for (int way = 0; way < 2; way++) {
                char rate[G_ASCII_DTOSTR_BUF_SIZE];
                g_string_append_printf(
                    data, " %s", g_ascii_formatd(rate, sizeof rate, "%.0f", bytes[way][c] / width));
            }
            g_string_append_c(data, '\n');
        }
}

/* Above each panel stand its name and, on the right, its peak, where no line and no name of a phase
 * is. */
static const char panels[] =
    "    set multiplot\n"
    "    set lmargin at screen (phone ? 0.12 : 0.06); set rmargin at screen 0.985\n"
    "    set xrange [0:duration/second]\n"
    "    set yrange [0:1.35*highest/rate]\n"
    "    array colour[2] = ['%s', '%s']\n"
    "    array name[2] = ['H2D', 'D2H']\n"
    "    array peak[2] = [h2d_peak, d2h_peak]\n"
    "    array peak_label[2] = [h2d_label, d2h_label]\n"
    "    do for [way = 1:2] {\n"
    "        set tmargin at screen (way == 1 ? 0.93 : 0.48)\n"
    "        set bmargin at screen (way == 1 ? 0.57 : 0.13)\n"
    "        set format x (way == 1 ? '' : '%%g')\n"
    "        set xlabel (way == 1 ? '' : x_label) offset 0,0.6 textcolor rgb ink\n"
    "        set label 98 name[way].', '.rate_name at graph 0, graph 1 left offset 0,0.6 "
    "textcolor rgb ink\n"
    "        set label 99 peak_label[way] at graph 1, graph 1 right offset 0,0.6 "
    "textcolor rgb ink\n"
    "        plot data index 0 using ($1/second):(column(way+1)/rate) with filledcurves y1=0 "
    "lc rgb colour[way] fs solid noborder notitle, \\\n"
    "            peak[way]/rate with lines lc rgb ink lw 1.5 dt (8,5) notitle%s\n"
    "        unset label; unset object\n"
    "    }\n"
    "    unset multiplot\n";

/* Appends one block per direction. */
static void append_nvml(struct plot *plot, const struct tracks *tracks)
{
    g_string_append(plot->data, "\n\n# seconds; H2D from NVML, in bytes per second\n");
    curve_append_data(plot->data, tracks->curves[CURVE_H2D], tracks->seconds, COLUMNS);
    g_string_append(plot->data, "\n\n# seconds; D2H from NVML, in bytes per second\n");
    curve_append_data(plot->data, tracks->curves[CURVE_D2H], tracks->seconds, COLUMNS);
}

/* Returns what the link can do in one direction if a file states it, or else the rate of the
 * fastest copy. */
static double peak_of(const struct tracks *tracks, int way)
{
    double fastest = tracks_peak_rate(tracks, way ? TRACK_D2H : TRACK_H2D);
    return tracks->link_said_by ? tracks->link_rate[way] : fastest;
}

/* `fastest` is the highest measured rate. */
static void append_rates(struct plot *plot, const double *peaks, double fastest)
{
    static const char *const names[] = {"h2d", "d2h"};
    double highest = MAX(MAX(peaks[0], peaks[1]), fastest);
    double unit = highest >= 1e9 ? 1e9 : highest >= 1e6 ? 1e6 : 1e3;
    axis_append_variable(plot->setup, "rate", unit);
    axis_append_variable(plot->setup, "highest", highest > 0 ? highest : unit);
    g_string_append_printf(plot->setup, "rate_name = '%s'\n",
                           unit == 1e9   ? "GB/s"
                           : unit == 1e6 ? "MB/s"
                                         : "kB/s");
    for (int way = 0; way < 2; way++) {
        g_autofree char *variable = g_strconcat(names[way], "_peak", NULL);
        g_autofree char *label = text_rate(peaks[way]);
        axis_append_variable(plot->setup, variable, peaks[way]);
        g_string_append_printf(plot->setup, "%s_label = '%s%s'\n", names[way],
                               peaks[way] > 0 ? "dashed: peak " : "no copies",
                               peaks[way] > 0 ? label : "");
    }
}

/* Appends a line of characters for each direction: the denser, the nearer to the peak. */
static void append_link_text(GString *text, const struct tracks *tracks, const double *peaks)
{
    static const char *const names[] = {"H2D", "D2H"};
    text_append_phases(text, tracks->phases, tracks->seconds, TEXT_NAME, TEXT_COLUMNS);
    for (int way = 0; way < 2; way++) {
        double bytes[TEXT_COLUMNS], width = tracks->seconds / TEXT_COLUMNS;
        g_autofree char *peak = text_rate(peaks[way]);
        tracks_byte_columns(tracks, way ? TRACK_D2H : TRACK_H2D, bytes, TEXT_COLUMNS);
        g_string_append_printf(text, " %s of %-15s |", names[way], peak);
        for (int c = 0; c < TEXT_COLUMNS - 1; c++)
            text_append_shade(text, peaks[way] > 0 ? bytes[c] / width / peaks[way] : 0);
        g_string_append(text, "|\n");
    }
    append_text_axis(text, tracks);
}

static void describe_link(struct plot *plot, const struct tracks *tracks, const double *peaks)
{
    struct track_sums sums = tracks_sum_all(tracks);
    g_autofree char *h2d = text_rate(sums.bytes[TRACK_H2D] / tracks->seconds);
    g_autofree char *d2h = text_rate(sums.bytes[TRACK_D2H] / tracks->seconds);
    g_autofree char *h2d_peak = text_rate(peaks[0]), *d2h_peak = text_rate(peaks[1]);
    plot->alt = g_strdup_printf("Rate of the copies over a step: host to device above, device to "
                                "host below. The means are %s and %s, the peaks %s and %s.",
                                h2d, d2h, h2d_peak, d2h_peak);
    g_autofree char *origin = caption_name(tracks->origin);
    g_autofree char *said_by = caption_name(tracks->link_said_by);
    g_autofree char *peak =
        tracks->link_said_by
            ? g_strdup_printf("what the link can carry according to %s", said_by)
            : g_strdup(
                  "the rate of its fastest copy (no platform file states what the link can carry)");
    g_autofree char *means =
        g_strdup_printf("%s, %s. Over the whole step the mean rate is %s for H2D and %s for D2H.",
                        tracks->measured ? "Measured" : "Simulated", origin, h2d, d2h);
    plot->caption = g_strdup_printf(
        "%s The dashed line is %s; the space below it is unused.%s", means, peak,
        tracks->curves[CURVE_H2D]->len ? " The dark line is all traffic over PCIe, from NVML."
                                       : "");
    plot->text_caption = g_strdup_printf("%s The rate beside each direction is %s. The denser a "
                                         "character, the more of it is used.",
                                         means, peak);
}

struct plot *plot_link(const struct tracks *tracks, unsigned number)
{
    struct plot *plot = plot_new(plot_name("link", number),
                                 tracks_title("What the link carries, and its peak", tracks));
    const double peaks[2] = {peak_of(tracks, 0), peak_of(tracks, 1)};
    double nvml_most = MAX(curve_most(tracks->curves[CURVE_H2D]),
                           curve_most(tracks->curves[CURVE_D2H]));
    double fastest = MAX(tracks_peak_rate(tracks, TRACK_H2D), tracks_peak_rate(tracks, TRACK_D2H));
    struct axis_unit second = axis_seconds(tracks->seconds);
    plot->wide_height = 440;
    plot->phone_height = 380;
    append_rate_data(plot->data, tracks);
    append_rates(plot, peaks, MAX(nvml_most, fastest));
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "duration", tracks->seconds);
    g_string_append_printf(plot->setup, "x_label = 'time in the step, %s'\n", second.name);
    phase_bands_append(plot->drawing, tracks->phases, tracks->seconds);
    bool nvml = tracks->curves[CURVE_H2D]->len || tracks->curves[CURVE_D2H]->len;
    g_string_append_printf(plot->drawing, panels, palette_track(TRACK_H2D),
                           palette_track(TRACK_D2H),
                           nvml ? ", data index way using ($1/second):($2/rate) with lines lc rgb "
                                  "ink lw 2 notitle"
                                : "");
    if (nvml)
        append_nvml(plot, tracks);
    append_link_text(plot->text, tracks, peaks);
    describe_link(plot, tracks, peaks);
    return plot;
}
