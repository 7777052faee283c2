/* Homes in NVMe: plans that have them keep their budgets, survive their file, and are refused where
 * they are damaged. */
#include "chunks/nvme_homes.h"
#include "chunks/pipeline.h"
#include "tests/chunks/random_iteration.h"

#include <glib/gstdio.h>
#include <string.h>

enum { PLANS = 40 };

struct fixture {
    struct trace *trace;
    struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
    struct plan *plan;
};

static void close_plan(struct fixture *f)
{
    plan_free(f->plan);
    accesses_free(f->accesses);
    non_model_free(f->non_model);
    layout_free(f->layout);
    trace_free(f->trace);
}

static const struct nvme_budget unlimited = {.host_bytes = UINT64_MAX, .nvme_bytes = UINT64_MAX};

/* Makes a plan with everything at home on the host. */
static void open_plan(struct fixture *f, GRand *random)
{
    GError *error = NULL;
    f->trace = random_iteration(random);
    f->layout = layout_pack_uniform(f->trace, 256 * (uint64_t)g_rand_int_range(random, 1, 60),
                                    NULL);
    f->non_model = non_model_place(f->trace);
    f->accesses = accesses_new(f->trace, f->layout, f->non_model->extent);
    const struct dry_run_options options = {
        .device_budget = accesses_least_arena_bytes(f->accesses, f->layout, NULL) + 4096,
        .host_budget = UINT64_MAX,
        .policy = &policy_opt};
    f->plan = dry_run(f->trace, f->layout, &options, &error);
    g_assert_no_error(error);
}

/* Draws plans until one has chunks that can live in NVMe, and gives all of them homes there. */
static void open_tiered(struct fixture *f, GRand *random)
{
    for (;;) {
        open_plan(f, random);
        if (nvme_homes_give(f->plan, f->trace, f->accesses, &unlimited, NULL))
            return;
        close_plan(f);
    }
}

static uint64_t actions_of(const struct plan *plan, enum plan_action_kind kind)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < plan->action_count; i++)
        count += plan->actions[i].kind == kind;
    return count;
}

/* Every chunk in NVMe is loaded and stored once; its bytes are what is predicted. */
static void test_plans(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < PLANS; i++) {
        struct fixture f;
        uint64_t chunks = 0, bytes = 0;
        GError *error = NULL;
        open_tiered(&f, random);
        plan_check(f.plan, f.trace, &error);
        g_assert_no_error(error);
        for (chunk_id c = 0; c < f.plan->layout->chunk_count; c++) {
            chunks += plan_in_nvme(f.plan, c);
            bytes += plan_in_nvme(f.plan, c) ? plan_nvme_slot(f.plan->layout, c) : 0;
        }
        g_assert_cmpuint(actions_of(f.plan, PLAN_LOAD), ==, chunks);
        g_assert_cmpuint(actions_of(f.plan, PLAN_STORE), ==, chunks);
        g_assert_cmpuint(f.plan->predicted.nvme_read_bytes, ==, bytes);
        g_assert_cmpuint(f.plan->predicted.nvme_write_bytes, ==, bytes);
        g_assert_cmpuint(f.plan->predicted.peak_nvme_bytes, ==, f.plan->nvme_bytes);
        g_assert_cmpuint(f.plan->nvme_bytes, ==, bytes);
        close_plan(&f);
    }
    g_rand_free(random);
}

/* Returns the number before " bytes would fit". */
static uint64_t said_to_fit(const GError *error)
{
    const char *end = strstr(error->message, " bytes would fit");
    g_assert_nonnull(end);
    while (g_ascii_isdigit(end[-1]))
        end--;
    return g_ascii_strtoull(end, NULL, 10);
}

/* What the message says fits, and less does not. Plans without updates on the host have nothing for
 * NVMe. */
static void check_said(struct fixture *f, const struct nvme_budget *refused, const GError *error)
{
    bool of_host = g_str_has_prefix(error->message, "host memory");
    struct nvme_budget said = *refused;
    uint64_t *size = of_host ? &said.host_bytes : &said.nvme_bytes;
    if (strstr(error->message, "--host-update"))
        return;
    *size = said_to_fit(error) - 1;
    g_assert_false(nvme_homes_give(f->plan, f->trace, f->accesses, &said, NULL));
    ++*size;
    g_assert_true(nvme_homes_give(f->plan, f->trace, f->accesses, &said, NULL));
}

/* With every host budget from too little to enough, in small steps: it is kept, or the message says
 * a budget that would fit. */
static void test_budgets(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    int tiered = 0;
    for (int i = 0; i < PLANS * 4; i++) {
        struct fixture f;
        GError *error = NULL;
        open_plan(&f, random);
        uint64_t pool = f.plan->host_pool_bytes;
        bool limited = g_rand_boolean(random);
        const struct nvme_budget budget = {
            .host_bytes = i % 8 == 7 ? UINT64_MAX
                                     : (uint64_t)(g_rand_double(random) * (double)pool),
            .nvme_bytes = limited ? (uint64_t)(g_rand_double(random) * (double)pool / 4)
                                  : UINT64_MAX};
        if (nvme_homes_give(f.plan, f.trace, f.accesses, &budget, &error)) {
            plan_check(f.plan, f.trace, &error);
            g_assert_no_error(error);
            g_assert_cmpuint(f.plan->host_pool_bytes, <=, budget.host_bytes);
            g_assert_cmpuint(f.plan->host_budget, ==, budget.host_bytes);
            tiered++;
        } else {
            g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
            g_assert_null(f.plan->nvme_address);
            g_assert_cmpuint(f.plan->host_pool_bytes, ==, pool);
            check_said(&f, &budget, error);
            g_clear_error(&error);
        }
        close_plan(&f);
    }
    g_assert_cmpint(tiered, >, 0);
    g_rand_free(random);
}

static void test_file(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    g_autofree char *folder = g_dir_make_tmp("nvme-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "plan.json", NULL);
    struct fixture f;
    GError *error = NULL;
    open_tiered(&f, random);
    g_assert_true(plan_write(f.plan, path, NULL));
    struct plan *read = plan_read(path, &error);
    g_assert_no_error(error);
    plan_check(read, f.trace, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(read->nvme_bytes, ==, f.plan->nvme_bytes);
    g_assert_cmpmem(read->nvme_address, f.layout->chunk_count * sizeof *read->nvme_address,
                    f.plan->nvme_address, f.layout->chunk_count * sizeof *read->nvme_address);
    g_assert_true(figures_equal(&read->predicted, &f.plan->predicted));
    g_assert_cmpuint(read->action_count, ==, f.plan->action_count);
    plan_free(read);
    close_plan(&f);
    g_unlink(path);
    g_rmdir(folder);
    g_rand_free(random);
}

/* Returns the plan's text with `from` replaced by `to`. */
static char *change_text(const char *text, const char *from, const char *to)
{
    g_auto(GStrv) parts = g_strsplit(text, from, 2);
    g_assert_nonnull(parts[1]);
    return g_strconcat(parts[0], to, parts[1], NULL);
}

/* Blocks are kept if the plan says them, and need not be there. Those that storage cannot do are
 * refused, in the file and in the plan. */
static void test_blocks(void)
{
    static const struct {
        const char *block, *depth, *says;
    } wrong[] = {{"0", "3", "must be a multiple of 4096 above 0"},
                 {"4095", "3", "must be a multiple of 4096 above 0"},
                 {"1073745920", "3", "nvme_block_bytes: must be an integer in the allowed range"},
                 {"-4096", "3", "nvme_block_bytes: must be an integer in the allowed range"},
                 {"\"1MiB\"", "3", "nvme_block_bytes: must be an integer in the allowed range"},
                 {"12288", "0", "nvme_depth at least 1"},
                 {"12288", "257", "nvme_depth: must be an integer in the allowed range"},
                 {"12288", "null", "nvme_depth: must be an integer in the allowed range"}};
    GRand *random = g_rand_new_with_seed(random_seed());
    g_autofree char *folder = g_dir_make_tmp("nvme-XXXXXX", NULL), *text = NULL;
    g_autofree char *path = g_build_filename(folder, "plan.json", NULL);
    struct fixture f;
    GError *error = NULL;
    open_tiered(&f, random);
    f.plan->nvme_block_bytes = 12288;
    f.plan->nvme_depth = 3;
    g_assert_true(plan_check(f.plan, f.trace, NULL));
    g_assert_true(plan_write(f.plan, path, NULL));
    struct plan *read = plan_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(read->nvme_block_bytes, ==, 12288);
    g_assert_cmpuint(read->nvme_depth, ==, 3);
    plan_free(read);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autofree char *block = g_strconcat("\"nvme_block_bytes\":", wrong[i].block, NULL);
        g_autofree char *depth = g_strconcat("\"nvme_depth\":", wrong[i].depth, NULL);
        g_autofree char *half = change_text(text, "\"nvme_block_bytes\":12288", block);
        g_autofree char *damaged = change_text(half, "\"nvme_depth\":3", depth);
        g_file_set_contents(path, damaged, -1, NULL);
        g_assert_null(plan_read(path, &error));
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_INVALID);
        if (!strstr(error->message, wrong[i].says))
            g_error("%s: %s", wrong[i].says, error->message);
        g_clear_error(&error);
    }
    g_autofree char *lone = change_text(text, ",\"nvme_depth\":3", "");
    g_file_set_contents(path, lone, -1, NULL);
    g_assert_null(plan_read(path, NULL));
    close_plan(&f);
    open_plan(&f, random);
    f.plan->nvme_block_bytes = 4096;
    f.plan->nvme_depth = 1;
    g_assert_true(plan_write(f.plan, path, NULL));
    g_assert_null(plan_read(path, &error));
    g_assert_nonnull(strstr(error->message, "the plan has no file in NVMe"));
    g_clear_error(&error);
    close_plan(&f);
    g_unlink(path);
    g_rmdir(folder);
    g_rand_free(random);
}

static chunk_id tenant_of(const struct plan *plan)
{
    chunk_id chunk = 0;
    while (!plan_in_nvme(plan, chunk))
        chunk++;
    return chunk;
}

static struct plan_action *action_of(struct plan *plan, enum plan_action_kind kind)
{
    uint32_t i = 0;
    while (plan->actions[i].kind != kind)
        i++;
    return &plan->actions[i];
}

static void not_loaded(struct plan *plan)
{
    action_of(plan, PLAN_LOAD)->kind = PLAN_WAIT;
}

/* The slot then stays taken, which another chunk may meet before the iteration ends. */
static void not_stored(struct plan *plan)
{
    action_of(plan, PLAN_STORE)->kind = PLAN_WAIT;
}

static void unaligned(struct plan *plan)
{
    plan->nvme_address[tenant_of(plan)] += 256;
}

static void outside(struct plan *plan)
{
    plan->nvme_address[tenant_of(plan)] = plan->nvme_bytes;
}

static void larger_file(struct plan *plan)
{
    plan->nvme_bytes++;
}

static void beyond_pool(struct plan *plan)
{
    plan->host_address[tenant_of(plan)] = plan->staging_address / 4096 * 4096;
}

static void of_another(struct plan *plan)
{
    chunk_id chunk = 0;
    while (plan_in_nvme(plan, chunk))
        chunk++;
    action_of(plan, PLAN_LOAD)->chunk = chunk;
}

static void to_the_device(struct plan *plan)
{
    action_of(plan, PLAN_STORE)->kind = PLAN_FETCH;
}

static void with_address(struct plan *plan)
{
    action_of(plan, PLAN_LOAD)->address = 0;
}

static void odd_blocks(struct plan *plan)
{
    plan->nvme_block_bytes = 4096 + 256;
    plan->nvme_depth = 1;
}

static void too_deep(struct plan *plan)
{
    plan->nvme_block_bytes = 4096;
    plan->nvme_depth = PLAN_NVME_MOST_DEPTH + 1;
}

static void test_damaged(void)
{
    static const struct {
        void (*damage)(struct plan *plan);
        const char *says, * or ;
    } cases[] = {{not_loaded, "whose bytes are in NVMe", NULL},
                 {not_stored, "is not in NVMe at the iteration's end", "a slot that is taken"},
                 {unaligned, "slots in NVMe overlap, are unaligned", NULL},
                 {outside, "lie outside the file", NULL},
                 {larger_file, "do not fill it", NULL},
                 {beyond_pool, "host slots overlap or lie outside", NULL},
                 {of_another, "not at home in NVMe is loaded or stored", NULL},
                 {to_the_device, "at home in NVMe comes to the device", NULL},
                 {odd_blocks, "cannot be read in blocks of 4352 bytes, 1 at a time", NULL},
                 {too_deep, "cannot be read in blocks of 4096 bytes, 257 at a time", NULL},
                 {with_address, "has an address on the device", NULL}};
    GRand *random = g_rand_new_with_seed(random_seed());
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct fixture f;
        GError *error = NULL;
        open_tiered(&f, random);
        cases[i].damage(f.plan);
        g_assert_false(plan_check(f.plan, f.trace, &error));
        bool told = strstr(error->message, cases[i].says) ||
                    (cases[i].or &&strstr(error->message, cases[i].or));
        if (!told)
            g_error("%s: %s", cases[i].says, error->message);
        g_error_free(error);
        close_plan(&f);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-homes/plans", test_plans);
    g_test_add_func("/nvme-homes/budgets", test_budgets);
    g_test_add_func("/nvme-homes/file", test_file);
    g_test_add_func("/nvme-homes/blocks", test_blocks);
    g_test_add_func("/nvme-homes/damaged", test_damaged);
    return g_test_run();
}
