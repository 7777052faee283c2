/* The device's memory that the driver and libraries hold is measured, is part of no arena, and is
 * recorded. The runtime needs no GPU. */
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"
#include "engine/probe/probe.h"
#include "engine/train/run_plan.h"
#include "engine/train/run_report.h"
#include "fake_cuda.h"
#include "fake_operators.h"
#include "platforms/platform.h"

#include <glib/gstdio.h>

enum { KERNELS_TO_COME = 64 << 20 };

struct fixture {
    char *folder, *model;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 64, \"n_head\": 4,"
        " \"n_positions\": 64, \"vocab_size\": 256}";
    GError *error = NULL;
    (void)data;
    f->folder = g_dir_make_tmp("pstar-capacity-XXXXXX", &error);
    g_assert_no_error(error);
    f->model = g_build_filename(f->folder, "config.json", NULL);
    g_file_set_contents(f->model, config, -1, &error);
    g_assert_no_error(error);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    fake_cuda_hold(0);
    g_remove(f->model);
    g_rmdir(f->folder);
    g_free(f->model);
    g_free(f->folder);
    fake_cuda_check_all_freed();
}

static struct device_capacity measure(void)
{
    struct device_capacity capacity;
    GError *error = NULL;
    g_autofree char *name = device_cuda.describe(&capacity, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(name, ==, "no GPU");
    fake_cuda_check_all_freed();
    return capacity;
}

/* Returns the options of a run of the model on the device. The fixture keeps the model's path. */
static struct run_options options_of(const struct fixture *f)
{
    struct run_options options = run_options_default();
    GError *error = NULL;
    options.model = options.data = f->model;
    options.train = (char *)"all";
    options.batch = 2;
    options.sequence = 32;
    options.device = &device_cuda;
    g_assert_true(run_options_complete(&options, &error));
    g_assert_no_error(error);
    return options;
}

/* If `says` is not NULL, fails with DOES_NOT_FIT and a message that contains it. */
static void prepare(struct run_plan *run, const struct fixture *f, uint64_t budget,
                    const char *says)
{
    struct run_options options = options_of(f);
    GError *error = NULL;
    options.device_budget = budget;
    bool prepared = run_plan_prepare(run, &options, &error);
    g_assert_cmpint(prepared, ==, says == NULL);
    if (says) {
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, says));
        g_clear_error(&error);
    }
    g_assert_no_error(error);
}

/* Measured are the context, the device's own buffers, and what libraries take when they are
 * used. */
static void test_measured(struct fixture *f, gconstpointer data)
{
    enum { OTHERS = 50 << 20 };
    (void)f, (void)data;
    struct device_capacity capacity = measure();
    g_assert_cmpuint(capacity.bytes + capacity.library_bytes, ==, FAKE_CUDA_BYTES);
    g_assert_cmpuint(capacity.library_bytes, ==,
                     FAKE_CUDA_CONTEXT_BYTES + CUDA_MEMORY_BOUNCE + FAKE_OPERATORS_BYTES +
                         KERNELS_TO_COME);
    fake_cuda_hold(OTHERS);
    g_assert_cmpuint(measure().library_bytes, ==, capacity.library_bytes + OTHERS);
    fake_cuda_hold(FAKE_CUDA_BYTES);
    g_assert_cmpuint(measure().bytes, ==, 0);
}

/* Nothing leaks, whichever call fails. */
static void test_failures(struct fixture *f, gconstpointer data)
{
    struct device_capacity capacity;
    char *name = NULL;
    (void)f, (void)data;
    for (uint64_t nth = 1; !name; nth += nth < 40 ? 1 : 61) {
        g_autoptr(GError) error = NULL;
        fake_cuda_fail(nth, cudaErrorIllegalAddress);
        name = device_cuda.describe(&capacity, &error);
        g_assert_true((name == NULL) == (error != NULL));
        fake_cuda_fail(0, cudaSuccess);
        fake_cuda_check_all_freed();
    }
    g_free(name);
}

static void test_budget(struct fixture *f, gconstpointer data)
{
    struct run_plan run;
    (void)data;
    uint64_t held = measure().library_bytes;

    prepare(&run, f, RUN_UNLIMITED, NULL);
    uint64_t all = run.plan->arena_bytes, least = run_plan_least_device_bytes(&run, &(uint32_t){0});
    g_assert_cmpuint(run.iteration->trace->library_bytes, ==, held);
    g_assert_cmpuint(run.plan->predicted.h2d_bytes, ==, 0);
    run_plan_clear(&run);

    prepare(&run, f, held + (least + all) / 2, NULL);
    g_assert_cmpuint(run.plan->arena_bytes, <=, (least + all) / 2);
    g_assert_cmpuint(run.plan->predicted.h2d_bytes, >, 0);
    run_plan_clear(&run);

    prepare(&run, f, held + least - 1, "beside");
    prepare(&run, f, held, "hold");
}

/* Without a budget the run uses all room; a budget must fit into the room. */
static void test_room(struct fixture *f, gconstpointer data)
{
    struct run_plan run;
    (void)data;
    prepare(&run, f, RUN_UNLIMITED, NULL);
    uint64_t all = run.plan->arena_bytes, least = run_plan_least_device_bytes(&run, &(uint32_t){0});
    uint64_t room = (least + all) / 2;
    run_plan_clear(&run);

    fake_cuda_hold(measure().bytes - room);
    prepare(&run, f, RUN_UNLIMITED, NULL);
    g_assert_cmpuint(run.plan->arena_bytes, <=, room);
    run_plan_clear(&run);
    prepare(&run, f, FAKE_CUDA_BYTES - room + all, "than the device has");

    fake_cuda_hold(FAKE_CUDA_BYTES);
    prepare(&run, f, RUN_UNLIMITED, "that driver and libraries hold");
}

/* A part of the room is left for the page tables of what the host pins. */
static void test_page_tables(struct fixture *f, gconstpointer data)
{
    enum { ROOMS = 16 };
    struct run_plan run;
    (void)data;
    prepare(&run, f, RUN_UNLIMITED, NULL);
    uint64_t all = run.plan->arena_bytes,
             least = run_plan_least_device_bytes(&run, &(uint32_t){0}) + all / 512;
    run_plan_clear(&run);
    for (uint64_t i = 0; i < ROOMS; i++) {
        uint64_t room = least + (all - least) * i / ROOMS;
        fake_cuda_hold(0);
        fake_cuda_hold(measure().bytes - room);
        prepare(&run, f, RUN_UNLIMITED, NULL);
        g_assert_cmpuint(run.plan->arena_bytes, <=, room - all / 512);
        run_plan_clear(&run);
    }
}

static void test_no_driver(struct fixture *f, gconstpointer data)
{
    struct device_capacity capacity;
    GError *error = NULL;
    (void)f;
    (void)data;
    fake_cuda_fail(1, cudaErrorInsufficientDriver);
    g_assert_null(device_cuda.describe(&capacity, &error));
    fake_cuda_fail(0, cudaSuccess);
    g_assert_error(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE);
    g_assert_cmpstr(error->message, ==, "no CUDA device: no NVIDIA driver is installed");
    g_clear_error(&error);
}

/* A dry run shows the plan, and ignores what other programs hold. */
static void test_dry_run(struct fixture *f, gconstpointer data)
{
    struct run_options options = options_of(f);
    struct run_plan run;
    GError *error = NULL;
    (void)data;
    options.dry_run = true;
    fake_cuda_hold(FAKE_CUDA_BYTES);
    g_assert_true(run_plan_prepare(&run, &options, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(run.plan->predicted.h2d_bytes, ==, 0);
    run_plan_clear(&run);

    fake_cuda_fail(1, cudaErrorNoDevice);
    g_assert_true(run_plan_prepare(&run, &options, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(run.iteration->trace->library_bytes, ==, 0);
    run_plan_clear(&run);
    fake_cuda_fail(0, cudaSuccess);
}

static int64_t number_of(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    g_assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* The log has the budget as it was given, and the part of it that was not the arena's. */
static void test_log(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->folder, "run.jsonl", NULL);
    const struct run_log_entry entry = {.step = 1};
    struct run_plan run;
    GError *error = NULL;
    (void)data;
    uint64_t held = measure().library_bytes;
    prepare(&run, f, FAKE_CUDA_BYTES / 2, NULL);
    struct run_log *log = run_log_open(path, 0, &error);
    run_log_describe(log, run.plan, run.capacity.library_bytes, 1);
    g_assert_true(run_log_write(log, &entry, &error));
    g_assert_no_error(error);
    run_log_close(log);
    json_t *line = json_load_file(path, 0, NULL);
    g_assert_cmpint(number_of(line, "library_bytes"), ==, held);
    g_assert_cmpint(number_of(line, "device_memory_bytes"), ==, FAKE_CUDA_BYTES / 2);
    json_decref(line);
    run_plan_clear(&run);
    g_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    const struct {
        const char *path;
        void (*test)(struct fixture *f, gconstpointer data);
    } tests[] = {
        {"/cuda-capacity/measured", test_measured},
        {"/cuda-capacity/failures", test_failures},
        {"/cuda-capacity/budget", test_budget},
        {"/cuda-capacity/room", test_room},
        {"/cuda-capacity/dry-run", test_dry_run},
        {"/cuda-capacity/no-driver", test_no_driver},
        {"/cuda-capacity/log", test_log},
        {"/cuda-capacity/page-tables", test_page_tables},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
        g_test_add(tests[i].path, struct fixture, NULL, set_up, tests[i].test, tear_down);
    return g_test_run();
}
