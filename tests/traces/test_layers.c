/* Layers as --recompute takes them: what is written reads as what it was. */
#include "traces/choices.h"

#include <string.h>

enum { LAYERS = 9 };

static void test_every_choice(void)
{
    for (uint32_t set = 0; set < 1u << LAYERS; set++) {
        uint8_t marks[LAYERS], read[LAYERS];
        for (uint32_t l = 0; l < LAYERS; l++)
            marks[l] = set >> l & 1;
        g_autofree char *text = run_layers_format(marks, LAYERS);
        g_assert_true(run_layers_parse(text, read, LAYERS));
        g_assert_cmpmem(marks, LAYERS, read, LAYERS);
    }
}

static void test_texts(void)
{
    const uint8_t some[LAYERS] = {1, 0, 1, 1, 1, 0, 0, 1, 1};
    static const char *const refused[] = {"",  "9",  "2-1", "-1",   "1-",    "1-9", "1,,",
                                          "a", "1 ", "+1",  "all,", "1-2-3", "0x1", "1--2"};
    uint8_t marks[LAYERS];
    g_autofree char *text = run_layers_format(some, LAYERS);

    g_assert_cmpstr(text, ==, "0,2-4,7-8");
    g_assert_true(run_layers_parse("8,0-1,1", marks, LAYERS));
    g_assert_cmpmem(marks, LAYERS, ((const uint8_t[LAYERS]){1, 1, 0, 0, 0, 0, 0, 0, 1}), LAYERS);
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_test_message("'%s'", refused[i]);
        g_assert_false(run_layers_parse(refused[i], marks, LAYERS));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/layers/every-choice", test_every_choice);
    g_test_add_func("/layers/texts", test_texts);
    return g_test_run();
}
