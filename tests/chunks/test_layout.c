#include "chunks/layout.h"
#include "tests/chunks/random_iteration.h"

#define TRIALS 300

static const struct layout_place *place_of(const struct layout *layout, int list, uint32_t tensor,
                                           uint32_t block)
{
    return &layout->places[list][layout_place_index(layout, list, tensor, block)];
}

/* Chunks of a list are numbered in packing order and none holds tensors of two coarser chunks. */
static void check_nesting(const struct layout *layout, const struct trace *trace, int coarse,
                          int fine)
{
    g_autofree uint32_t *owner = g_new(uint32_t, layout->chunk_count);
    memset(owner, 0xff, layout->chunk_count * sizeof *owner);
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        for (uint32_t b = 0; b < trace_blocks(trace, (enum trace_list)fine, t); b++) {
            uint32_t of_fine = place_of(layout, fine, t, b)->chunk,
                     of_coarse = place_of(layout, coarse, t, 0)->chunk;
            g_assert_true(owner[of_fine] == NO_INDEX || owner[of_fine] == of_coarse);
            owner[of_fine] = of_coarse;
            g_assert_cmpuint(layout->chunks[of_fine].group, ==, layout->chunks[of_coarse].group);
        }
}

/* Checks a tensor's block and, if the tensor is cut, that no other shares its chunk. */
static void check_place(const struct layout *layout, const struct trace *trace, int list,
                        uint32_t tensor, uint32_t block)
{
    const struct layout_place *place = place_of(layout, list, tensor, block);
    const struct chunk *chunk = &layout->chunks[place->chunk];
    uint64_t bytes = trace_block_bytes(trace, (enum trace_list)list, tensor, block);
    g_assert_cmpint(chunk->list, ==, list);
    g_assert_cmpuint(place->offset % LAYOUT_ALIGNMENT, ==, 0);
    g_assert_cmpuint(place->offset + bytes, <=, chunk->copy_bytes);
    g_assert_cmpuint(chunk->copy_bytes, <=, chunk->slot_bytes);
    /* Larger than the list's chunks: one tensor's or block's own. */
    if (chunk->slot_bytes > layout->chunk_bytes[list])
        g_assert_cmpuint(chunk->slot_bytes, ==, (bytes + 255) / 256 * 256);
    for (uint32_t other = 0; other < tensor; other++)
        for (uint32_t b = 0; b < trace_blocks(trace, (enum trace_list)list, other); b++) {
            const struct layout_place *before = place_of(layout, list, other, b);
            uint64_t end = before->offset +
                           trace_block_bytes(trace, (enum trace_list)list, other, b);
            bool shared = before->chunk == place->chunk;
            g_assert_true(!shared || end <= place->offset);
            g_assert_false(shared && (trace_is_cut(trace, tensor) || trace_is_cut(trace, other)));
        }
}

static void check_places(const struct layout *layout, const struct trace *trace, int list)
{
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        for (uint32_t b = 0; b < trace_blocks(trace, (enum trace_list)list, t); b++)
            check_place(layout, trace, list, t, b);
}

static void test_packing(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < TRIALS; i++) {
        struct trace *trace = random_iteration(random);
        GError *error = NULL;
        struct layout *layout =
            layout_pack_uniform(trace, 256 * (uint64_t)g_rand_int_range(random, 1, 60), &error);
        g_assert_no_error(error);
        for (int list = 0; list < TRACE_LISTS; list++) {
            g_assert_true(!layout->places[list] == !trace->list_element_bytes[list]);
            if (layout->places[list])
                check_places(layout, trace, list);
            if (layout->places[list] && list != TRACE_PARAM)
                check_nesting(layout, trace, TRACE_PARAM, list);
        }
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

/* Four tensors of 1024 bytes in fp32, 512 in bf16, in chunks of 1024: a bf16 chunk covers two. */
static void test_nested_by_hand(void)
{
    struct trace_tensor tensors[4] = {{"a", 256, 0}, {"b", 256, 0}, {"c", 256, 0}, {"d", 256, 0}};
    struct trace trace = {
        .list_element_bytes = {2, 0, 4, 4, 4}, .tensor_count = 4, .tensors = tensors};
    struct layout *layout = layout_pack_uniform(&trace, 1024, NULL);
    g_assert_cmpuint(layout->chunk_count, ==, 2 + 3 * 4);
    g_assert_cmpuint(layout->group_count, ==, 2);
    g_assert_cmpuint(layout->places[TRACE_PARAM][1].chunk, ==, 0);
    g_assert_cmpuint(layout->places[TRACE_PARAM][1].offset, ==, 512);
    g_assert_cmpuint(layout->places[TRACE_PARAM][2].chunk, ==, 1);
    g_assert_cmpuint(layout->places[TRACE_MASTER][3].chunk, ==, 5);
    g_assert_cmpuint(layout->chunks[5].group, ==, 1);
    g_assert_cmpuint(layout_slot_bytes(layout), ==, 14 * 1024);
    layout_free(layout);
}

/* A tensor of five blocks and a short one between two small ones. A chunk of states takes two
 * blocks. */
static void test_cut_by_hand(void)
{
    struct trace_tensor tensors[3] = {{"a", 256, 0}, {"b", 5 * 1024 + 64, 0}, {"c", 256, 0}};
    struct trace trace = {.list_element_bytes = {2, 0, 4, 4, 4},
                          .tensor_count = 3,
                          .tensors = tensors,
                          .state_block = 1024};
    struct layout *layout = layout_pack_uniform(&trace, 8192, NULL);
    g_assert_cmpuint(trace_blocks(&trace, TRACE_PARAM, 1), ==, 1);
    g_assert_cmpuint(trace_blocks(&trace, TRACE_EXP_AVG, 1), ==, 6);
    g_assert_cmpuint(trace_block_elements(&trace, TRACE_EXP_AVG, 1, 5), ==, 64);
    g_assert_cmpuint(layout->chunk_count, ==, 3 + 3 * (1 + 3 + 1));
    g_assert_cmpuint(layout->group_count, ==, 3);
    for (uint32_t b = 0; b < 6; b++) {
        const struct layout_place *place = place_of(layout, TRACE_MASTER, 1, b);
        g_assert_cmpuint(place->chunk, ==, 4 + b / 2);
        g_assert_cmpuint(place->offset, ==, b % 2 * 4096);
        g_assert_cmpuint(layout->chunks[place->chunk].group, ==, 1);
    }
    g_autofree uint8_t *continues = layout_continuations(layout);
    for (uint32_t c = 3; c < 8; c++)
        g_assert_cmpint(continues[c], ==, c == 5 || c == 6);
    g_assert_cmpint(layout_coarsest_list(layout), ==, TRACE_PARAM);
    g_autofree char *name = layout_place_name(layout, &trace, TRACE_MASTER, 4);
    g_assert_cmpstr(name, ==, "b[3]");
    layout_free(layout);
}

/* Buffers of one name and size share a chunk if they live one after the other. */
static void test_buffers(void)
{
    struct trace_tensor tensors[1] = {{"a", 10, 0}};
    struct trace_buffer buffers[6] = {{"x", 512, 0, 1, true, 0},  {"y", 512, 0, 2, true, 0},
                                      {"x", 512, 2, 3, true, 0},  {"x", 512, 3, 4, true, 0},
                                      {"y", 256, 3, 4, false, 0}, {"z", 256, 1, 3, false, 0}};
    struct trace_access accesses[5];
    for (uint32_t b = 0; b < G_N_ELEMENTS(accesses); b++)
        accesses[b] = (struct trace_access){b, TRACE_ACTIVATION, TRACE_OVERWRITE, 0};
    struct trace trace = {.list_element_bytes = {4},
                          .tensor_count = 1,
                          .tensors = tensors,
                          .buffer_count = 6,
                          .buffers = buffers,
                          .access_count = 5,
                          .accesses = accesses};
    struct layout *layout = layout_pack_uniform(&trace, 256, NULL);
    static const uint32_t chunk[6] = {1, 2, 1, 3, 4, NO_INDEX};

    g_assert_cmpuint(layout->buffer_count, ==, 6);
    g_assert_cmpuint(layout->chunk_count, ==, 5);
    g_assert_cmpuint(layout->group_count, ==, 5);
    for (int b = 0; b < 6; b++)
        g_assert_cmpuint(layout->places[TRACE_ACTIVATION][b].chunk, ==, chunk[b]);
    g_assert_cmpuint(layout->chunks[1].copy_bytes, ==, 512);
    g_assert_cmpuint(layout->chunks[4].copy_bytes, ==, 256);

    struct layout *again = layout_copy(layout);
    layout_hold_buffers(again, &trace);
    g_assert_true(layout_same_chunks(layout, again));
    trace.access_count = 0;
    layout_hold_buffers(again, &trace);
    g_assert_false(layout_same_chunks(layout, again));
    g_assert_cmpuint(again->chunk_count, ==, 1);
    g_assert_cmpuint(again->group_count, ==, 1);
    layout_free(again);
    layout_free(layout);
}

static void test_refusals(void)
{
    struct trace_tensor tensors[2] = {{"a", 10, 0}, {"b", 10, 0}};
    struct trace trace = {
        .list_element_bytes = {4, 4, 0, 4, 4}, .tensor_count = 2, .tensors = tensors};
    GError *error = NULL;
    g_assert_null(layout_pack_uniform(&trace, 1000, &error));
    g_assert_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_null(layout_pack_uniform(&trace, 0, &error));
    g_assert_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID);
    g_clear_error(&error);
    uint32_t twice[2] = {1, 1};
    struct layout_spec spec = {.chunk_bytes = {256, 256, 256, 256, 256}, .order = twice};
    g_assert_null(layout_pack(&trace, &spec, &error));
    g_assert_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID);
    g_clear_error(&error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/layout/packing", test_packing);
    g_test_add_func("/layout/nested-by-hand", test_nested_by_hand);
    g_test_add_func("/layout/cut-by-hand", test_cut_by_hand);
    g_test_add_func("/layout/buffers", test_buffers);
    g_test_add_func("/layout/refusals", test_refusals);
    return g_test_run();
}
