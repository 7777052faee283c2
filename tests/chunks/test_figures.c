#include "chunks/figures.h"

#include <glib.h>
#include <string.h>

/* Files of other versions hold these names, in this order: they may be added to, never changed. */
static void test_names(void)
{
    enum { REQUIRED = 12 };
    static const char *const names[] = {
        "h2d_bytes",       "d2h_bytes",         "h2d_copies",
        "d2h_copies",      "evictions",         "moves",
        "moved_bytes",     "peak_device_bytes", "peak_live_device_bytes",
        "peak_host_bytes", "stall_seconds",     "iteration_seconds",
        "gathers",         "sent_bytes",        "received_bytes",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_assert_cmpstr(plan_figure_table[i].name, ==, names[i]);
        g_assert_true(figures_find(names[i]) == &plan_figure_table[i]);
        g_assert_cmpint(plan_figure_table[i].presence, ==,
                        i < REQUIRED ? FIGURE_REQUIRED : FIGURE_OPTIONAL);
        g_assert_true(g_str_has_suffix(names[i], "_seconds") ==
                      (plan_figure_table[i].unit == FIGURE_SECONDS));
        g_assert_true(g_str_has_prefix(names[i], "peak_") ==
                      (plan_figure_table[i].kind == FIGURE_PEAK));
    }
    g_assert_null(figures_find("h2d"));
}

/* Every figure with a value of its own. */
static struct plan_figures numbered(void)
{
    struct plan_figures figures = {.h2d_bytes = UINT64_C(1) << 62};
    uint64_t next = 1;
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++, next++) {
        if (figure->unit == FIGURE_SECONDS)
            figures_set_seconds(&figures, figure, (double)next / 8);
        else if (next > 1)
            *(uint64_t *)((char *)&figures + figure->offset) = next;
    }
    return figures;
}

static void test_round_trip(void)
{
    struct plan_figures figures = numbered(), back = {0};
    const struct plan_figure *bad;
    json_t *object = figures_to_json(&figures);
    json_object_set_new(object, "loss", json_real(1));
    g_assert_true(figures_from_json(object, &back, &bad));
    g_assert_null(bad);
    g_assert_cmpmem(&figures, sizeof figures, &back, sizeof back);
    json_decref(object);
}

static void test_refuses(void)
{
    struct plan_figures figures = numbered();
    const struct plan_figure *bad;
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        struct plan_figures read = figures;
        json_t *object = figures_to_json(&(struct plan_figures){0});
        json_t *wrong[] = {NULL, json_integer(-1), json_string("1"), json_null(), json_true()};
        for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
            if (i == 0)
                json_object_del(object, figure->name);
            else
                json_object_set_new(object, figure->name, wrong[i]);
            if (i == 0 && figure->presence == FIGURE_OPTIONAL) {
                struct plan_figures older;
                g_assert_true(figures_from_json(object, &older, &bad));
                continue;
            }
            g_assert_false(figures_from_json(object, &read, &bad));
            g_assert_true(bad == figure);
            g_assert_cmpmem(&figures, sizeof figures, &read, sizeof read);
        }
        json_object_set_new(object, figure->name, json_real(1));
        g_assert_true(figures_from_json(object, &read, &bad) == (figure->unit == FIGURE_SECONDS));
        json_object_set_new(object, figure->name, json_integer(1));
        g_assert_true(figures_from_json(object, &read, &bad));
        g_assert_cmpfloat(figures_value(&read, figure), ==, 1);
        json_decref(object);
    }
    g_assert_false(figures_from_json(NULL, &figures, &bad));
}

static void test_difference(void)
{
    struct plan_figures figures = numbered();
    g_assert_true(figures_equal(&figures, &figures));
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        struct plan_figures other = figures;
        if (figure->unit == FIGURE_SECONDS) {
            figures_set_seconds(&other, figure, 1e9);
            g_assert_true(figures_equal(&figures, &other));
            continue;
        }
        ++*(uint64_t *)((char *)&other + figure->offset);
        g_assert_true(figures_first_difference(&figures, &other) == figure);
        g_assert_false(figures_equal(&figures, &other));
    }
    g_assert_cmpuint(figures_traffic(&figures), ==, (UINT64_C(1) << 62) + 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/figures/names", test_names);
    g_test_add_func("/figures/round-trip", test_round_trip);
    g_test_add_func("/figures/refuses", test_refuses);
    g_test_add_func("/figures/difference", test_difference);
    return g_test_run();
}
