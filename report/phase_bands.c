#include "report/phase_bands.h"

#include "report/axis.h"

/* In the middle of a phase that is wide enough; at the end of the last one, however narrow. */
static void append_name(GString *drawing, const struct strip_phase *phase, double share, bool last)
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
        const struct strip_phase *phase = &g_array_index(phases, struct strip_phase, i);
        g_string_append(drawing, "    set object rectangle from ");
        axis_append(drawing, phase->start);
        g_string_append(drawing, "/second, graph 0 to ");
        axis_append(drawing, phase->end);
        g_string_append_printf(drawing,
                               "/second, graph 1 behind fc rgb muted fs transparent solid %s "
                               "noborder\n",
                               shade[phase->phase]);
        append_name(drawing, phase, (phase->end - phase->start) / (duration > 0 ? duration : 1),
                    i + 1 == phases->len);
    }
}
