#include "base/size.h"

static void test_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"1024", 1024},
        {"2G", UINT64_C(2000000000)},
        {"2GB", UINT64_C(2000000000)},
        {"2e9", UINT64_C(2000000000)},
        {"2E+9", UINT64_C(2000000000)},
        {"1.5e9", UINT64_C(1500000000)},
        {"1.5e3MB", UINT64_C(1500000000)},
        {"1.5T", UINT64_C(1500000000000)},
        {"512k", 512000},
        {"64M", 64000000},
        {"10B", 10},
        {"64B", 64},
        {"64MiB", 67108864},
        {"64 MiB", 67108864},
        {"1.5GB", 1500000000},
        {"1.46 GiB", 1567663063}, /* 1567663063.04 */
        {"3kB", 3000},
        {"3KB", 3000},
        {"3KiB", 3072},
        {"2TiB", UINT64_C(2199023255552)},
        {"0.001PB", UINT64_C(1000000000000)},
        {"0.1B", 0},
        {"0.99999999999999999999999999999999MB", 999999},
        {"18446744073709551615", UINT64_MAX},
        {"16383.99999999999999999912PiB", UINT64_MAX}, /* a bit more than 2^64 - 1 */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        uint64_t bytes = 77;
        g_assert_true(size_parse(cases[i].text, &bytes, &error));
        g_assert_no_error(error);
        g_assert_cmpuint(bytes, ==, cases[i].bytes);
    }
}

static void test_bad_sizes(void)
{
    static const struct {
        const char *text;
        enum size_error code;
    } cases[] = {
        {"", SIZE_ERROR_SYNTAX},
        {"64MB0", SIZE_ERROR_SYNTAX},
        {"MB", SIZE_ERROR_SYNTAX},
        {"-1MB", SIZE_ERROR_SYNTAX},
        {"+1MB", SIZE_ERROR_SYNTAX},
        {" 1MB", SIZE_ERROR_SYNTAX},
        {"1MB ", SIZE_ERROR_SYNTAX},
        {"1  MB", SIZE_ERROR_SYNTAX},
        {"1 ", SIZE_ERROR_SYNTAX},
        {"1.MB", SIZE_ERROR_SYNTAX},
        {".5MB", SIZE_ERROR_SYNTAX},
        {"1.2.3MB", SIZE_ERROR_SYNTAX},
        {"1e", SIZE_ERROR_SYNTAX},
        {"1e+", SIZE_ERROR_SYNTAX},
        {"e9", SIZE_ERROR_SYNTAX},
        {"10", SIZE_ERROR_SYNTAX},
        {"1023", SIZE_ERROR_SYNTAX},
        {"0.5", SIZE_ERROR_SYNTAX},
        {"40.0", SIZE_ERROR_SYNTAX},
        {"1e2", SIZE_ERROR_SYNTAX},
        {"2g", SIZE_ERROR_SYNTAX},
        {"0x10", SIZE_ERROR_SYNTAX},
        {"1mb", SIZE_ERROR_SYNTAX},
        {"1MBB", SIZE_ERROR_SYNTAX},
        {"1,5GB", SIZE_ERROR_SYNTAX},
        {"1Mi", SIZE_ERROR_SYNTAX},
        {"inf", SIZE_ERROR_SYNTAX},
        {"1GB/s", SIZE_ERROR_SYNTAX},
        {"16384PiB", SIZE_ERROR_RANGE},
        {"18446744073709551616", SIZE_ERROR_RANGE},
        {"99999999999999999999", SIZE_ERROR_RANGE},
        {"1e20", SIZE_ERROR_RANGE},
        {"1e999", SIZE_ERROR_RANGE},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        uint64_t bytes = 77;
        g_assert_false(size_parse(cases[i].text, &bytes, &error));
        g_assert_error(error, SIZE_ERROR, (int)cases[i].code);
        g_assert_nonnull(strstr(error->message, cases[i].text));
        g_assert_cmpuint(bytes, ==, 77);
        g_clear_error(&error);
    }
}

static void test_rates(void)
{
    double rate = 0;
    g_assert_true(rate_parse("12GB/s", &rate, NULL));
    g_assert_cmpfloat(rate, ==, 12e9);
    g_assert_true(rate_parse("0.5 MiB/s", &rate, NULL));
    g_assert_cmpfloat(rate, ==, 524288);
    g_assert_true(rate_parse("12e9/s", &rate, NULL));
    g_assert_cmpfloat(rate, ==, 12e9);
    g_assert_true(rate_parse("12G/s", &rate, NULL));
    g_assert_cmpfloat(rate, ==, 12e9);
    g_assert_true(rate_parse("100B/s", &rate, NULL));
    g_assert_cmpfloat(rate, ==, 100);
    static const char *const bad[] = {"",         "12GB",  "12GB/", "12GB/S", "/s",
                                      "12GB/s/s", "0GB/s", "0.0/s", "12/s"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_assert_false(rate_parse(bad[i], &rate, &error));
        g_assert_true(error->domain == SIZE_ERROR);
        g_assert_cmpstr(g_quark_to_string(error->domain), ==, "pstar_size_error");
        g_clear_error(&error);
    }
    g_assert_cmpfloat(rate, ==, 100);
}

static void test_format(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {67108864, "64 MiB"},
        {1567663063, "1.46 GiB"},
        {(UINT64_C(1) << 30) - 1, "1.00 GiB"},
        {UINT64_C(1) << 63, "8 EiB"},
        {UINT64_MAX, "16.00 EiB"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *text = size_format(cases[i].bytes);
        g_assert_cmpstr(text, ==, cases[i].text);
        g_free(text);
    }
}

/* Printed sizes can be parsed again: exactly for whole units, otherwise within the two digits
 * shown. */
static void test_round_trip(void)
{
    for (int i = 0; i < 10000; i++) {
        uint64_t bytes = (((uint64_t)g_test_rand_int() << 32) | (uint32_t)g_test_rand_int()) >>
                         g_test_rand_int_range(5, 64);
        char *text = size_format(bytes);
        uint64_t back = 0;
        g_assert_true(size_parse(text, &back, NULL));
        double difference = (double)back - (double)bytes;
        g_assert_cmpfloat(difference < 0 ? -difference : difference, <=, 0.005 * (double)bytes + 1);
        if (!strchr(text, '.'))
            g_assert_cmpuint(back, ==, bytes);
        g_free(text);
    }
}

/* In the largest unit that is exact, and the same number again. */
static void test_exact(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0B"},
                 {3, "3B"},
                 {1024, "1KiB"},
                 {1000, "1kB"},
                 {UINT64_C(1200) << 20, "1200MiB"},
                 {UINT64_C(40000000000), "40GB"},
                 {UINT64_C(40) << 30, "40GiB"},
                 {1500000, "1500kB"},
                 {UINT64_C(1) << 63, "8589934592GiB"},
                 {UINT64_MAX, "18446744073709551615B"}};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint64_t again;
        g_autofree char *text = size_exact(sizes[i].bytes);
        g_assert_cmpstr(text, ==, sizes[i].text);
        g_assert_true(size_parse(text, &again, NULL));
        g_assert_cmpuint(again, ==, sizes[i].bytes);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/size/parse", test_sizes);
    g_test_add_func("/size/refuse", test_bad_sizes);
    g_test_add_func("/size/rates", test_rates);
    g_test_add_func("/size/format", test_format);
    g_test_add_func("/size/round-trip", test_round_trip);
    g_test_add_func("/size/exact", test_exact);
    return g_test_run();
}
