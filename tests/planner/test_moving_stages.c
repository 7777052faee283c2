/* Stages whose chunks come and go: their plans pass the checks of plans and recompute what was
 * asked, no plan of the same question is faster than the bound, and stages that fit take the time
 * that the search says. */
#include "chunks/dry_run.h"
#include "planner/pipelines/moving_shapes.h"
#include "planner/pipelines/pipeline_search.h"
#include "tests/drawn.h"
#include "tests/models/small_model.h"
#include "tests/sanitized.h"

#include <math.h>
#include <string.h>

enum { MOST_LAYERS = 16, MOST_DRAWS = 12 };
#define DRAWS  draws(1, UNLESS_SANITIZED(4, 2))
#define OTHERS draws(1, 2)

#define CURVE(name, rate) ", \"" name "\": {\"source\": \"s\", \"points\": [[" rate ", 1]]}"

static struct platform *draw_platform(void)
{
    static const char rates[] = CURVE("compute_fp32", "1e8") CURVE("compute_bf16", "1e8")
        CURVE("memory", "1e8") CURVE("host_update", "1e7");
    g_autofree char *text = g_strdup_printf(
        "{\"name\": \"m\", \"source\": \"s\", \"device_bytes\": 1000000000, \"host_bytes\": "
        "1000000000, \"h2d\": {\"source\": \"s\", \"points\": [[%de5, 1]]}, \"d2h\": {\"source\": "
        "\"s\", \"points\": [[%de5, 1]]}%s, \"network\": {\"source\": \"s\", "
        "\"bytes_per_second\": %de6, \"latency_seconds\": 1e-6}}",
        g_test_rand_int_range(5, 200), g_test_rand_int_range(5, 200), rates,
        g_test_rand_int_range(1, 500));
    GError *error = NULL;
    struct platform *platform = platform_parse(text, "drawn", &error);
    g_assert_no_error(error);
    return platform;
}

struct drawn {
    struct model_config config;
    struct platform *platform;
    struct pipeline_question question;
};

static void draw(struct drawn *d)
{
    static const struct model_family *const families[] = {&family_gpt2, &family_llama};
    uint32_t stages = (uint32_t)g_test_rand_int_range(2, 4);
    uint32_t width = (uint32_t)g_test_rand_int_range(1, 3);
    d->config = small_decoder(families[g_test_rand_int_range(0, 2)], g_test_rand_int_range(0, 2));
    uint32_t wider = g_test_rand_int_range(0, 2) ? 1 : 4;
    d->config.width *= wider;
    d->config.inner *= wider;
    d->config.vocabulary = (uint32_t)g_test_rand_int_range(5, 120);
    d->config.layers = stages + (uint32_t)g_test_rand_int_range(0, 5);
    d->platform = draw_platform();
    d->question = (struct pipeline_question){
        .config = &d->config,
        .platform = d->platform,
        .sequence = 4,
        .precision = g_test_rand_int_range(0, 2) ? MODEL_BF16 : MODEL_FP32,
        .sequences = 2 * width * (stages + (uint32_t)g_test_rand_int_range(0, 4)),
        .gpus = stages * width,
        .nodes = stages * width,
        .stages = stages,
        .schedule = PIPELINE_SCHEDULE_ANY,
        .clips = true,
        .threads = 2};
}

static struct pipeline_answer *search(const struct pipeline_question *question)
{
    GError *error = NULL;
    struct pipeline_answer *answer = pipeline_search(question, &error);
    g_assert_no_error(error);
    return answer;
}

/* Returns the device memory with which the neediest stage of the best candidate fits. */
static uint64_t resident_bytes(const struct drawn *d)
{
    struct pipeline_question question = d->question;
    uint64_t most = 0;
    question.device_budget = UINT64_MAX / 16;
    struct pipeline_answer *answer = search(&question);
    for (uint32_t s = 0; s < answer->candidates[0].stages; s++)
        most = MAX(most, answer->candidates[0].costs[s].device_bytes);
    pipeline_answer_free(answer);
    return most;
}

static void check_plans(const struct moving_stages *moving)
{
    GError *error = NULL;
    for (uint32_t s = 0; s < moving->stages; s++) {
        const struct stage_times *t = &moving->results[s].times;
        double sum = t->compute + t->warm_up + t->drain + t->imbalance + t->communication +
                     t->copies;
        plan_check(moving->plans[s], moving->traces[s], &error);
        g_assert_no_error(error);
        g_assert_cmpfloat(fabs(sum - moving->step_seconds), <, 1e-6 * moving->step_seconds);
        g_assert_cmpuint(moving->results[s].figures.h2d_bytes, ==,
                         moving->plans[s]->predicted.h2d_bytes);
    }
}

static void check_own_bound(const struct moving_stages *moving)
{
    g_assert_cmpfloat(moving->bound_seconds, <=, moving->step_seconds * (1 + 1e-9));
}

static void check_recomputed(const struct pipeline_question *question,
                             const struct moving_stages *moving)
{
    uint32_t layers = question->config->layers;
    g_assert_true(memcmp(moving->recompute, question->recompute, layers) == 0);
}

/* Plans other shapes: with layers that are recomputed as it is asked, and of one schedule. The
 * bound says nothing of split passes, unless they are asked for. */
static void check_others(const struct drawn *d, double bound)
{
    static const enum pipeline_schedule schedules[] = {PIPELINE_1F1B, PIPELINE_GPIPE, PIPELINE_2BW,
                                                       PIPELINE_ZERO_BUBBLE};
    uint8_t recompute[MOST_LAYERS];
    struct pipeline_question question = d->question;
    question.recompute = recompute;
    for (int i = 0; i < OTHERS; i++) {
        for (uint32_t l = 0; l < d->config.layers; l++)
            recompute[l] = (uint8_t)g_test_rand_int_range(0, 2);
        question.schedule = schedules[g_test_rand_int_range(0, G_N_ELEMENTS(schedules))];
        struct pipeline_answer *answer = search(&question);
        if (answer->moving) {
            check_plans(answer->moving);
            check_recomputed(&question, answer->moving);
            check_own_bound(answer->moving);
            g_assert_true(pipeline_splits(answer->moving->schedule) ||
                          answer->moving->step_seconds >= bound * (1 - 1e-9));
        }
        pipeline_answer_free(answer);
    }
}

static void test_bound(void)
{
    int moved = 0;
    for (int i = 0; i < DRAWS || (!moved && i < MOST_DRAWS); i++) {
        struct drawn d;
        draw(&d);
        d.question.device_budget =
            (uint64_t)((double)resident_bytes(&d) * g_test_rand_double_range(0.3, 0.9));
        struct pipeline_answer *answer = search(&d.question);
        const struct moving_stages *moving = answer->moving;
        g_test_message("draw %d: %s", i,
                       moving                       ? "moves"
                       : answer->candidates[0].fits ? "fits"
                       : answer->unmoved            ? answer->unmoved
                                                    : "no activations fit");
        if (moving) {
            moved++;
            g_assert_false(answer->candidates[0].fits);
            check_plans(moving);
            check_own_bound(moving);
            check_others(&d, moving->bound_seconds);
        }
        pipeline_answer_free(answer);
        platform_free(d.platform);
    }
    g_assert_cmpint(moved, >, 0);
}

/* ---- shapes ---- */

static struct moving_shape draw_shape(const struct pipeline_job *job)
{
    uint32_t layers = job->units->layers;
    struct moving_shape shape = {.job = job, .recompute = g_new(uint8_t, layers)};
    for (uint32_t l = 0; l < layers; l++)
        shape.recompute[l] = (uint8_t)g_test_rand_int_range(0, 2);
    if (job->parts > 1)
        return shape;
    shape.layers = g_new(uint32_t, job->stages);
    for (uint32_t s = 0; s < job->stages; s++)
        shape.layers[s] = 1;
    for (uint32_t more = layers - job->stages; more > 0; more--)
        shape.layers[g_test_rand_int_range(0, (gint32)job->stages)]++;
    return shape;
}

/* Checks a shape beside another one: of two stages at most other layers are theirs or recomputed.
 */
static void check_beside(const struct moving_shape *shape, const struct moving_shape *other)
{
    const struct pipeline_job *job = shape->job;
    uint32_t layers = 0, changed = 0;
    for (uint32_t s = 0; s < job->stages; s++) {
        if (other->layers) {
            g_assert_cmpuint(other->layers[s], >, 0);
            layers += other->layers[s];
        }
        changed += !moving_shape_same_stage(shape, other, s);
    }
    g_assert_true(!other->layers || layers == job->units->layers);
    g_assert_cmpuint(changed, <=, 2);
    if (job->recompute) {
        g_assert_cmpuint(changed, ==, 2);
        g_assert_true(memcmp(other->recompute, shape->recompute, job->units->layers) == 0);
    }
}

/* Layers go to both neighbours of each stage that has several, and if it was asked which layers are
 * recomputed, nothing else changes. */
static void test_beside(void)
{
    for (int i = 0; i < 200; i++) {
        uint32_t stages = (uint32_t)g_test_rand_int_range(2, 5), handed = 0;
        uint32_t parts = (uint32_t)g_test_rand_int_range(1, 4);
        const struct units units = {.layers = stages * parts +
                                              (uint32_t)g_test_rand_int_range(0, MOST_LAYERS)};
        struct pipeline_job job = {.units = &units,
                                   .stages = stages,
                                   .parts = parts,
                                   .schedule = parts > 1 ? PIPELINE_INTERLEAVED : PIPELINE_1F1B};
        struct moving_shape shape = draw_shape(&job);
        if (g_test_rand_int_range(0, 2))
            job.recompute = shape.recompute;
        GArray *beside = moving_shapes_beside(&shape);
        for (guint b = 0; b < beside->len; b++)
            check_beside(&shape, &g_array_index(beside, struct moving_shape, b));
        for (uint32_t s = 0; shape.layers && s < stages; s++)
            handed += shape.layers[s] > 1 ? (s > 0) + (s + 1 < stages) : 0;
        g_assert_cmpuint(beside->len, >=, handed);
        g_assert_true(!job.recompute || beside->len == handed);
        g_array_unref(beside);
        moving_shape_clear(&shape);
    }
}

/* ---- stages that fit ---- */

/* Checks the plans of the stages of the best candidate, which take its time, or less if something
 * is updated on the host. Several ranks may take a little longer (pass_clock.h). */
static void check_resident(const struct pipeline_candidate *best,
                           const struct moving_stages *moving)
{
    uint64_t moved = 0;
    check_plans(moving);
    for (uint32_t s = 0; s < best->stages; s++)
        moved += moving->results[s].figures.d2h_bytes;
    g_assert_cmpfloat(moving->step_seconds, <,
                      (best->width > 1 ? 1.3 : 1) * best->step_seconds + 2e-9);
    if (!moved)
        g_assert_cmpfloat(moving->step_seconds, >, best->step_seconds - 2e-9);
}

/* With room for everything, there are plans. */
static void test_resident(void)
{
    for (int i = 0; i < DRAWS; i++) {
        struct drawn d;
        draw(&d);
        d.question.device_budget = UINT64_MAX / 16;
        d.question.wants_plans = true;
        struct pipeline_answer *answer = search(&d.question);
        const struct pipeline_candidate *best = &answer->candidates[0];
        check_resident(best, answer->moving);
        pipeline_answer_free(answer);
        platform_free(d.platform);
    }
}

/* Stops a search when its progress has been shown so many times. */
static bool stop_after(void *data, uint32_t done, uint32_t total)
{
    uint32_t *left = data;
    (void)done;
    (void)total;
    *left -= *left > 0;
    return *left > 0;
}

/* An answer to a question that was stopped before it had a plan has the first one of a single
 * thread, and no others. */
static void check_first(const struct pipeline_answer *answer, const struct pipeline_answer *whole)
{
    g_assert_true(answer->stopped);
    g_assert_cmpuint(answer->count, <=, whole->count);
    g_assert_true(answer->candidates[0].fits == whole->candidates[0].fits);
    g_assert_true(!answer->moving == !whole->moving);
    if (!answer->moving)
        return;
    check_plans(answer->moving);
    g_assert_true(answer->moving->stopped);
    g_assert_cmpuint(answer->moving->looks, ==, 1);
    g_assert_cmpuint(answer->moving->shapes, <=, whole->moving->shapes);
    g_assert_cmpfloat(answer->moving->step_seconds, >=, whole->moving->step_seconds * (1 - 1e-9));
}

/* Draws a question whose stages have no room for everything, for a single thread. Returns the
 * answer of the whole search. */
static struct pipeline_answer *draw_tight(struct drawn *d)
{
    draw(d);
    d->question.device_budget =
        (uint64_t)((double)resident_bytes(d) * g_test_rand_double_range(0.5, 0.9));
    d->question.threads = 1;
    return search(&d->question);
}

/* A search whose time is over from the beginning ends with its first plan, as one that is told to
 * end does. It looks for this plan where a step has the fewest micro-batches. */
static void test_time_limit(void)
{
    uint32_t left_out = 0;
    for (int i = 0; i < OTHERS || !left_out; i++) { /* a draw may fit, or have one shape */
        struct drawn d;
        struct pipeline_answer *whole = draw_tight(&d);
        d.question.time_limit = 1e-9;
        struct pipeline_answer *answer = search(&d.question);
        check_first(answer, whole);
        if (answer->moving) {
            left_out += whole->moving->looks - 1;
            g_assert_cmpuint(answer->moving->micro_batches, <=, whole->moving->micro_batches);
        }
        pipeline_answer_free(answer);
        pipeline_answer_free(whole);
        platform_free(d.platform);
    }
}

/* A search ends whenever it is asked to, but not before it has a plan. */
static void test_stopped(void)
{
    for (int i = 0; i < OTHERS; i++) {
        struct drawn d;
        struct pipeline_answer *whole = draw_tight(&d);
        g_assert_false(whole->stopped);
        for (uint32_t shown = 1; shown < 3; shown++) {
            uint32_t left = shown;
            d.question.progress = stop_after;
            d.question.progress_data = &left;
            struct pipeline_answer *answer = search(&d.question);
            g_assert_cmpuint(left, ==, 0);
            check_first(answer, whole);
            pipeline_answer_free(answer);
        }
        pipeline_answer_free(whole);
        platform_free(d.platform);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/moving-stages/bound", test_bound);
    g_test_add_func("/moving-stages/beside", test_beside);
    g_test_add_func("/moving-stages/resident", test_resident);
    g_test_add_func("/moving-stages/stopped", test_stopped);
    g_test_add_func("/moving-stages/time-limit", test_time_limit);
    return g_test_run();
}
