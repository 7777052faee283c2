#include "planner/pipelines/stage_links.h"

#include <math.h>

/* Nanoseconds that the link takes for a byte. */
struct link_rates {
    double up_ns, down_ns;
};

static struct link_rates rates_of(const struct pipeline_job *job)
{
    return (struct link_rates){1e9 / costs_link_rate(job->costs, MOVER_H2D),
                               1e9 / costs_link_rate(job->costs, MOVER_D2H)};
}

static double beyond(double bytes, double room)
{
    return fmax(bytes - room, 0);
}

/* ---- updates ---- */

static bool has_masters(const struct pipeline_job *job)
{
    return job->units->element_bytes == 2 || job->schedule == PIPELINE_2BW;
}

/* Returns the bytes of an element's states, and of its gradient, on a rank. */
static double states_of(const struct pipeline_job *job)
{
    return (has_masters(job) ? 3.0 : 2.0) * sizeof(float) / job->width;
}

static double gradient_of(const struct pipeline_job *job)
{
    return (double)sizeof(float) / job->width;
}

/* The time from a stage's first update to the end of its first forward pass. */
struct beginning {
    const struct pipeline_job *job;
    struct link_rates rates;
    double trained, forward_ns;
};

/* Returns the time if so many elements are updated on the host, which come from there. The others
 * need their states and gradients on the device, where some are when it begins, and some of what
 * they write may still be when it ends. */
static double begin_with(const struct beginning *b, double on_host)
{
    const struct pipeline_job *job = b->job;
    double element = (double)job->units->element_bytes, room = (double)job->device_bytes;
    double here = b->trained - on_host, states = states_of(job);
    double own = has_masters(job) ? 0 : element; /* else the masters are read */
    double read = here * (states + gradient_of(job) + own), written = here * (states + element);
    double up = on_host * element + beyond(read, room);
    double device_ns = here * job->units->update_ns[TRACE_ON_DEVICE] + b->forward_ns;
    double host_ns = on_host * job->units->update_ns[TRACE_ON_HOST];
    return fmax(fmax(device_ns, host_ns),
                fmax(up * b->rates.up_ns, beyond(written, room) * b->rates.down_ns));
}

/* The time is convex in what is updated on the host. */
double stage_begin_ns(const struct pipeline_job *job, double trained, double forward_ns)
{
    enum { ROUNDS = 40 };
    const struct beginning b = {job, rates_of(job), trained, forward_ns};
    double low = 0, high = trained;
    for (int i = 0; i < ROUNDS; i++) {
        double left = low + (high - low) / 3, right = high - (high - low) / 3;
        if (begin_with(&b, left) <= begin_with(&b, right))
            high = right;
        else
            low = left;
    }
    /* Between `low` and `high` no term changes by more than what these elements take everywhere. */
    double element_ns = job->units->update_ns[TRACE_ON_DEVICE] +
                        job->units->update_ns[TRACE_ON_HOST] +
                        (b.rates.up_ns + b.rates.down_ns) * (states_of(job) + 2 * sizeof(float));
    return fmax(begin_with(&b, low) - (high - low) * element_ns, 0);
}

/* ---- passes ---- */

/* A stage of one part. */
struct link_stage {
    const struct pipeline_job *job;
    const struct stage_pass_times *times;
    struct stage_pass_bytes bytes;
    struct link_rates rates;
    uint32_t ahead;  /* forward passes before the first backward pass, less one */
    uint32_t slots;  /* micro-batches whose bytes are always there; 0 if the pipeline drains */
    uint32_t newest; /* the last forward passes, which read no parameters and no masters */
};

static double room_of(const struct link_stage *s, uint32_t in_flight)
{
    return (double)s->job->device_bytes - (double)in_flight * (double)s->bytes.saved;
}

static int turn_of(uint32_t k)
{
    return k == 0 ? UNIT_FIRST : UNIT_LATER;
}

/* Micro-batches in flight when the forward, or the backward, of micro-batch k begins. */
static uint32_t before_forward(const struct link_stage *s, uint32_t k)
{
    return s->slots ? s->slots : MIN(k, s->ahead);
}

static uint32_t before_backward(const struct link_stage *s, uint32_t k)
{
    return s->slots ? s->slots : MIN(s->job->micro_batches - k, s->ahead + 1);
}

/* Returns the bytes that the k-th forward reads. Passes that read the newest parameters from
 * buffers need the masters only once. */
static double forward_bytes(const struct link_stage *s, uint32_t k)
{
    return k + s->newest < s->job->micro_batches ? (double)s->bytes.forward : 0;
}

/* Returns the time of the k-th forward, if gradients stay that take so many bytes. */
static double forward_ns(const struct link_stage *s, uint32_t k, double staying)
{
    double fetched = beyond(forward_bytes(s, k) + staying, room_of(s, before_forward(s, k)));
    return fmax((double)s->times->forward_ns[turn_of(k)], fetched * s->rates.up_ns);
}

/* Returns the bytes that the backward of micro-batch k needs. Gradients are new in a step's first
 * one. */
static double backward_bytes(const struct link_stage *s, uint32_t k)
{
    return (double)s->bytes.backward + (k ? (double)s->bytes.gradients : 0);
}

/* Returns the time of the backward of micro-batch k, the first half of it if it is split. */
static double backward_ns(const struct link_stage *s, uint32_t k)
{
    bool split = pipeline_splits(s->job->schedule);
    double bytes = split ? (double)s->bytes.backward : backward_bytes(s, k);
    double fetched = beyond(bytes, room_of(s, before_backward(s, k)));
    return fmax((double)s->times->backward_ns[turn_of(k)], fetched * s->rates.up_ns);
}

/* Returns the time of the backward of micro-batch k and the next forward, that of micro-batch
 * `next`. Gradients that do not stay meanwhile are written back; those that do leave the forward
 * less room. The time is the least of the greater of an increasing function, which has a bend, and
 * a decreasing one. */
static double pair_ns(const struct link_stage *s, uint32_t k, uint32_t next)
{
    double first_ns = backward_ns(s, k), own_ns = (double)s->times->forward_ns[turn_of(next)];
    double room = room_of(s, before_forward(s, next)), gradients = (double)s->bytes.gradients;
    if (pipeline_splits(s->job->schedule))
        return first_ns + forward_ns(s, next, 0);
    double most = fmin(gradients, fmax(room, 0)), up_ns = s->rates.up_ns;
    double bend = room - forward_bytes(s, next) + own_ns / up_ns;
    double staying = gradients - (first_ns + own_ns) / s->rates.down_ns;
    if (staying > bend)
        staying =
            (gradients * s->rates.down_ns - first_ns + (room - forward_bytes(s, next)) * up_ns) /
            (up_ns + s->rates.down_ns);
    staying = fmin(fmax(staying, 0), most);
    return fmax(first_ns + forward_ns(s, next, staying), (gradients - staying) * s->rates.down_ns);
}

/* ---- steps ---- */

/* Adds up a step in which forward passes run ahead, and then pairs of a backward and a forward
 * follow each other. */
static void add_passes(const struct link_stage *s, struct stage_link_times *times)
{
    uint32_t count = s->job->micro_batches, ahead = MIN(s->ahead, count - 1);
    for (uint32_t k = 0; k <= ahead; k++) {
        double ns = forward_ns(s, k, 0);
        times->work_ns += ns;
        times->before_last_ns += k + 1 < count ? ns : 0;
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t next = k + ahead + 1;
        double ns = next < count ? pair_ns(s, k, next) : backward_ns(s, k);
        times->work_ns += ns;
        times->behind_first_ns += k ? ns : next < count ? forward_ns(s, next, 0) : 0;
        if (next < count)
            times->before_last_ns += next + 1 < count ? ns : backward_ns(s, k);
    }
}

static struct link_stage open_stage(const struct pipeline_job *job, const struct stage_cost *cost,
                                    const struct stage_pass_times *times)
{
    bool is_last = cost->stage + 1 == job->stages, drains = job->schedule != PIPELINE_2BW;
    struct link_stage s = {.job = job,
                           .times = times,
                           .bytes = stage_pass_bytes(job, cost, 0),
                           .rates = rates_of(job)};
    s.ahead = job->schedule == PIPELINE_GPIPE ? job->micro_batches - 1
              : drains                        ? job->stages - cost->stage - 1
                                              : 0;
    s.slots = drains || is_last ? 0 : stage_in_flight(job, cost->stage);
    s.newest = stage_has_newest(job, cost->stage) ? job->stages - cost->stage - 2 : 0;
    return s;
}

static struct stage_link_times one_part_times(const struct pipeline_job *job,
                                              const struct stage_cost *cost, uint64_t saved_bytes)
{
    const struct stage_pass_times times = stage_pass_times(job, cost, 0);
    struct link_stage s = open_stage(job, cost, &times);
    struct stage_link_times sum = {0};
    s.bytes.saved = saved_bytes;
    add_passes(&s, &sum);
    sum.first_ns = forward_ns(&s, 0, 0);
    sum.work_ns += (double)cost->weights_ns[UNIT_FIRST] +
                   (job->micro_batches - 1.0) * (double)cost->weights_ns[UNIT_LATER];
    sum.rest_ns = sum.work_ns - sum.first_ns;
    return sum;
}

/* ---- several parts ---- */

/* A pass of a stage of several parts. */
struct part_pass {
    uint32_t part;
    bool backward, first; /* first: it is the part's first one of this kind in a step */
    double ns, room;      /* what it computes; the room when it begins */
};

struct part_passes {
    const struct pipeline_job *job;
    struct link_rates rates;
    struct stage_pass_bytes *bytes; /* [parts] */
    struct part_pass *pass;         /* [count] */
    uint32_t count;
};

/* The passes take what `times` say, and the stage saves what `saves` does. */
static void open_parts(struct part_passes *passes, const struct pipeline_job *job,
                       const struct stage_cost *times, const struct stage_cost *saves)
{
    const struct pipeline_shape shape = stage_shape(job);
    g_autofree struct pipeline_pass *order =
        pipeline_stage_passes(&shape, times->stage, job->micro_batches, &passes->count);
    g_autofree struct stage_pass_times *of_part = g_new(struct stage_pass_times, job->parts);
    double alive = 0;
    passes->job = job;
    passes->rates = rates_of(job);
    passes->bytes = g_new(struct stage_pass_bytes, job->parts);
    passes->pass = g_new(struct part_pass, passes->count);
    for (uint32_t part = 0; part < job->parts; part++) {
        of_part[part] = stage_pass_times(job, times, part);
        passes->bytes[part] = stage_pass_bytes(job, times, part);
        passes->bytes[part].saved = stage_pass_bytes(job, saves, part).saved;
    }
    for (uint32_t i = 0; i < passes->count; i++) {
        const struct pipeline_pass *p = &order[i];
        const struct stage_pass_times *t = &of_part[p->part];
        double saved = (double)passes->bytes[p->part].saved;
        uint64_t ns = (p->backward ? t->backward_ns : t->forward_ns)[turn_of(p->micro_batch)];
        passes->pass[i] = (struct part_pass){.part = p->part,
                                             .backward = p->backward,
                                             .first = p->micro_batch == 0,
                                             .ns = (double)ns,
                                             .room = (double)job->device_bytes - alive};
        alive += p->backward ? -saved : saved;
    }
}

static void close_parts(struct part_passes *passes)
{
    g_free(passes->bytes);
    g_free(passes->pass);
}

/* What passes that follow each other need and write, each part's once. */
struct pass_window {
    uint64_t forward, backward; /* marks of parts */
    double ns, needed, written; /* what they compute; bytes */
};

static void add_to_window(const struct part_passes *passes, const struct part_pass *pass,
                          struct pass_window *window)
{
    const struct stage_pass_bytes *bytes = &passes->bytes[pass->part];
    uint64_t mark = UINT64_C(1) << pass->part % 64; /* parts that share one only lower the bound */
    bool forward = window->forward & mark, backward = window->backward & mark;
    window->ns += pass->ns;
    if (pass->backward && !backward) {
        window->needed += pass->first ? 0 : (double)bytes->gradients;
        window->needed += forward ? 0 : (double)bytes->backward;
        window->written += (double)bytes->gradients;
        window->backward |= mark;
    } else if (!pass->backward && !forward) {
        window->needed += (double)bytes->forward - (backward ? (double)bytes->backward : 0);
        window->forward |= mark;
    }
}

/* Returns the least time of the passes from `first` on: the most, over all ways to divide them into
 * windows of passes that follow each other, of the sum of the windows' times. */
static double windows_ns(const struct part_passes *passes, uint32_t first)
{
    enum { MOST_PASSES = 64 };
    g_autofree double *longest = g_new0(double, passes->count + 1);
    for (uint32_t i = first; i < passes->count; i++) {
        uint32_t end = MIN(passes->count, i + MOST_PASSES);
        struct pass_window window = {0};
        for (uint32_t j = i; j < end; j++) {
            double left = j + 1 < passes->count ? passes->pass[j + 1].room
                                                : (double)passes->job->device_bytes;
            add_to_window(passes, &passes->pass[j], &window);
            double up_ns = (window.needed - passes->pass[i].room) * passes->rates.up_ns;
            double down_ns = (window.written - left) * passes->rates.down_ns;
            double link_ns = MAX(up_ns, down_ns), end_ns = longest[i] + MAX(window.ns, link_ns);
            longest[j + 1] = MAX(longest[j + 1], end_ns);
        }
    }
    return longest[passes->count];
}

static struct stage_link_times parts_times(const struct pipeline_job *job,
                                           const struct stage_cost *cost,
                                           const struct stage_cost *saves)
{
    struct part_passes passes;
    struct stage_link_times times = {0};
    open_parts(&passes, job, cost, saves);
    uint32_t first = 0;
    while (passes.pass[first].part + 1 < job->parts)
        times.first_ns += passes.pass[first++].ns;
    times.first_ns += passes.pass[first].ns;
    times.work_ns = windows_ns(&passes, 0);
    times.rest_ns = windows_ns(&passes, first + 1);
    close_parts(&passes);
    return times;
}

/* ---- all stages ---- */

struct stage_link_times stage_link_times(const struct pipeline_job *job,
                                         const struct stage_cost *cost,
                                         const struct stage_cost *saves)
{
    if (job->parts > 1)
        return parts_times(job, cost, saves);
    return one_part_times(job, cost, stage_pass_bytes(job, saves, 0).saved);
}

double stage_link_stretch(const struct pipeline_job *job, const struct stage_cost *cost)
{
    return stage_link_times(job, cost, cost).work_ns / (double)cost->work_ns;
}

/* ---- recomputation ---- */

bool stage_link_cost(const struct pipeline_job *job, uint32_t stage, uint32_t first, uint32_t end,
                     struct stage_cost *cost)
{
    if (!stage_cost(job, stage, first, end, cost))
        return false;
    if (job->recompute || job->parts > 1)
        return true;
    uint32_t best = cost->recomputed;
    double least = INFINITY;
    for (uint32_t r = cost->recomputed; r <= end - first; r++) {
        stage_recompute(job, r, cost);
        double ns = stage_link_times(job, cost, cost).work_ns;
        if (ns < least) {
            least = ns;
            best = r;
        }
    }
    stage_recompute(job, best, cost);
    return true;
}
