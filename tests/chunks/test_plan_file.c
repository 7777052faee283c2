#include "chunks/dry_run.h"
#include "tests/chunks/random_iteration.h"

#include <glib/gstdio.h>

#define TRIALS 40

static struct plan *make_plan(struct trace *trace, GRand *random)
{
    struct layout *layout =
        layout_pack_uniform(trace, 256 * (uint64_t)g_rand_int_range(random, 2, 40), NULL);
    struct dry_run_options options = {.device_budget = UINT64_C(1) << 40,
                                      .host_budget = UINT64_MAX,
                                      .policy = &policy_opt,
                                      .look_ahead = 2};
    GError *error = NULL;
    /* The least that fits makes a plan with many actions. */
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    options.device_budget = accesses_least_arena_bytes(accesses, layout, NULL) + 4096;
    struct plan *plan = dry_run(trace, layout, &options, &error);
    g_assert_no_error(error);
    accesses_free(accesses);
    non_model_free(non_model);
    layout_free(layout);
    return plan;
}

static char *temporary_file(void)
{
    char *path = NULL;
    int file = g_file_open_tmp("plan-XXXXXX", &path, NULL);
    g_close(file, NULL);
    return path;
}

/* A last wait, after the last operator. */
static void add_wait(struct plan *plan)
{
    plan->actions = g_renew(struct plan_action, plan->actions, plan->action_count + 1);
    plan->actions[plan->action_count++] = (struct plan_action){.kind = PLAN_WAIT,
                                                               .address = NO_ADDRESS};
    plan->first_action[plan->moment_count + 1]++;
}

static void test_round_trip(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    g_autofree char *path = temporary_file(), *again = temporary_file();
    for (int i = 0; i < TRIALS; i++) {
        GError *error = NULL;
        struct trace *trace = random_iteration(random);
        struct plan *plan = make_plan(trace, random);
        plan->predicted.stall_seconds = 0.1 + i;
        plan->cut_from_bytes = 1000 * (uint64_t)(i % 3);
        add_wait(plan);
        g_assert_true(plan_write(plan, path, NULL));
        struct plan *read = plan_read(path, &error);
        g_assert_no_error(error);
        plan_check(read, trace, &error);
        g_assert_no_error(error);
        g_assert_cmpint(read->actions[read->action_count - 1].kind, ==, PLAN_WAIT);
        g_assert_cmpuint(read->cut_from_bytes, ==, plan->cut_from_bytes);
        g_assert_cmpmem(read->choices->host_update, read->choices->tensor_count,
                        plan->choices->host_update, trace->tensor_count);
        g_assert_true(plan_write(read, again, NULL));
        g_autofree char *first = NULL, *second = NULL;
        g_file_get_contents(path, &first, NULL, NULL);
        g_file_get_contents(again, &second, NULL, NULL);
        g_assert_cmpstr(first, ==, second);
        plan_free(plan);
        plan_free(read);
        trace_free(trace);
    }
    g_unlink(path);
    g_unlink(again);
    g_rand_free(random);
}

/* A damaged plan is refused with a message, or is legal; none crashes. */
static void test_damage(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    g_autofree char *path = temporary_file();
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    g_autofree char *contents = NULL;
    gsize length;
    plan_write(plan, path, NULL);
    g_file_get_contents(path, &contents, &length, NULL);
    int refused = 0;
    for (int i = 0; i < 400; i++) {
        g_autofree char *damaged = g_memdup2(contents, length);
        gsize size = i % 10 == 0 ? (gsize)g_rand_int_range(random, 0, (gint32)length) : length;
        damaged[g_rand_int_range(random, 0, (gint32)length)] = (char)g_rand_int_range(random, 32,
                                                                                      127);
        g_file_set_contents(path, damaged, (gssize)size, NULL);
        GError *error = NULL;
        struct plan *read = plan_read(path, &error);
        if (read && !plan_check(read, trace, &error))
            g_assert_nonnull(error);
        refused += error != NULL;
        g_clear_error(&error);
        plan_free(read);
    }
    g_test_message("%d of 400 damaged plans refused", refused);
    g_assert_cmpint(refused, >, 200);
    g_unlink(path);
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

static void test_other_run(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    GError *error = NULL;
    trace->sequence = 77;
    g_assert_false(plan_check(plan, trace, &error));
    g_assert_error(error, PLAN_ERROR, PLAN_ERROR_OTHER_RUN);
    g_assert_nonnull(strstr(error->message, "sequence is 1 in the plan, but 77 in this run"));
    g_clear_error(&error);
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

static void must_refuse(const struct plan *plan, const struct trace *trace, const char *reason)
{
    GError *error = NULL;
    g_assert_false(plan_check(plan, trace, &error));
    g_assert_nonnull(strstr(error->message, reason));
    g_error_free(error);
}

/* Fields that the digest covers, and addresses that nothing uses, must be right too. */
static void test_contradictions(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    plan->batch++;
    must_refuse(plan, trace, "batch");
    plan->batch--;
    plan->choices->host_update[0] ^= 1;
    must_refuse(plan, trace, "choices");
    plan->choices->host_update[0] ^= 1;
    tensor_id after = plan->choices->update_after[0];
    plan->choices->update_after[0] = after == 1 ? NO_INDEX : 1;
    must_refuse(plan, trace, "choices");
    plan->choices->update_after[0] = after;
    g_assert_true(plan_check(plan, trace, NULL));

    for (uint32_t i = 0; i < plan->action_count; i++) {
        struct plan_action *action = &plan->actions[i];
        if (action->kind != PLAN_DROP && action->kind != PLAN_WRITE_BACK)
            continue;
        action->address = 256;
        must_refuse(plan, trace, "where its chunk is not");
        action->address = NO_ADDRESS;
    }
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

/* Chunks' groups must follow from where tensors lie, because updates are placed by group. */
static void test_groups(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    struct layout *layout = plan->layout;
    g_autofree char *path = temporary_file();
    GError *error = NULL;

    for (uint32_t c = 0; layout->group_count > 1 && c < layout->chunk_count; c++) {
        uint32_t group = layout->chunks[c].group;
        layout->chunks[c].group = (group + 1) % layout->group_count;
        must_refuse(plan, trace, "group");
        layout->chunks[c].group = group;
    }
    layout->chunks[0].group = NO_INDEX;
    g_assert_true(plan_write(plan, path, NULL));
    g_assert_null(plan_read(path, &error));
    g_assert_nonnull(strstr(error->message, "a group that does not exist"));
    g_clear_error(&error);
    g_unlink(path);
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

static void test_seconds(void)
{
    g_autofree char *path = temporary_file();
    GRand *random = g_rand_new_with_seed(random_seed());
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    static const char *const seconds[] = {"\"x\"", "-1.0", "null"};
    g_assert_true(plan_write(plan, path, NULL));
    g_autofree char *contents = NULL;
    g_file_get_contents(path, &contents, NULL, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(seconds); i++) {
        GError *error = NULL;
        g_auto(GStrv) parts = g_strsplit(contents, "\"stall_seconds\":0.0", 2);
        g_assert_nonnull(parts[1]);
        g_autofree char *damaged = g_strconcat(parts[0], "\"stall_seconds\":", seconds[i], parts[1],
                                               NULL);
        g_file_set_contents(path, damaged, -1, NULL);
        g_assert_null(plan_read(path, &error));
        g_assert_nonnull(strstr(error->message, "stall_seconds: must be a number of seconds"));
        g_error_free(error);
    }
    g_unlink(path);
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

/* A plan need not have choices. */
static void test_no_choices(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    g_autofree char *path = temporary_file();
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    GError *error = NULL;
    g_clear_pointer(&plan->choices, run_choices_free);
    g_assert_true(plan_write(plan, path, NULL));
    struct plan *read = plan_read(path, &error);
    g_assert_no_error(error);
    g_assert_null(read->choices);
    plan_check(read, trace, &error);
    g_assert_no_error(error);
    g_unlink(path);
    plan_free(read);
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

/* Updates within backward are written if there are any, and must name tensors. */
static void test_update_after(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    g_autofree char *path = temporary_file(), *contents = NULL;
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    GError *error = NULL;
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        plan->choices->update_after[t] = NO_INDEX;
    plan_write(plan, path, NULL);
    g_file_get_contents(path, &contents, NULL, NULL);
    g_assert_null(strstr(contents, "update_after"));
    plan->choices->update_after[0] = trace->tensor_count - 1;
    plan_write(plan, path, NULL);
    struct plan *read = plan_read(path, &error);
    g_assert_no_error(error);
    g_assert_true(run_choices_equal(read->choices, plan->choices));
    plan_free(read);
    plan->choices->update_after[0] = trace->tensor_count;
    plan_write(plan, path, NULL);
    g_assert_null(plan_read(path, &error));
    g_assert_error(error, PLAN_ERROR, PLAN_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "update_after"));
    g_clear_error(&error);
    g_unlink(path);
    plan_free(plan);
    trace_free(trace);
    g_rand_free(random);
}

/* The tensor with which the host begins is written if it is not the model's first one. */
static void test_first_update(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autofree char *path = temporary_file(), *contents = NULL;
    struct trace *trace = random_iteration(random);
    struct plan *plan = make_plan(trace, random);
    GError *error = NULL;
    plan->choices->first_update = 0;
    plan_write(plan, path, NULL);
    g_file_get_contents(path, &contents, NULL, NULL);
    g_assert_null(strstr(contents, "first_update"));
    plan->choices->first_update = trace->tensor_count - 1;
    plan_write(plan, path, NULL);
    struct plan *read = plan_read(path, &error);
    g_assert_no_error(error);
    g_assert_true(run_choices_equal(read->choices, plan->choices));
    plan_free(read);
    plan->choices->first_update = trace->tensor_count;
    plan_write(plan, path, NULL);
    g_assert_null(plan_read(path, &error));
    g_assert_error(error, PLAN_ERROR, PLAN_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "first_update"));
    g_clear_error(&error);
    g_unlink(path);
    plan_free(plan);
    trace_free(trace);
}

static void test_not_a_plan(void)
{
    g_autofree char *path = temporary_file();
    static const char *const contents[] = {"",
                                           "{}",
                                           "[1,2]",
                                           "{\"pstar_plan\":2}",
                                           "{\"pstar_plan\":1}",
                                           "{\"pstar_plan\":1,\"made_for\":{}}",
                                           "not json"};
    for (size_t i = 0; i < G_N_ELEMENTS(contents); i++) {
        GError *error = NULL;
        g_file_set_contents(path, contents[i], -1, NULL);
        g_assert_null(plan_read(path, &error));
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, path));
        g_clear_error(&error);
    }
    g_unlink(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plan-file/round-trip", test_round_trip);
    g_test_add_func("/plan-file/damage", test_damage);
    g_test_add_func("/plan-file/other-run", test_other_run);
    g_test_add_func("/plan-file/contradictions", test_contradictions);
    g_test_add_func("/plan-file/groups", test_groups);
    g_test_add_func("/plan-file/seconds", test_seconds);
    g_test_add_func("/plan-file/no-choices", test_no_choices);
    g_test_add_func("/plan-file/update-after", test_update_after);
    g_test_add_func("/plan-file/first-update", test_first_update);
    g_test_add_func("/plan-file/not-a-plan", test_not_a_plan);
    return g_test_run();
}
