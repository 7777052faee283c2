/* Finds steps hidden in a sequence of symbols. */
#include "traces/activity/steps.h"

#include <glib.h>

enum { CASES = 200, MOST_SYMBOLS = 60 };

/* Makes a training step: the same few symbols per layer in forward, others per layer in backward,
 * and an update. */
static GArray *make_step(GRand *random, uint32_t symbols)
{
    GArray *step = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    gint32 layers = g_rand_int_range(random, 1, 30);
    for (int part = 0; part < 4; part++) {
        uint32_t layer[12];
        gint32 length = g_rand_int_range(random, 2, 13),
               times = part == 1 || part == 2 ? layers : 1;
        for (int i = 0; i < length; i++)
            layer[i] = (uint32_t)g_rand_int_range(random, 0, (gint32)symbols);
        for (int t = 0; t < times; t++)
            g_array_append_vals(step, layer, (guint)length);
    }
    uint32_t once = symbols; /* the update's own kernel */
    g_array_append_val(step, once);
    return step;
}

static void append_noise(GArray *sequence, GRand *random, uint32_t symbols, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        uint32_t symbol = (uint32_t)g_rand_int_range(random, 0, (gint32)symbols);
        g_array_append_val(sequence, symbol);
    }
}

static struct period find(const GArray *sequence)
{
    return period_find((const uint32_t *)(void *)sequence->data, sequence->len, MOST_SYMBOLS + 1,
                       NULL);
}

static void test_steps(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    for (int c = 0; c < CASES; c++) {
        uint32_t symbols = (uint32_t)g_rand_int_range(random, 8, MOST_SYMBOLS + 1);
        uint32_t repeats = (uint32_t)g_rand_int_range(random, 3, 8);
        g_autoptr(GArray) step = make_step(random, symbols - 1);
        g_autoptr(GArray) sequence = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        append_noise(sequence, random, symbols - 1,
                     g_rand_int_range(random, 0, (gint32)step->len / 2 + 1));
        for (uint32_t r = 0; r < repeats; r++)
            g_array_append_vals(sequence, step->data, step->len);
        struct period period = find(sequence);
        g_assert_cmpuint(period.length, ==, step->len);
        g_assert_cmpuint(period.count, >=, repeats - (period.first > 0 ? 1 : 0));
        g_assert_cmpfloat(period.alike, >, 0.9);
    }
}

/* Replaces a kernel here and there, as for a missing gradient or another algorithm. */
static void test_changes(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    for (int c = 0; c < CASES; c++) {
        g_autoptr(GArray) step = make_step(random, MOST_SYMBOLS - 1);
        g_autoptr(GArray) sequence = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        for (int r = 0; r < 6; r++)
            g_array_append_vals(sequence, step->data, step->len);
        for (guint i = 0; i < sequence->len / 50; i++)
            g_array_index(sequence, uint32_t,
                          (guint)g_rand_int_range(random, 0, (gint32)sequence->len)) =
                (uint32_t)g_rand_int_range(random, 0, MOST_SYMBOLS - 1);
        struct period period = find(sequence);
        g_assert_cmpuint(period.length, ==, step->len);
        g_assert_cmpfloat(period.alike, <=, 1);
    }
}

/* A step of many micro-batches whose last symbols are known to end it. */
static void test_micro_batches(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    bool ending[MOST_SYMBOLS + 1] = {[MOST_SYMBOLS] = true};
    for (int c = 0; c < CASES / 4; c++) {
        g_autoptr(GArray) batch = make_step(random, MOST_SYMBOLS - 1);
        g_autoptr(GArray) sequence = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        gint32 batches = g_rand_int_range(random, 1, 130),
               tensors = g_rand_int_range(random, 1, 40);
        uint32_t begin = (uint32_t)g_rand_int_range(random, 0, (gint32)batch->len),
                 end = MOST_SYMBOLS;
        g_array_set_size(batch, batch->len - 1); /* the update's kernel */
        for (int step = 0; step < 4; step++) {
            for (gint32 b = 0; b < batches; b++)
                g_array_append_vals(sequence, batch->data, batch->len);
            for (gint32 t = 0; t < tensors; t++)
                g_array_append_val(sequence, end);
        }
        struct period period = period_find((const uint32_t *)(void *)sequence->data + begin,
                                           sequence->len - begin, MOST_SYMBOLS + 1, ending);
        g_assert_cmpuint(period.length, ==, (guint)batches * batch->len + (guint)tensors);
        g_assert_cmpuint(period.count, >=, 3);
    }
}

static void test_none(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    g_autoptr(GArray) sequence = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_assert_cmpuint(find(sequence).length, ==, 0);
    append_noise(sequence, random, MOST_SYMBOLS, 1);
    g_assert_cmpuint(find(sequence).length, ==, 0);
    append_noise(sequence, random, MOST_SYMBOLS, 1000);
    g_assert_cmpuint(find(sequence).length, ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/period/steps", test_steps);
    g_test_add_func("/period/changes", test_changes);
    g_test_add_func("/period/micro-batches", test_micro_batches);
    g_test_add_func("/period/none", test_none);
    return g_test_run();
}
