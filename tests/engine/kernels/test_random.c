/* Random words against published vectors, and bf16 exhaustively. */
#include "engine/bf16.h"
#include "engine/random.h"

#include <glib.h>
#include <math.h>

/* Known answers of the authors' own library (Random123, kat_vectors). */
static void philox_gives_the_published_words(void)
{
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        uint32_t words[4];
        random_philox(known[i].counter, known[i].key, words);
        for (int w = 0; w < 4; w++)
            g_assert_cmphex(words[w], ==, known[i].words[w]);
    }
}

static void streams_differ(void)
{
    struct random_stream a = {1, 2, 3};
    struct random_stream others[] = {{2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {1ull << 32 | 1, 2, 3}};
    for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
        int equal = 0;
        for (uint64_t e = 0; e < 1000; e++)
            equal += random_word(&a, e) == random_word(&others[i], e);
        g_assert_cmpint(equal, <=, 1);
    }
}

static void normal_values_have_their_moments(void)
{
    enum { COUNT = 1 << 20 };
    struct random_stream stream = {(uint64_t)g_test_rand_int(), 0, 5};
    float *values = g_new(float, COUNT);
    double sum = 0, squares = 0, fourth = 0;
    random_normal(&stream, 0, COUNT, 3, values);
    for (int i = 0; i < COUNT; i++) {
        double v = (double)values[i] / 3;
        sum += v;
        squares += v * v;
        fourth += v * v * v * v;
    }
    g_assert_cmpfloat(fabs(sum / COUNT), <, 6.0 / sqrt(COUNT));
    g_assert_cmpfloat(fabs(squares / COUNT - 1), <, 6 * sqrt(2.0 / COUNT));
    g_assert_cmpfloat(fabs(fourth / COUNT - 3), <, 6 * sqrt(96.0 / COUNT));
    g_free(values);
}

static void normal_values_do_not_depend_on_the_cut(void)
{
    enum { COUNT = 1000 };
    struct random_stream stream = {(uint64_t)g_test_rand_int(), 0, 7};
    float whole[COUNT], piece[COUNT];
    random_normal(&stream, 0, COUNT, 0.02, whole);
    for (int trial = 0; trial < 50; trial++) {
        int first = g_test_rand_int_range(0, COUNT);
        int count = g_test_rand_int_range(0, COUNT - first + 1);
        random_normal(&stream, (uint64_t)first, (uint64_t)count, 0.02, piece);
        g_assert_cmpmem(piece, (size_t)count * sizeof *piece, whole + first,
                        (size_t)count * sizeof *whole);
    }
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void every_bf16_survives(void)
{
    for (uint32_t half = 0; half <= 0xffff; half++) {
        float value = bf16_widen((uint16_t)half);
        if (isnan(value))
            g_assert_true(isnan(bf16_widen(bf16_round(value))));
        else
            g_assert_cmphex(bf16_round(value), ==, half);
    }
}

/* The half that is kept and the 16 bits that are left, sign extended, give the fp32 back. */
static void rounding_loses_nothing_beside_the_low_half(void)
{
    for (int i = 0; i < 1000000; i++) {
        uint32_t bits = (uint32_t)g_test_rand_int();
        float value = float_of(bits);
        uint16_t high = bf16_round(value);
        if (isnan(value)) {
            g_assert_true(isnan(bf16_widen(high)));
            continue;
        }
        int16_t low = (int16_t)(uint16_t)bits;
        g_assert_cmphex(((uint32_t)high << 16) + (uint32_t)(int32_t)low, ==, bits);
        double error = fabs((double)bf16_widen(high) - (double)value);
        if (isfinite(bf16_widen(high)) && fabsf(value) > 1e-30f)
            g_assert_cmpfloat(error, <=, 0x1p-8 * fabs((double)value));
    }
    g_assert_cmphex(bf16_round(float_of(0x3f808000)), ==, 0x3f81); /* a tie goes away from zero */
    g_assert_cmphex(bf16_round(float_of(0x3f818000)), ==, 0x3f82);
    g_assert_cmphex(bf16_round(INFINITY), ==, 0x7f80);
    g_assert_true(isnan(bf16_widen(bf16_round(float_of(0x7fffffff)))));
    g_assert_cmphex(bits_of(bf16_widen(bf16_round(-0.0f))), ==, 0x80000000);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/random/philox", philox_gives_the_published_words);
    g_test_add_func("/random/streams", streams_differ);
    g_test_add_func("/random/normal/moments", normal_values_have_their_moments);
    g_test_add_func("/random/normal/cut", normal_values_do_not_depend_on_the_cut);
    g_test_add_func("/bf16/all", every_bf16_survives);
    g_test_add_func("/bf16/rounding", rounding_loses_nothing_beside_the_low_half);
    return g_test_run();
}
