/* What the refusal of a host budget says would fit does, and less host memory does not. */
#include "chunks/homes.h"
#include "chunks/lack.h"
#include "chunks/non_model.h"
#include "tests/chunks/random_iteration.h"
#include "traces/failure.h"

#include <string.h>

enum { CASES = 300, LEAST_REFUSED = 30 };

struct fixture {
    struct trace *trace;
    struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
};

static void open_fixture(struct fixture *f, GRand *random)
{
    f->trace = random_iteration(random);
    f->layout = layout_pack_uniform(f->trace, 256 * (uint64_t)g_rand_int_range(random, 1, 60),
                                    NULL);
    f->non_model = non_model_place(f->trace);
    f->accesses = accesses_new(f->trace, f->layout, f->non_model->extent);
}

static void close_fixture(struct fixture *f)
{
    accesses_free(f->accesses);
    non_model_free(f->non_model);
    layout_free(f->layout);
    trace_free(f->trace);
}

/* Returns the number before the words, or 0 if they are not there. */
static uint64_t number_before(const char *text, const char *words)
{
    const char *end = strstr(text, words);
    if (!end)
        return 0;
    while (g_ascii_isdigit(end[-1]))
        end--;
    return g_ascii_strtoull(end, NULL, 10);
}

/* Returns whether homes with this budget of the host leave room for every operator. */
static bool fits(const struct fixture *f, uint64_t device, uint64_t host)
{
    moment_id moment;
    struct homes *homes = homes_choose(f->trace, f->layout, f->accesses, device, host, NULL);
    bool ok = homes && homes_least_device_bytes(homes, f->layout, f->accesses, &moment) <= device;
    homes_free(homes);
    return ok;
}

/* What the error knows is what its message says, in a copy and behind a prefix, too, and another
 * need takes the place of both. A marked error knows nothing. */
static void check_lack(const GError *error, uint64_t said, uint64_t more)
{
    GError *copy = g_error_copy(error);
    const struct plan_lack other = {.memory = PLAN_MEMORY_HOST, .bytes = 2 * said};
    g_prefix_error(&copy, "rank 1: ");
    const struct plan_lack *lack = plan_lack_of(copy);
    g_assert_nonnull(lack);
    g_assert_cmpint(lack->memory, ==, PLAN_MEMORY_HOST);
    g_assert_cmpuint(lack->bytes, ==, said);
    g_assert_cmpuint(lack->device_bytes, ==, more);
    plan_lack_replace(copy, &other);
    g_assert_true(g_str_has_prefix(copy->message, "rank 1: host memory: "));
    g_assert_cmpuint(number_before(copy->message, " bytes would fit"), ==, 2 * said);
    g_assert_cmpuint(number_before(copy->message, " bytes of device memory"), ==, 0);
    g_assert_cmpuint(plan_lack_of(copy)->bytes, ==, 2 * said);
    failure_mark(&copy, FAILURE_RUNNING);
    g_assert_null(plan_lack_of(copy));
    g_error_free(copy);
}

/* Returns whether the budget was refused. */
static bool check_budget(const struct fixture *f, uint64_t device, uint64_t host)
{
    g_autoptr(GError) error = NULL;
    struct homes *homes = homes_choose(f->trace, f->layout, f->accesses, device, host, &error);
    bool refused = !homes;
    homes_free(homes);
    if (!refused)
        return false;
    uint64_t said = number_before(error->message, " bytes would fit");
    uint64_t more = number_before(error->message, " bytes of device memory");
    g_assert_cmpuint(said, >, host);
    check_lack(error, said, more);
    uint64_t room = more ? more - f->trace->library_bytes : device;
    g_assert_true(fits(f, room, said));
    g_assert_false(fits(f, room, said - 1));
    if (more)
        g_assert_false(fits(f, room - 1, UINT64_MAX));
    return true;
}

static void test_refusals(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    int refused = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        open_fixture(&f, random);
        uint64_t least = accesses_least_arena_bytes(f.accesses, f.layout, NULL);
        uint64_t device = (uint64_t)((double)least * g_rand_double_range(random, 0.5, 2));
        refused += check_budget(&f, device, (uint64_t)g_rand_int_range(random, 0, 5000));
        close_fixture(&f);
    }
    g_assert_cmpint(refused, >, LEAST_REFUSED);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/homes/refusals", test_refusals);
    return g_test_run();
}
