/* A start places the buffers of its iteration once, because that may take about a second, and hands
 * the places to all that need them. */
#include "engine/train/run_report.h"
#include "engine/train/trainer.h"

#include <glib/gstdio.h>
#include <string.h>

/* The linker lets calls of non_model_place from other files come here (--wrap). */
struct non_model *__real_non_model_place(const struct trace *trace);
struct non_model *__wrap_non_model_place(const struct trace *trace);

static uint32_t placed;

struct non_model *__wrap_non_model_place(const struct trace *trace)
{
    placed++;
    return __real_non_model_place(trace);
}

struct fixture {
    char *folder, *model, *data, *plan;
};

static void write_text(const char *path, const char *text)
{
    GError *error = NULL;
    g_file_set_contents(path, text, -1, &error);
    g_assert_no_error(error);
}

static void set_up(struct fixture *f, gconstpointer data)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 16, \"n_head\": 2,"
        " \"n_positions\": 16, \"vocab_size\": 256}";
    GError *error = NULL;
    (void)data;
    f->folder = g_dir_make_tmp("pstar-placed-XXXXXX", &error);
    g_assert_no_error(error);
    f->model = g_build_filename(f->folder, "config.json", NULL);
    f->data = g_build_filename(f->folder, "text", NULL);
    f->plan = g_build_filename(f->folder, "plan.json", NULL);
    g_autofree char *text = g_strnfill(1000, 'a');
    write_text(f->model, config);
    write_text(f->data, text);
    placed = 0;
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_remove(f->model);
    g_remove(f->data);
    g_remove(f->plan);
    g_rmdir(f->folder);
    g_free(f->model);
    g_free(f->data);
    g_free(f->plan);
    g_free(f->folder);
}

/* The fixture keeps the paths. */
static struct run_options options_of(const struct fixture *f)
{
    struct run_options options = run_options_default();
    GError *error = NULL;
    options.model = f->model;
    options.data = f->data;
    options.train = (char *)"all";
    options.steps = 2;
    options.batch = 2;
    options.sequence = 8;
    g_assert_true(run_options_complete(&options, &error));
    g_assert_no_error(error);
    return options;
}

/* ---- a program that watches nothing ---- */

static void ignore(void *data)
{
    (void)data;
}

static void show(void *data, const struct trainer_progress *progress)
{
    (void)data, (void)progress;
}

static bool goes_on(void *data)
{
    (void)data;
    return false;
}

static void warn(void *data, const char *message)
{
    (void)data;
    g_test_message("%s", message);
}

static int status_of(const GError *error)
{
    (void)error;
    return 1;
}

static void run(const struct run_options *options)
{
    static const struct trainer_watch watch = {.begin = ignore,
                                               .show = show,
                                               .is_stopped = goes_on,
                                               .warn = warn,
                                               .end = ignore,
                                               .status_of = status_of};
    struct trainer_end end;
    GError *error = NULL;
    g_assert_true(trainer_run(options, &watch, &end, &error));
    g_assert_no_error(error);
}

/* ---- tests ---- */

static void test_dry_run(struct fixture *f, gconstpointer data)
{
    struct run_options options = options_of(f);
    (void)data;
    options.dry_run = true;
    run(&options);
    g_assert_cmpuint(placed, ==, 1);
}

static void test_training(struct fixture *f, gconstpointer data)
{
    struct run_options options = options_of(f);
    (void)data;
    run(&options);
    g_assert_cmpuint(placed, ==, 1);
}

static void test_plan_file(struct fixture *f, gconstpointer data)
{
    struct run_options options = options_of(f);
    (void)data;
    options.emit_plan = f->plan;
    options.dry_run = true;
    run(&options);
    options.emit_plan = NULL;
    options.plan = f->plan;
    for (int trained = 0; trained < 2; trained++) {
        options.dry_run = !trained;
        placed = 0;
        run(&options);
        g_assert_cmpuint(placed, ==, 1);
    }
}

/* What a run needs, in bytes. */
struct need {
    uint64_t device, pool, snapshot, lacking;
};

static struct need prepare_once(const struct run_options *options)
{
    struct run_plan run;
    GError *error = NULL;
    placed = 0;
    run_plan_prepare(&run, options, &error);
    g_assert_no_error(error);
    const struct need need = {.device = run_plan_least_device_bytes(&run, &(moment_id){0}),
                              .pool = run.plan->host_pool_bytes,
                              .snapshot = run.snapshot_bytes,
                              .lacking = run.lacking_bytes};
    run_plan_clear(&run);
    g_assert_cmpuint(placed, ==, 1);
    return need;
}

/* A policy plans twice if the host has no room for a snapshot beside the plan. */
static void test_two_plans(struct fixture *f, gconstpointer data)
{
    struct run_options options = options_of(f);
    (void)data;
    options.save = f->folder;
    options.save_every = 1;
    options.sized = true;
    options.chunk_sizes.others = 4096;
    options.device_budget = prepare_once(&options).device;
    const struct need need = prepare_once(&options);
    options.host_budget = need.pool + need.snapshot / 2;
    g_assert_cmpuint(prepare_once(&options).lacking, >, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, test) \
    g_test_add("/engine/placed_once/" path, struct fixture, NULL, set_up, test, tear_down)
    ADD("dry_run", test_dry_run);
    ADD("training", test_training);
    ADD("plan_file", test_plan_file);
    ADD("two_plans", test_two_plans);
    return g_test_run();
}
