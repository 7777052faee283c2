/* Times as tables print them: never as zero if they are not, and as narrow as before. */
#include "base/seconds.h"

#include <glib.h>
#include <math.h>
#include <string.h>

static void test_known(void)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0.0000"},         {12.34567, "12.3457"},  {0.01, "0.0100"},
        {0.0099996, "0.0100"}, {0.003574, "0.00357"},  {0.001, "0.00100"},
        {0.00031, "0.000310"}, {2.13e-5, "0.0000213"}, {3.26e-7, "0.0000003"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = seconds_format(cases[i].seconds);
        g_assert_cmpstr(text, ==, cases[i].text);
    }
}

/* Three digits are right, or what is below a tenth of a microsecond is lost. */
static void test_drawn(void)
{
    enum { WIDTH = 9 };
    for (int i = 0; i < 10000; i++) {
        double seconds = pow(10, g_test_rand_double_range(-7, 3));
        g_autofree char *text = seconds_format(seconds);
        double back = g_ascii_strtod(text, NULL);
        g_assert_cmpfloat(fabs(back - seconds), <=, fmax(0.0051 * seconds, 0.51e-7));
        g_assert_cmpuint(strlen(text), <=, WIDTH);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/seconds/known", test_known);
    g_test_add_func("/seconds/drawn", test_drawn);
    return g_test_run();
}
