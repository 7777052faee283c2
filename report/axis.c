#include "report/axis.h"

#include "report/text.h"
#include "traces/size.h"

#include <math.h>

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
    /* 15 digits are often all there are. */
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

void axis_append_size_tics(GString *script, const GArray *sizes, guint most)
{
    guint step = sizes->len > most ? (sizes->len + most - 1) / most : 1;
    g_string_append(script, "set xtics (");
    const char *separator = "";
    for (guint i = 0; i < sizes->len; i++) {
        if ((sizes->len - 1 - i) % step)
            continue;
        uint64_t size = g_array_index(sizes, uint64_t, i);
        g_autofree char *label = size_format(size);
        g_autofree char *quoted = text_gnuplot(label);
        g_string_append_printf(script, "%s%s %" G_GUINT64_FORMAT, separator, quoted, size);
        separator = ", ";
    }
    g_string_append(script, ")\n");
}
