/* What the refusal of a host budget says would fit does, and less host memory does not. Homes need
 * little more device memory than the best of all homes. */
#include "base/failure.h"
#include "chunks/homes.h"
#include "chunks/lack.h"
#include "chunks/non_model.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>
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

/* ---- against every choice of the chunks that have no slot on the host ---- */

enum { ENUMERATED_MOST = 10, ENUMERATED = 300 };

/* Sets how each chunk may be without a slot, and returns the number of those that may: 0, not at
 * all; 1, at home on the device; 2, transient. */
static uint32_t find_kinds(const struct fixture *f, uint8_t *kind)
{
    uint32_t count = 0;
    memset(kind, 1, f->layout->chunk_count);
    for (uint32_t a = 0; a < f->accesses->count; a++) {
        const struct chunk_access *access = &f->accesses->items[a];
        uint8_t list = f->layout->chunks[access->chunk].list;
        bool dies = (list == TRACE_GRAD || list == TRACE_ACTIVATION) && access->flags & ACCESS_LAST;
        if (access->flags & ACCESS_ON_HOST)
            kind[access->chunk] = 0;
        else if (kind[access->chunk])
            kind[access->chunk] = dies ? 2 : 1;
    }
    for (uint32_t c = 0; c < f->layout->chunk_count; c++)
        count += kind[c] > 0;
    return count;
}

/* Returns the least device memory of all homes within the host's budget. */
static uint64_t least_of_all(const struct fixture *f, const uint8_t *kind, uint32_t count,
                             uint64_t host)
{
    uint32_t chunks = f->layout->chunk_count;
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 0; set < 1u << count; set++) {
        g_autofree uint8_t *on_device = g_new0(uint8_t, chunks);
        g_autofree uint8_t *transient = g_new0(uint8_t, chunks);
        moment_id moment;
        for (uint32_t c = 0, bit = 0; c < chunks; c++) {
            bool without = kind[c] && set >> bit & 1;
            on_device[c] = without && kind[c] == 1;
            transient[c] = without && kind[c] == 2;
            bit += kind[c] > 0;
        }
        struct homes *homes = homes_assign(f->trace, f->layout, on_device, transient);
        if (homes->host_pool_bytes <= host)
            least = MIN(least, homes_least_device_bytes(homes, f->layout, f->accesses, &moment));
        homes_free(homes);
    }
    return least;
}

/* Returns what homes need beside the least, and 0 if they are not compared: too many chunks, or too
 * little host memory. */
static double compare(const struct fixture *f, uint64_t host)
{
    g_autofree uint8_t *kind = g_new(uint8_t, f->layout->chunk_count);
    uint32_t count = find_kinds(f, kind);
    struct homes *homes = count <= ENUMERATED_MOST
                              ? homes_choose(f->trace, f->layout, f->accesses, 0, host, NULL)
                              : NULL;
    if (!homes)
        return 0;
    moment_id moment;
    uint64_t needed = homes_least_device_bytes(homes, f->layout, f->accesses, &moment);
    uint64_t least = least_of_all(f, kind, count, host);
    g_assert_cmpuint(homes->host_pool_bytes, <=, host);
    g_assert_true(fits(f, needed, host));
    g_assert_cmpuint(needed, >=, least);
    homes_free(homes);
    return (double)needed / (double)least;
}

static void test_lean(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    double sum = 0, worst = 0;
    int compared = 0, best = 0;
    while (compared < ENUMERATED) {
        struct fixture f;
        open_fixture(&f, random);
        uint64_t all = layout_slot_bytes(f.layout);
        double ratio = compare(&f, (uint64_t)(g_rand_double(random) * (double)all));
        compared += ratio > 0;
        best += ratio > 0 && ratio < 1.002;
        sum += ratio;
        worst = fmax(worst, ratio);
        close_fixture(&f);
    }
    g_test_message("%d of %d are the best, %.3f times on average, %.3f at worst", best, compared,
                   sum / compared, worst);
    g_assert_cmpfloat(sum / compared, <, 1.03);
    g_assert_cmpint(10 * best, >, 6 * compared);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/homes/refusals", test_refusals);
    g_test_add_func("/homes/lean", test_lean);
    return g_test_run();
}
