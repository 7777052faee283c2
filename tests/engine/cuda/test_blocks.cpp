/* What launches need beside kernels: the order of attention's blocks on tensor cores, and limits of
 * shared memory. */
#include "engine/cuda/attention_half.h"
#include "engine/cuda/shared_limits.h"
#include <glib.h>
#include <vector>

static std::vector<half_block> blocks_of(const struct attention &a)
{
    std::vector<half_block> blocks;
    gridDim = half_grid<2>(a, a.heads);
    for (unsigned x = 0; x < gridDim.x; x++) {
        blockIdx = dim3(x);
        blocks.push_back(half_block_of(a, 1));
    }
    return blocks;
}

/* Every block of every head occurs once, and the longest of a head come first. */
static void check_heads(const struct attention &a, const std::vector<half_block> &blocks)
{
    uint32_t each = launch_blocks(a.T, 2 * TILE);
    std::vector<uint32_t> next(a.heads);
    g_assert_cmpuint(blocks.size(), ==, (size_t)each * a.heads);
    for (const half_block &block : blocks) {
        uint32_t head = block.head.head - a.first_head;
        g_assert_cmpuint(head, <, a.heads);
        g_assert_cmpuint(block.longer, ==, next[head]++);
        g_assert_cmpuint(block.longer + 1 + block.shorter, ==, each);
    }
}

/* From block `first` on the longest come first; before it, heads come one after the other. */
static void check_order(const std::vector<half_block> &blocks, size_t first)
{
    for (size_t i = 1; i < blocks.size(); i++) {
        if (i < first)
            g_assert_cmpuint(blocks[i].head.head, >=, blocks[i - 1].head.head);
        if (i > first)
            g_assert_cmpuint(blocks[i].longer, >=, blocks[i - 1].longer);
    }
}

static void check(uint32_t T, uint32_t heads, uint32_t D, uint32_t together)
{
    struct attention a = {};
    a.first_head = 36;
    a.heads = heads;
    a.T = T;
    a.A = 12;
    a.group = 1;
    a.D = D;
    std::vector<half_block> blocks = blocks_of(a);
    check_heads(a, blocks);
    check_order(blocks, (size_t)(heads - together) * launch_blocks(T, 2 * TILE));
}

/* 16 MiB of two bf16 tensors are 64 heads of 1024 tokens by 64. */
static void order()
{
    check(1, 1, 8, 1);
    check(1000, 48, 64, 48);
    check(1024, 300, 64, 64);
    check(1024, 100, 128, 32);
    check(3000, 24, 64, 21);
    check(100000, 3, 64, 0);
}

/* A kernel's limit is raised at its first large launch, and for a larger one. */
static void limits()
{
    static const char kernels[SHARED_LIMIT_KERNELS + 2] = {};
    const size_t large = SHARED_LIMIT_BYTES + 1;
    g_assert_false(shared_limit_rises(&kernels[0], SHARED_LIMIT_BYTES));
    g_assert_true(shared_limit_rises(&kernels[0], large));
    g_assert_false(shared_limit_rises(&kernels[0], large));
    g_assert_true(shared_limit_rises(&kernels[0], large + 1));
    g_assert_false(shared_limit_rises(&kernels[0], large));
    for (int i = 1; i < SHARED_LIMIT_KERNELS + 2; i++)
        g_assert_true(shared_limit_rises(&kernels[i], large));
    g_assert_false(shared_limit_rises(&kernels[SHARED_LIMIT_KERNELS - 1], large));
    g_assert_true(shared_limit_rises(&kernels[SHARED_LIMIT_KERNELS + 1], large)); /* no room */
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/attention/blocks", order);
    g_test_add_func("/launches/shared-limits", limits);
    return g_test_run();
}
