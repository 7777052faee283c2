/* Chunks at home in NVMe between iterations: whoever holds them finds what was written last, and
 * chunks that are used in turn are read once, whatever their slots. */
#include "engine/chunk_mover.h"
#include "engine/nvme_chunks.h"

#include <string.h>

enum { PAGE = PLAN_NVME_ALIGNMENT, CHUNKS = 12, RING = 16 * PAGE };

/* A device that only has a host pool and a file, and transfers at once. */
struct fixture {
    struct device device;
    uint8_t pool[RING], file[CHUNKS * 4 * PAGE];
    struct chunk chunk[CHUNKS];
    uint64_t host_address[CHUNKS], nvme_address[CHUNKS];
    struct layout layout;
    struct plan plan;
    struct plan_figures figures;
    struct chunk_mover mover;
    struct nvme_chunks *chunks;
    uint8_t content[CHUNKS]; /* that every byte of the chunk has */
};

static mover_ticket fake_transfer(struct device *device, enum mover_queue queue,
                                  const struct device_transfer *transfer,
                                  const struct mover_after *after)
{
    struct fixture *f = (struct fixture *)device;
    (void)after;
    g_assert_cmpuint(transfer->host_address % PAGE, ==, 0);
    g_assert_cmpuint(transfer->host_address + transfer->bytes, <=, RING);
    if (queue == MOVER_NVME_WRITE)
        memcpy(f->file + transfer->nvme_address, f->pool + transfer->host_address, transfer->bytes);
    else
        memcpy(f->pool + transfer->host_address, f->file + transfer->nvme_address, transfer->bytes);
    return 1;
}

static void fake_drain(struct device *device)
{
    (void)device;
}

static const struct device_ops fake_ops = {.transfer = fake_transfer, .drain = fake_drain};

/* Chunks of 1 to 4 pages. The third is at home in the host pool, before the room for the others. */
static struct fixture *fixture_new(void)
{
    struct fixture *f = g_new0(struct fixture, 1);
    f->device.ops = &fake_ops;
    f->layout = (struct layout){.chunk_count = CHUNKS, .chunks = f->chunk};
    f->plan = (struct plan){.layout = &f->layout,
                            .host_address = f->host_address,
                            .staging_address = RING,
                            .nvme_address = f->nvme_address};
    for (chunk_id c = 0; c < CHUNKS; c++) {
        uint32_t pages = (uint32_t)g_test_rand_int_range(1, 5);
        f->chunk[c] = (struct chunk){.copy_bytes = pages * PAGE - 256u * (c % 3),
                                     .list = TRACE_EXP_AVG};
        f->host_address[c] = NO_ADDRESS;
        f->nvme_address[c] = f->plan.nvme_bytes;
        f->plan.nvme_bytes += pages * PAGE;
    }
    f->host_address[2] = 0;
    f->nvme_address[2] = NO_ADDRESS;
    f->mover = (struct chunk_mover){.device = &f->device, .figures = &f->figures};
    f->chunks = f->mover.nvme = nvme_chunks_new(&f->plan, &f->mover);
    return f;
}

static void fixture_free(struct fixture *f)
{
    nvme_chunks_free(f->chunks);
    g_free(f);
}

static bool is_filled(const uint8_t *bytes, uint64_t count, uint8_t value)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void hold(struct fixture *f, chunk_id chunk, bool writes)
{
    uint64_t bytes = f->chunk[chunk].copy_bytes;
    uint8_t *at = f->pool + nvme_chunks_hold(f->chunks, chunk, writes);
    g_assert_true(is_filled(at, bytes, f->content[chunk]));
    if (writes)
        memset(at, f->content[chunk] = (uint8_t)g_test_rand_int(), bytes);
}

static void test_contents(void)
{
    for (int i = 0; i < 50; i++) {
        struct fixture *f = fixture_new();
        uint64_t own = f->host_address[2], bytes = f->chunk[2].copy_bytes;
        memset(f->pool + own, 0x77, bytes);
        for (int step = 0; step < 300; step++) {
            chunk_id chunk = (chunk_id)g_test_rand_int_range(0, CHUNKS);
            if (chunk != 2)
                hold(f, chunk, g_test_rand_bit());
            if (g_test_rand_int_range(0, 30) == 0)
                nvme_chunks_let_go(f->chunks);
        }
        nvme_chunks_let_go(f->chunks);
        g_assert_true(is_filled(f->pool + own, bytes, 0x77));
        for (chunk_id c = 0; c < CHUNKS; c++)
            g_assert_true(c == 2 || is_filled(f->file + f->nvme_address[c], f->chunk[c].copy_bytes,
                                              f->content[c]));
        fixture_free(f);
    }
}

/* Three chunks in a room for three. */
static void test_in_turn(void)
{
    struct fixture *f = fixture_new();
    for (chunk_id c = 0; c < CHUNKS; c++) {
        f->chunk[c].copy_bytes = 4 * PAGE;
        f->nvme_address[c] = 4ul * c * PAGE;
    }
    nvme_chunks_free(f->chunks);
    f->chunks = f->mover.nvme = nvme_chunks_new(&f->plan, &f->mover);
    for (int i = 0; i < 30; i++)
        hold(f, i % 3, i == 0);
    g_assert_cmpuint(f->figures.nvme_read_bytes, ==, 3 * 4 * PAGE);
    g_assert_cmpuint(f->figures.nvme_write_bytes, ==, 0);
    nvme_chunks_let_go(f->chunks);
    g_assert_cmpuint(f->figures.nvme_write_bytes, ==, 4 * PAGE);
    fixture_free(f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-chunks/contents", test_contents);
    g_test_add_func("/nvme-chunks/in-turn", test_in_turn);
    return g_test_run();
}
