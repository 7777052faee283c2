#include "planner/pipelines/moving_shapes.h"

#include "planner/pipelines/cuts.h"
#include "planner/pipelines/pass_clock.h"

#include <string.h>

/* How many borders of a shape are tried, at most; and which parts of a stage's layers are many and
 * few. */
enum { MOST_BORDERS = 16, MANY = 2, FEW = 4 };

/* The shares of a device that activations may take in different shapes: the smaller, the more
 * layers are recomputed, and the more model data stays. */
static const double shares[] = {0.8, 0.5, 0.25};

/* Returns the job with chunks that come and go, if activations take at most a share of the device.
 */
static struct pipeline_job moving_job(const struct pipeline_job *job, double share)
{
    struct pipeline_job moving = *job;
    moving.moves = true;
    moving.device_bytes = job->device_budget;
    moving.device_budget = (uint64_t)((double)job->device_budget * share);
    return moving;
}

bool moving_shapes_bound(const struct pipeline_job *job, double *seconds)
{
    g_autofree uint32_t *ends = g_new0(uint32_t, job->stages);
    const struct pipeline_job moving = moving_job(job, 1);
    uint64_t chain_ns;
    if (!cuts_find(&moving, ends, &chain_ns))
        return false;
    *seconds = (double)chain_ns * 1e-9;
    return true;
}

/* Adds a cut of a job whose activations take at most a share of the device. Adds none if no cut
 * fits, or if it recomputes the same layers as the shape before. */
static void add_shape(GArray *shapes, const struct pipeline_job *job, double bound, double share)
{
    const struct moving_shape *last =
        shapes->len ? &g_array_index(shapes, struct moving_shape, shapes->len - 1) : NULL;
    uint32_t layers = job->units->layers;
    g_autofree uint32_t *ends = g_new0(uint32_t, job->stages);
    g_autofree struct stage_cost *costs = g_new0(struct stage_cost, job->stages);
    const struct pipeline_job moving = moving_job(job, share);
    if ((job->parts == 1 && !cuts_balance(&moving, ends)) || !cuts_cost(&moving, ends, costs))
        return;
    double step_ns = pass_clock_step(&moving, costs, false);
    cuts_improve(&moving, costs, &step_ns, MOST_BORDERS, NULL);
    struct moving_shape shape = {.job = job,
                                 .recompute = g_new0(uint8_t, layers),
                                 .estimate = step_ns * 1e-9,
                                 .bound = bound};
    for (uint32_t s = 0; s < job->stages; s++)
        stage_mark_recomputed(&moving, &costs[s], shape.recompute);
    if (last && last->job == job && memcmp(last->recompute, shape.recompute, layers) == 0) {
        g_free(shape.recompute);
        return;
    }
    if (job->parts == 1) {
        shape.layers = g_new(uint32_t, job->stages);
        for (uint32_t s = 0; s < job->stages; s++)
            shape.layers[s] = costs[s].end - costs[s].first;
    }
    g_array_append_val(shapes, shape);
}

void moving_shapes_add(GArray *shapes, const struct pipeline_job *job, double bound)
{
    for (size_t i = 0; i < G_N_ELEMENTS(shares); i++)
        add_shape(shapes, job, bound, shares[i]);
}

GArray *moving_shapes_new(void)
{
    GArray *shapes = g_array_new(FALSE, FALSE, sizeof(struct moving_shape));
    g_array_set_clear_func(shapes, moving_shape_clear);
    return shapes;
}

struct moving_shape moving_shape_copy(const struct moving_shape *shape)
{
    struct moving_shape copy = *shape;
    copy.recompute = g_memdup2(shape->recompute, shape->job->units->layers);
    if (shape->layers)
        copy.layers = g_memdup2(shape->layers, shape->job->stages * sizeof *shape->layers);
    return copy;
}

void moving_shape_clear(void *data)
{
    struct moving_shape *shape = data;
    g_free(shape->recompute);
    g_free(shape->layers);
}

/* ---- shapes beside others ---- */

/* Returns the stage, as far as it says which layers it has, and how many of them are recomputed. */
static struct stage_cost stage_of(const struct moving_shape *shape, uint32_t s)
{
    struct stage_cost stage = {.stage = s};
    for (uint32_t before = 0; shape->layers && before < s; before++)
        stage.first += shape->layers[before];
    if (shape->layers)
        stage.end = stage.first + shape->layers[s];
    for (uint32_t part = 0; part < shape->job->parts; part++) {
        const struct stage_layers layers = stage_part(shape->job, &stage, part);
        for (uint32_t l = layers.first; l < layers.end; l++)
            stage.recomputed += shape->recompute[l];
    }
    return stage;
}

bool moving_shape_same_stage(const struct moving_shape *a, const struct moving_shape *b, uint32_t s)
{
    const struct stage_cost stage = stage_of(a, s), other = stage_of(b, s);
    bool same = stage.first == other.first && stage.end == other.end;
    for (uint32_t part = 0; part < a->job->parts && same; part++) {
        const struct stage_layers layers = stage_part(a->job, &stage, part);
        same = memcmp(a->recompute + layers.first, b->recompute + layers.first,
                      layers.end - layers.first) == 0;
    }
    return same;
}

/* Returns such a part of the stage's layers, at least one. */
static int part_of(const struct moving_shape *shape, uint32_t s, uint32_t divisor)
{
    const struct stage_cost stage = stage_of(shape, s);
    return (int)MAX(stage_layer_count(shape->job, &stage) / divisor, 1);
}

/* Lets a stage recompute so many layers more, or less. Returns whether it has them. */
static bool recompute(struct moving_shape *shape, uint32_t s, int more)
{
    struct stage_cost stage = stage_of(shape, s);
    int recomputed = (int)stage.recomputed + more;
    if (recomputed < 0 || recomputed > (int)stage_layer_count(shape->job, &stage))
        return false;
    stage.recomputed = (uint32_t)recomputed;
    stage_mark_recomputed(shape->job, &stage, shape->recompute);
    return true;
}

static void add_if(GArray *shapes, struct moving_shape shape, bool ok)
{
    if (ok)
        g_array_append_val(shapes, shape);
    else
        moving_shape_clear(&shape);
}

/* Adds the shape in which a stage gives a layer to the stage before or behind it, which recomputes
 * so many layers more than before and the layer's own mark. */
static void add_handed(GArray *shapes, const struct moving_shape *of, uint32_t from, uint32_t to,
                       int more)
{
    if (of->layers[from] == 1)
        return;
    struct moving_shape shape = moving_shape_copy(of);
    shape.layers[from]--;
    shape.layers[to]++;
    add_if(shapes, shape, more == 0 || recompute(&shape, to, more));
}

static void add_recomputed(GArray *shapes, const struct moving_shape *of, uint32_t s, int more)
{
    struct moving_shape shape = moving_shape_copy(of);
    add_if(shapes, shape, recompute(&shape, s, more));
}

GArray *moving_shapes_beside(const struct moving_shape *shape)
{
    const struct pipeline_job *job = shape->job;
    GArray *shapes = moving_shapes_new();
    bool chosen = !job->recompute;
    int last = chosen ? 1 : 0;
    for (uint32_t s = 0; shape->layers && s + 1 < job->stages; s++)
        for (int more = 0; more <= last; more++) {
            add_handed(shapes, shape, s, s + 1, more * part_of(shape, s + 1, MANY));
            add_handed(shapes, shape, s + 1, s, more * part_of(shape, s, MANY));
        }
    for (uint32_t s = 0; chosen && s < job->stages; s++) {
        add_recomputed(shapes, shape, s, part_of(shape, s, FEW));
        add_recomputed(shapes, shape, s, -part_of(shape, s, FEW));
    }
    return shapes;
}
