/* Finds iterations in running random programs: layers of forward and backward, an optimizer, and
 * occasional events. */
#include "collect/iterations.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

struct program {
    GRand *random;
    struct launch_pattern *pattern;
    uint64_t now_ns;
    guint layers, forward, backward, setup, updates, micro_batches;
    bool optimizer_named, waits, waits_within; /* at the end, and after each micro-batch */
    double odd;              /* probability of an additional launch in an iteration */
    enum launch_place place; /* of the last launch */
    GPtrArray *names;
};

static const char *name_of(struct program *p, const char *kind, guint number)
{
    char *name = g_strdup_printf("%s_%u", kind, number);
    g_ptr_array_add(p->names, name);
    return g_intern_string(name);
}

static void launch(struct program *p, const char *kernel, uint64_t pause_ns)
{
    p->now_ns += pause_ns;
    p->place = launch_pattern_add(p->pattern, kernel, p->now_ns);
}

static void set_up(struct program *p, bool waits)
{
    *p = (struct program){.random = g_rand_new_with_seed((guint32)g_test_rand_int()),
                          .pattern = launch_pattern_new(),
                          .waits = waits,
                          .names = g_ptr_array_new_with_free_func(g_free)};
    p->micro_batches = 1;
    p->layers = (guint)g_rand_int_range(p->random, 1, 40);
    p->forward = (guint)g_rand_int_range(p->random, 1, 9);
    p->backward = (guint)g_rand_int_range(p->random, 1, 12);
    p->updates = (guint)g_rand_int_range(p->random, 1, 20);
    p->setup = (guint)g_rand_int_range(p->random, 0, 200);
    p->optimizer_named = g_rand_boolean(p->random);
    p->odd = g_rand_boolean(p->random) ? 0.1 : 0;
}

static void tear_down(struct program *p)
{
    launch_pattern_free(p->pattern);
    g_ptr_array_unref(p->names);
    g_rand_free(p->random);
}

/* Returns whether any launch was reported as the last. */
static bool run_micro_batch(struct program *p, guint odd_layer)
{
    bool early = false;
    launch(p, "embedding", 1000);
    for (guint layer = 0; layer < p->layers; layer++)
        for (guint k = 0; k < p->forward; k++) {
            launch(p, name_of(p, "forward", k), 10);
            early = early || p->place == LAUNCH_LAST;
        }
    launch(p, "loss", 10);
    for (guint layer = 0; layer < p->layers; layer++) {
        for (guint k = 0; k < p->backward; k++) {
            launch(p, name_of(p, "backward", k), 10);
            early = early || p->place == LAUNCH_LAST;
        }
        if (layer == odd_layer)
            launch(p, "rescale", 10);
    }
    launch(p, "embedding_backward", 10);
    early = early || p->place == LAUNCH_LAST;
    if (p->waits_within)
        launch(p, NULL, 4000);
    return early || p->place == LAUNCH_LAST;
}

/* Returns whether a launch before the iteration's last was reported as the last. */
static bool iterate(struct program *p)
{
    bool early = false;
    guint odd_layer = g_rand_double(p->random) < p->odd ? p->layers / 2 : G_MAXUINT;
    for (guint i = 0; i < p->micro_batches; i++)
        early = run_micro_batch(p, odd_layer) || early;
    for (guint k = 0; k < p->updates; k++) {
        launch(p, p->optimizer_named ? "fused_adam_kernel" : "update", 10);
        bool last = k + 1 == p->updates && (p->optimizer_named || !p->waits);
        early = early || (p->place == LAUNCH_LAST && !last);
    }
    bool ended = p->place == LAUNCH_LAST;
    if (p->waits) {
        launch(p, NULL, 5000);
        ended = ended || p->place == LAUNCH_LAST;
    }
    p->place = ended ? LAUNCH_LAST : p->place;
    return early;
}

static bool is_known(enum launch_place place)
{
    return place == LAUNCH_WITHIN || place == LAUNCH_LAST;
}

/* Once the ends of iterations are known, each iteration ends there and nowhere else. */
static void check_program(struct program *p, guint within)
{
    g_test_message("%u layers of %u and %u, %u updates%s, %u before, %u micro-batches%s", p->layers,
                   p->forward, p->backward, p->updates, p->optimizer_named ? " (named)" : "",
                   p->setup, p->micro_batches, p->waits_within ? " that wait" : "");
    for (guint i = 0; i < p->setup; i++)
        launch(p, name_of(p, "setup", (guint)g_rand_int_range(p->random, 0, 30)), 10);
    guint iteration = 0;
    bool early = false;
    while (!is_known(p->place) && iteration < within + p->setup) {
        early = iterate(p) || early;
        g_assert_cmpint(p->place, !=, LAUNCH_LOST);
        iteration++;
    }
    g_assert_true(is_known(p->place));
    g_autofree char *says = launch_pattern_describe(p->pattern);
    g_test_message("after %u: %s", iteration, says);
    g_assert_cmpint(strstr(says, "none is of an optimizer") == NULL, ==, p->optimizer_named);
    g_assert_false(early);
    if (p->odd == 0) /* otherwise the pattern may have been lost in between */
        g_assert_cmpuint(launch_pattern_passed(p->pattern), <=, iteration);
    g_assert_cmpuint(launch_pattern_passed(p->pattern), >=, 4);
    guint ended = 0;
    for (guint i = 0; i < 30; i++) {
        g_assert_false(iterate(p));
        ended += p->place == LAUNCH_LAST;
    }
    /* If iterations differ by chance, the first pattern may have covered several of them. */
    g_assert_cmpuint(ended, >=, p->odd == 0 ? 30 : 20);
}

static void test_waits(void)
{
    for (int round = 0; round < 10; round++) {
        struct program p;
        set_up(&p, true);
        check_program(&p, p.optimizer_named ? 50 : 200);
        tear_down(&p);
    }
}

static void test_without_waits(void)
{
    for (int round = 0; round < 3; round++) {
        struct program p;
        set_up(&p, false);
        p.odd = 0;
        check_program(&p, 300);
        tear_down(&p);
    }
}

/* Accumulates gradients: micro-batches repeat more often than their step. */
static void test_micro_batches(void)
{
    for (int round = 0; round < 5; round++) {
        struct program p;
        set_up(&p, true);
        p.micro_batches = (guint)g_rand_int_range(p.random, 2, 21);
        p.waits_within = g_rand_boolean(p.random);
        p.optimizer_named = p.optimizer_named || p.waits_within;
        p.odd = p.optimizer_named ? p.odd : 0;
        check_program(&p, 60);
        tear_down(&p);
    }
}

/* A single forward of any number of layers is not an iteration, and neither is noise. */
static void test_not_fooled(void)
{
    struct program p;
    set_up(&p, true);
    for (guint layer = 0; layer < 140; layer++)
        for (guint k = 0; k < p.forward; k++) {
            launch(&p, name_of(&p, "forward", k), 10);
            g_assert_cmpint(p.place, ==, LAUNCH_UNKNOWN);
        }
    tear_down(&p);
    set_up(&p, true);
    for (guint i = 0; i < 5000; i++) {
        launch(&p, name_of(&p, "any", (guint)g_rand_int_range(p.random, 0, 20)), 10);
        g_assert_cmpint(p.place, ==, LAUNCH_UNKNOWN);
    }
    tear_down(&p);
}

static void test_lost(void)
{
    struct program p;
    set_up(&p, true);
    p.odd = 0;
    for (guint i = 0; i < 300 && !is_known(p.place); i++)
        iterate(&p);
    g_assert_true(is_known(p.place));
    g_autofree char *says = launch_pattern_describe(p.pattern);
    g_assert_nonnull(strstr(says, "% alike"));
    bool lost = false;
    for (guint i = 0; i < 2000; i++) {
        launch(&p, name_of(&p, "other", (guint)g_rand_int_range(p.random, 0, 30)), 10);
        g_assert_false(lost && p.place != LAUNCH_UNKNOWN);
        lost = lost || p.place == LAUNCH_LOST;
    }
    g_assert_true(lost);
    for (guint i = 0; i < 300 && !is_known(p.place); i++)
        iterate(&p);
    g_assert_true(is_known(p.place)); /* again */
    tear_down(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/launch-pattern/waits", test_waits);
    g_test_add_func("/launch-pattern/without-waits", test_without_waits);
    g_test_add_func("/launch-pattern/micro-batches", test_micro_batches);
    g_test_add_func("/launch-pattern/not-fooled", test_not_fooled);
    g_test_add_func("/launch-pattern/lost", test_lost);
    return g_test_run();
}
