#include "report/advice.h"

#include "report/compare.h"
#include "report/text.h"

#include <math.h>

/* Below this share of a step waiting is not what makes it slow. */
#define LITTLE 0.05

struct advice *advice_append(struct contents *contents, double seconds, const char *figure,
                             char *claim, char *detail, char *command)
{
    struct advice *advice = g_new(struct advice, 1);
    *advice = (struct advice){.claim = claim,
                              .detail = detail,
                              .command = command,
                              .figure = g_strdup(figure),
                              .seconds = seconds};
    g_ptr_array_add(contents->advice, advice);
    return advice;
}

char *advice_gain(double less, double more)
{
    g_autofree char *digits = text_number("%.2g", 100 * (1 - less / more));
    return g_strconcat(digits, " %", NULL);
}

static int most_seconds_first(const void *left, const void *right)
{
    const struct advice *a = *(struct advice *const *)left, *b = *(struct advice *const *)right;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

static double waiting(const struct split *split, int *cause)
{
    double all = 0;
    *cause = STRIP_UNKNOWN;
    for (int c = 0; c <= STRIP_UNKNOWN; c++) {
        all += split->wait[c];
        if (split->wait[c] > split->wait[*cause])
            *cause = c;
    }
    return all;
}

/* Of the first step: one that was given, else the fastest that could be. */
static char *verdict_of(const struct split *split)
{
    static const char *const causes[STRIPS + 1] = {
        [STRIP_COMPUTE] = "",
        [STRIP_H2D] = ", mostly for copies to the device",
        [STRIP_D2H] = ", mostly for copies to the host",
        [STRIP_HOST] = ", mostly for the optimizer on the host",
        [STRIP_NETWORK] = ", mostly for other devices",
        [STRIP_UNKNOWN] = "",
    };
    int cause;
    double waits = waiting(split, &cause);
    g_autofree char *length = text_seconds(split->seconds);
    if (split->alone)
        return g_strdup_printf("The operators of a step take %s; what it waits for beside them, a "
                               "simulation tells",
                               length);
    if (waits < LITTLE * split->seconds)
        return g_strdup_printf("A step takes %s, and the device computes nearly all of the time",
                               length);
    g_autofree char *share = text_number("%.0f", 100 * waits / split->seconds);
    return g_strdup_printf("A step takes %s, and the device waits for %s %% of it%s", length, share,
                           causes[cause]);
}

/* "B is 131 ms faster than A (20 %): mostly the waiting, 127 ms less." */
static char *comparison_of(const struct inputs *inputs)
{
    const struct strips *a, *b;
    if (!compare_pair(inputs, &a, &b))
        return NULL;
    double more = b->seconds - a->seconds;
    double waits = strips_sum_all(b).busy[STRIP_WAIT] - strips_sum_all(a).busy[STRIP_WAIT];
    g_autofree char *length = text_seconds(fabs(more)), *waited = text_seconds(fabs(waits));
    g_autofree char *percent = text_number("%.0f", 100 * fabs(more) / a->seconds);
    if (a->alone || b->alone)
        return g_strdup_printf("The operators of %s take %s (%s %%) %s than those of %s.",
                               b->origin, length, percent, more < 0 ? "less" : "more", a->origin);
    if (fabs(more) < 0.01 * a->seconds)
        return g_strdup_printf("%s and %s take the same time within 1 %%.", a->origin, b->origin);
    return g_strdup_printf("%s is %s (%s %%) %s than %s; the device waits for %s %s.", b->origin,
                           length, percent, more < 0 ? "faster" : "slower", a->origin, waited,
                           waits < 0 ? "less" : "more");
}

void advice_add(struct contents *contents)
{
    contents->comparison = comparison_of(contents->inputs);
    if (contents->splits->len)
        contents->verdict = verdict_of(g_ptr_array_index(contents->splits, 0));
    advice_add_waits(contents);
    advice_add_choices(contents);
    advice_add_memory(contents);
    advice_add_hardware(contents);
    g_ptr_array_sort(contents->advice, most_seconds_first);
}
