/* Homes in NVMe: plans that have them keep their budgets, survive their file, and are refused where
 * they are damaged. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "chunks/nvme_visits.h"
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

/* Draws plans until one has states that only the host uses, and gives all of them homes in NVMe. */
static void open_tiered(struct fixture *f, GRand *random)
{
    for (;;) {
        open_plan(f, random);
        if (nvme_homes_give(f->plan, f->trace, f->accesses, &unlimited, NULL))
            return;
        close_plan(f);
    }
}

/* Draws plans until one fits a host with a drawn part of the room that it takes. */
static void open_squeezed(struct fixture *f, GRand *random)
{
    for (;;) {
        open_plan(f, random);
        const struct nvme_budget budget = {
            .host_bytes = (uint64_t)(g_rand_double(random) * (double)f->plan->host_pool_bytes),
            .nvme_bytes = UINT64_MAX,
            .passing_first = g_rand_boolean(random)};
        if (nvme_homes_give(f->plan, f->trace, f->accesses, &budget, NULL))
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

/* Every state in NVMe is loaded and stored once; its bytes are what is predicted. */
static void test_states(void)
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
        plan_check_figures(f.plan, f.trace, &error);
        g_assert_no_error(error);
        f.plan->predicted.nvme_write_bytes += 4096;
        g_assert_false(plan_check_figures(f.plan, f.trace, NULL));
        close_plan(&f);
    }
    g_rand_free(random);
}

/* Returns the bytes of the slots that actions of this kind take or leave. */
static uint64_t bytes_of_actions(const struct plan *plan, enum plan_action_kind kind)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].kind == kind)
            bytes += plan_nvme_slot(plan->layout, plan->actions[i].chunk);
    return bytes;
}

/* Chunks of every list live in NVMe if the host has no room, and their slots come and go. What is
 * loaded and stored is what is predicted. */
static void test_lists(void)
{
    static const int lists[] = {TRACE_PARAM,   TRACE_GRAD,       TRACE_MASTER,
                                TRACE_EXP_AVG, TRACE_EXP_AVG_SQ, TRACE_ACTIVATION};
    GRand *random = g_rand_new_with_seed(random_seed());
    uint32_t chunks[TRACE_ACTIVATION + 1] = {0};
    uint64_t several = 0, reserved = 0, released = 0;
    for (int i = 0; i < PLANS * 4; i++) {
        struct fixture f;
        GError *error = NULL;
        open_squeezed(&f, random);
        plan_check(f.plan, f.trace, &error);
        g_assert_no_error(error);
        uint64_t taken = actions_of(f.plan, PLAN_LOAD) + actions_of(f.plan, PLAN_RESERVE);
        uint64_t left = actions_of(f.plan, PLAN_STORE) + actions_of(f.plan, PLAN_RELEASE);
        g_assert_cmpuint(taken, ==, left);
        g_assert_cmpuint(f.plan->predicted.nvme_read_bytes, ==,
                         bytes_of_actions(f.plan, PLAN_LOAD));
        g_assert_cmpuint(f.plan->predicted.nvme_write_bytes, ==,
                         bytes_of_actions(f.plan, PLAN_STORE));
        reserved += actions_of(f.plan, PLAN_RESERVE);
        released += actions_of(f.plan, PLAN_RELEASE);
        for (chunk_id c = 0; c < f.layout->chunk_count; c++) {
            chunks[f.layout->chunks[c].list] += plan_in_nvme(f.plan, c);
            taken -= plan_in_nvme(f.plan, c);
        }
        several += taken;
        close_plan(&f);
    }
    for (size_t l = 0; l < G_N_ELEMENTS(lists); l++) {
        g_test_message("%u chunks of %s", chunks[lists[l]], trace_list_name(lists[l]));
        g_assert_cmpuint(chunks[lists[l]], >, 0);
    }
    g_assert_cmpuint(several, >, 0); /* visits after a chunk's first */
    g_assert_cmpuint(reserved, >, 0);
    g_assert_cmpuint(released, >, 0);
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

/* What the message says fits, and less does not. Some plans have no states for NVMe. */
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
                                  : UINT64_MAX,
            .passing_first = g_rand_boolean(random)};
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

/* What the slot has is lost. */
static void forgotten(struct plan *plan)
{
    action_of(plan, PLAN_STORE)->kind = PLAN_RELEASE;
}

/* The next access reads what is not there. */
static void not_copied(struct plan *plan)
{
    action_of(plan, PLAN_LOAD)->kind = PLAN_RESERVE;
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
    action_of(plan, PLAN_LOAD)->address = plan->staging_address / 4096 * 4096;
}

static void at_the_end(struct plan *plan)
{
    action_of(plan, PLAN_LOAD)->address = UINT64_MAX / 4096 * 4096;
}

static void unaligned_slot(struct plan *plan)
{
    action_of(plan, PLAN_LOAD)->address += 256;
}

static void two_homes(struct plan *plan)
{
    plan->host_address[tenant_of(plan)] = 0;
}

static void of_another(struct plan *plan)
{
    chunk_id chunk = 0;
    while (plan_in_nvme(plan, chunk))
        chunk++;
    action_of(plan, PLAN_LOAD)->chunk = chunk;
}

static void without_slot(struct plan *plan)
{
    action_of(plan, PLAN_LOAD)->kind = PLAN_FETCH;
}

static void with_address(struct plan *plan)
{
    action_of(plan, PLAN_STORE)->address = 0;
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
    } cases[] = {{not_loaded, "without a slot in the host pool", NULL},
                 {not_copied, "in an empty slot", NULL},
                 {not_stored, "is not in NVMe at the iteration's end",
                  "a slot in the host pool that is taken"},
                 {forgotten, "in a dirty slot", NULL},
                 {unaligned, "slots in NVMe overlap, are unaligned", NULL},
                 {outside, "lie outside the file", NULL},
                 {larger_file, "do not fill it", NULL},
                 {beyond_pool, "taken, unaligned or outside of it", NULL},
                 {at_the_end, "taken, unaligned or outside of it", NULL},
                 {unaligned_slot, "taken, unaligned or outside of it", NULL},
                 {two_homes, "have a slot of their own in the host pool", NULL},
                 {of_another, "not at home in NVMe is loaded, stored", NULL},
                 {without_slot, "without a slot in the host pool", NULL},
                 {odd_blocks, "cannot be read in blocks of 4352 bytes, 1 at a time", NULL},
                 {too_deep, "cannot be read in blocks of 4096 bytes, 257 at a time", NULL},
                 {with_address, "is left for an address", NULL}};
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

/* Returns how many of the chunks that pass live in NVMe; 0 if there is no room. They go first. */
static uint32_t check_passing(struct fixture *f, const struct nvme_budget *budget)
{
    uint32_t chunks = f->plan->layout->chunk_count, passing = 0, others = 0, left_out = 0;
    struct nvme_uses *uses = nvme_uses_new(f->plan, f->accesses);
    g_autofree bool *passes = g_new(bool, chunks);
    for (chunk_id c = 0; c < chunks; c++)
        passes[c] = nvme_uses_kind(uses, c) != NVME_NEVER && nvme_uses_passes(uses, c);
    nvme_uses_free(uses);
    if (!nvme_homes_give(f->plan, f->trace, f->accesses, budget, NULL))
        return 0;
    for (chunk_id c = 0; c < chunks; c++) {
        passing += passes[c] && plan_in_nvme(f->plan, c);
        left_out += passes[c] && !plan_in_nvme(f->plan, c);
        others += !passes[c] && plan_in_nvme(f->plan, c);
    }
    g_assert_true(!others || !left_out);
    return passing;
}

static void test_passing(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int found = 0; found < PLANS / 4;) {
        struct fixture f;
        open_plan(&f, random);
        const struct nvme_budget budget = {
            .host_bytes = (uint64_t)(g_rand_double(random) * (double)f.plan->host_pool_bytes),
            .nvme_bytes = UINT64_MAX,
            .passing_first = true};
        found += check_passing(&f, &budget) > 0;
        close_plan(&f);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-homes/states", test_states);
    g_test_add_func("/nvme-homes/lists", test_lists);
    g_test_add_func("/nvme-homes/budgets", test_budgets);
    g_test_add_func("/nvme-homes/passing", test_passing);
    g_test_add_func("/nvme-homes/file", test_file);
    g_test_add_func("/nvme-homes/blocks", test_blocks);
    g_test_add_func("/nvme-homes/damaged", test_damaged);
    return g_test_run();
}
