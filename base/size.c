#include "base/size.h"

#include <math.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t bytes;
};

static const struct unit units[] = {
    {"", 1},
    {"B", 1},
    {"k", 1000},
    {"K", 1000},
    {"kB", 1000},
    {"KB", 1000},
    {"M", UINT64_C(1000000)},
    {"MB", UINT64_C(1000000)},
    {"G", UINT64_C(1000000000)},
    {"GB", UINT64_C(1000000000)},
    {"T", UINT64_C(1000000000000)},
    {"TB", UINT64_C(1000000000000)},
    {"P", UINT64_C(1000000000000000)},
    {"PB", UINT64_C(1000000000000000)},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"PiB", UINT64_C(1) << 50},
};

/* A quantity taken apart: digits [text, whole_end), and [fraction, fraction_end) after a point. */
struct quantity {
    const char *whole_end, *fraction, *fraction_end;
    bool has_exponent; /* 2e9 */
    bool has_unit;
    uint64_t unit;
};

G_DEFINE_QUARK(pstar_size_error, size_error)

static const char *skip_digits(const char *text)
{
    while (g_ascii_isdigit(*text))
        text++;
    return text;
}

static bool find_unit(const char *name, size_t length, uint64_t *bytes)
{
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if (strlen(units[i].name) == length && strncmp(units[i].name, name, length) == 0) {
            *bytes = units[i].bytes;
            return true;
        }
    return false;
}

/* Returns the end of an exponent such as e9, or `text` if there is none. */
static const char *skip_exponent(const char *text)
{
    const char *digits = text + (*text == 'e' || *text == 'E');
    if (digits > text && (*digits == '+' || *digits == '-'))
        digits++;
    const char *end = skip_digits(digits);
    return digits > text && end > digits ? end : text;
}

/* `suffix` must end the text, after the unit. */
static bool take_apart(const char *text, const char *suffix, struct quantity *quantity)
{
    quantity->whole_end = quantity->fraction = quantity->fraction_end = skip_digits(text);
    if (quantity->whole_end == text)
        return false;
    if (*quantity->whole_end == '.') {
        quantity->fraction = quantity->whole_end + 1;
        quantity->fraction_end = skip_digits(quantity->fraction);
        if (quantity->fraction_end == quantity->fraction)
            return false;
    }
    const char *unit = skip_exponent(quantity->fraction_end);
    quantity->has_exponent = unit > quantity->fraction_end;
    if (unit[0] == ' ' && g_ascii_isalpha(unit[1]))
        unit++;
    if (!g_str_has_suffix(unit, suffix))
        return false;
    quantity->has_unit = strlen(unit) > strlen(suffix);
    return find_unit(unit, strlen(unit) - strlen(suffix), &quantity->unit);
}

/* A number without a unit is bytes, but nobody means ten bytes or half a byte. */
static bool lacks_unit(const char *text, const struct quantity *quantity)
{
    enum { LEAST = 1024 };
    double number = g_ascii_strtod(text, NULL);
    bool is_fraction = quantity->fraction_end > quantity->whole_end && !quantity->has_exponent;
    return !quantity->has_unit && (is_fraction || (number > 0 && number < LEAST));
}

static bool whole_bytes(const char *text, const struct quantity *quantity, uint64_t *bytes)
{
    uint64_t whole = 0;
    for (const char *digit = text; digit < quantity->whole_end; digit++)
        if (!g_uint64_checked_mul(&whole, whole, 10) ||
            !g_uint64_checked_add(&whole, whole, (uint64_t)(*digit - '0')))
            return false;
    /* From the last digit to the first, so that no digit is lost to rounding. */
    uint64_t fraction = 0;
    for (const char *digit = quantity->fraction_end; digit-- > quantity->fraction;)
        fraction = ((uint64_t)(*digit - '0') * quantity->unit + fraction) / 10;
    return g_uint64_checked_mul(&whole, whole, quantity->unit) &&
           g_uint64_checked_add(bytes, whole, fraction);
}

/* Rounds down to whole bytes. Doubles of 2^64 and more do not fit. */
static bool exponent_bytes(const char *text, const struct quantity *quantity, uint64_t *bytes)
{
    double value = g_ascii_strtod(text, NULL) * (double)quantity->unit;
    if (!(value < 0x1p64))
        return false;
    *bytes = (uint64_t)value;
    return true;
}

bool size_parse(const char *text, uint64_t *bytes, GError **error)
{
    struct quantity quantity;
    if (!take_apart(text, "", &quantity)) {
        g_set_error(error, SIZE_ERROR, SIZE_ERROR_SYNTAX,
                    "'%s' is not a size: write it like 64MiB or 1.5GB", text);
        return false;
    }
    if (lacks_unit(text, &quantity)) {
        g_set_error(error, SIZE_ERROR, SIZE_ERROR_SYNTAX,
                    "'%s' has no unit: write it like %sGB or %sMiB, or %sB for bytes", text, text,
                    text, text);
        return false;
    }
    uint64_t parsed = 0;
    if (!(quantity.has_exponent ? exponent_bytes(text, &quantity, &parsed)
                                : whole_bytes(text, &quantity, &parsed))) {
        g_set_error(error, SIZE_ERROR, SIZE_ERROR_RANGE,
                    "'%s' is too large: a size must fit into 64 bits", text);
        return false;
    }
    *bytes = parsed;
    return true;
}

bool rate_parse(const char *text, double *bytes_per_second, GError **error)
{
    struct quantity quantity;
    if (!take_apart(text, "/s", &quantity) || lacks_unit(text, &quantity)) {
        g_set_error(error, SIZE_ERROR, SIZE_ERROR_SYNTAX,
                    "'%s' is not a rate: write it like 12GB/s or 800MiB/s", text);
        return false;
    }
    double rate = g_ascii_strtod(text, NULL) * (double)quantity.unit;
    if (!(rate > 0) || !isfinite(rate)) {
        g_set_error(error, SIZE_ERROR, SIZE_ERROR_RANGE, "'%s' must be a finite rate above 0",
                    text);
        return false;
    }
    *bytes_per_second = rate;
    return true;
}

bool link_parse(const char *text, double *h2d, double *d2h, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    for (char **part = parts; *part; part++) {
        double *rate = g_str_has_prefix(*part, "h2d=")   ? h2d
                       : g_str_has_prefix(*part, "d2h=") ? d2h
                                                         : NULL;
        if (!rate) {
            g_set_error(error, SIZE_ERROR, SIZE_ERROR_SYNTAX,
                        "--link %s: must be of the form h2d=RATE,d2h=RATE", text);
            return false;
        }
        if (!rate_parse(*part + strlen("h2d="), rate, error)) {
            g_prefix_error(error, "--link %s: ", text);
            return false;
        }
    }
    return true;
}

char *size_format(uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;
    /* 1023.995 would print as 1024.00. */
    while (unit + 1 < G_N_ELEMENTS(names) && value >= (unit == 0 ? 1024 : 1023.995)) {
        value /= 1024;
        unit++;
    }
    uint64_t remainder = bytes & ((UINT64_C(1) << (10 * unit)) - 1);
    if (remainder == 0)
        return g_strdup_printf("%.0f %s", value, names[unit]);
    return g_strdup_printf("%.2f %s", value, names[unit]);
}

char *size_exact(uint64_t bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } exact[] = {{"GiB", UINT64_C(1) << 30}, {"GB", UINT64_C(1000000000)},
                 {"MiB", UINT64_C(1) << 20}, {"MB", UINT64_C(1000000)},
                 {"KiB", UINT64_C(1) << 10}, {"kB", UINT64_C(1000)}};
    for (size_t i = 0; i < G_N_ELEMENTS(exact) && bytes; i++)
        if (bytes % exact[i].bytes == 0)
            return g_strdup_printf("%" G_GUINT64_FORMAT "%s", bytes / exact[i].bytes,
                                   exact[i].name);
    return g_strdup_printf("%" G_GUINT64_FORMAT "B", bytes);
}
