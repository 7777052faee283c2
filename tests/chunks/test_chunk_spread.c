/* How large chunks are, in figures and in words. */
#include "chunks/chunk_spread.h"

enum { LISTS_OF_TWO = 2 };

/* Chunks of these sizes in the parameters' list, and two larger ones in the next list. */
static struct layout *layout_of(uint64_t asked, const uint64_t *sizes, uint32_t count)
{
    struct layout *layout = g_new0(struct layout, 1);
    layout->chunk_bytes[TRACE_PARAM] = asked;
    layout->chunk_count = count + LISTS_OF_TWO;
    layout->chunks = g_new0(struct chunk, layout->chunk_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        layout->chunks[c] = (struct chunk){.slot_bytes = UINT64_C(1) << 40,
                                           .copy_bytes = c < count ? sizes[c] : 1 << 30,
                                           .list = c < count ? TRACE_PARAM : TRACE_GRAD};
    return layout;
}

static void free_layout(struct layout *layout)
{
    g_free(layout->chunks);
    g_free(layout);
}

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

static void test_sizes(void)
{
    static const struct {
        uint64_t asked;
        uint64_t sizes[5]; /* ends with 0 */
        uint64_t typical, stands_for_all;
        const char *text;
    } cases[] = {
        {MIB, {MIB, MIB, MIB / 2}, MIB, MIB, "1 MiB"},
        {MIB, {9 * MIB, MIB, KIB}, 9 * MIB, MIB, "1 MiB"}, /* one tensor is larger than a chunk */
        {256, {KIB, 4 * MIB, 4 * MIB, 512}, 4 * MIB, 4 * MIB, "512 B to 4 MiB"},
        {256, {2 * KIB, KIB, KIB, 256}, KIB, KIB, "256 B to 2 KiB"}, /* half lies in the small */
        {512, {2 * MIB, MIB}, 2 * MIB, 2 * MIB, "1 MiB to 2 MiB"},
        {256, {MIB, MIB}, MIB, MIB, "1 MiB"}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint32_t count = 0;
        uint64_t least = UINT64_MAX, most = 0;
        for (; count < 5 && cases[i].sizes[count]; count++) {
            least = MIN(least, cases[i].sizes[count]);
            most = MAX(most, cases[i].sizes[count]);
        }
        struct layout *layout = layout_of(cases[i].asked, cases[i].sizes, count);
        const struct chunk_spread spread = chunk_spread_of(layout, TRACE_PARAM);
        g_assert_cmpuint(spread.asked, ==, cases[i].asked);
        g_assert_cmpuint(spread.least, ==, least);
        g_assert_cmpuint(spread.most, ==, most);
        g_assert_cmpuint(spread.typical, ==, cases[i].typical);
        g_assert_cmpuint(chunk_spread_size(&spread), ==, cases[i].stands_for_all);
        g_autofree char *text = chunk_spread_format(&spread);
        g_assert_cmpstr(text, ==, cases[i].text);

        json_t *object = json_object();
        chunk_spread_to_json(&spread, object);
        const struct chunk_spread again = chunk_spread_from_json(object);
        g_assert_cmpmem(&again, sizeof again, &spread, sizeof spread);
        json_decref(object);
        free_layout(layout);
    }
}

static void test_unknown(void)
{
    struct layout *layout = layout_of(256, &(const uint64_t){0}, 0);
    const struct chunk_spread none = chunk_spread_of(layout, TRACE_PARAM);
    g_assert_cmpuint(chunk_spread_size(&none), ==, 0);
    g_assert_null(chunk_spread_format(&none));

    /* Files from before there were ranges: a size is one, the alignment is none. */
    json_t *object = json_pack("{s:i}", "chunk_bytes", 4096);
    const struct chunk_spread old = chunk_spread_from_json(object);
    g_autofree char *text = chunk_spread_format(&old);
    g_assert_cmpstr(text, ==, "4 KiB");
    json_object_set_new(object, "chunk_bytes", json_integer(256));
    const struct chunk_spread aligned = chunk_spread_from_json(object);
    g_assert_null(chunk_spread_format(&aligned));
    json_decref(object);
    free_layout(layout);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/chunk-spread/sizes", test_sizes);
    g_test_add_func("/chunk-spread/unknown", test_unknown);
    return g_test_run();
}
