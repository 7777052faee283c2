/* Tests what people may write for a strategy. */
#include "strategies/strategy.h"

#include <string.h>

static void test_all(void)
{
    GPtrArray *list = strategy_parse_list("all", NULL);
    static const char *const names[] = {"resident",     "patrickstar",  "gemini-static",
                                        "gemini-auto",  "zero-offload", "zero3-offload",
                                        "twinflow",     "superoffload", "interleave",
                                        "fsdp-offload", "megatrain"};
    g_assert_cmpuint(list->len, ==, G_N_ELEMENTS(names));
    for (guint i = 0; i < list->len; i++)
        g_assert_cmpstr(((struct strategy *)g_ptr_array_index(list, i))->name, ==, names[i]);
    strategy_add_tiered(list);
    strategy_add_tiered(list);
    g_assert_cmpuint(list->len, ==, G_N_ELEMENTS(names) + 1);
    const struct strategy *tiered = g_ptr_array_index(list, G_N_ELEMENTS(names));
    g_assert_cmpstr(tiered->name, ==, "zero-infinity");
    g_assert_cmpfloat(tiered->value, ==, 3);
    g_ptr_array_unref(list);
}

static void test_parameters(void)
{
    GPtrArray *list = strategy_parse_list("twinflow:0.25,interleave,twinflow", NULL);
    const struct strategy *quarter = g_ptr_array_index(list, 0);
    const struct strategy *interleave = g_ptr_array_index(list, 1);
    const struct strategy *usual = g_ptr_array_index(list, 2);
    g_assert_cmpstr(quarter->name, ==, "twinflow:0.25");
    g_assert_true(quarter->ops == &strategy_twinflow);
    g_assert_cmpfloat(quarter->value, ==, 0.25);
    g_assert_cmpfloat(interleave->value, ==, 2);
    g_assert_cmpfloat(usual->value, ==, 0.5);
    g_ptr_array_unref(list);
}

static void test_refused(void)
{
    static const struct {
        const char *text, *named;
    } bad[] = {{"", "no strategy"},
               {"zero", "'zero'"},
               {"zero-offload:1", "takes no parameter"},
               {"twinflow:", "R must be a number in [0, 1]"},
               {"twinflow:1.5", "R must be a number in [0, 1]"},
               {"twinflow:nan", "R must be a number in [0, 1]"},
               {"twinflow:0.5x", "R must be"},
               {"interleave:0", "K must be an integer in [1, "},
               {"interleave:2.5", "an integer"},
               {"zero-infinity:0", "N must be an integer in [1, "},
               {"resident,,all", "no strategy ''"}};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_assert_null(strategy_parse_list(bad[i].text, &error));
        g_assert_error(error, STRATEGY_ERROR, STRATEGY_ERROR_INVALID);
        if (!strstr(error->message, bad[i].named))
            g_error("'%s': %s", bad[i].text, error->message);
        g_clear_error(&error);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/names/all", test_all);
    g_test_add_func("/strategies/names/parameters", test_parameters);
    g_test_add_func("/strategies/names/refused", test_refused);
    return g_test_run();
}
