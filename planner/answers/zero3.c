#include "planner/answers/zero3.h"

#include <math.h>
#include <string.h>

/* One use of a parameter by a visit. */
struct zero3_use {
    tensor_id tensor;
    uint32_t visit;
    uint32_t next; /* the visit that uses the tensor next in the micro-batch; NO_INDEX: none */
};

struct zero3 {
    const struct trace *trace;
    GArray *uses;   /* of struct zero3_use, in the order of visits */
    GArray *visits; /* of uint32_t: the first use of each visit, and the end of the last one */
    GArray *passes; /* of uint32_t: the first visit of each micro-batch, and the end of the last */
    GArray *before; /* of uint64_t: elements that the visits before each one use */
};

/* ---- the visits of a trace ---- */

/* Returns the part of an operator's name that names the module. */
static const char *module_of(const struct trace_operator *op)
{
    const char *space = strrchr(op->name, ' ');
    return space ? space + 1 : op->name;
}

static bool is_within(const char *module, const char *outer)
{
    size_t length = strlen(outer);
    return strncmp(module, outer, length) == 0 && module[length] == '.';
}

/* Returns how many modules are entered between two: the later one, and those around it that are not
 * around the earlier one. A list of modules, whose name a number follows, is not called itself. */
static uint32_t entered(const char *earlier, const char *module)
{
    uint32_t count = 1;
    for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t length = (size_t)(dot - module);
        bool shared = strncmp(earlier, module, length) == 0 &&
                      (earlier[length] == '.' || earlier[length] == 0);
        count += !shared && !g_ascii_isdigit(dot[1]);
    }
    return count;
}

static void begin_visit(struct zero3 *zero3)
{
    g_array_append_val(zero3->visits, zero3->uses->len);
}

/* Returns whether the module has the tensor: it reads the parameter, or backward makes its
 * gradient, which need not read it. */
static bool is_use(const struct trace_access *access)
{
    return access->list == TRACE_PARAM || access->list == TRACE_GATHERED ||
           access->list == TRACE_GRAD;
}

static int by_tensor(gconstpointer a, gconstpointer b)
{
    const struct zero3_use *x = a, *y = b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Adds the tensors of an operator, each once and in the model's order. */
static void add_uses(struct zero3 *zero3, const struct trace_operator *op)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(struct zero3_use));
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &zero3->trace->accesses[op->first_access + i];
        struct zero3_use use = {access->tensor, zero3->visits->len - 1, NO_INDEX};
        if (is_use(access))
            g_array_append_val(found, use);
    }
    g_array_sort(found, by_tensor);
    for (guint i = 0; i < found->len; i++) {
        const struct zero3_use *use = &g_array_index(found, struct zero3_use, i);
        if (i == 0 || use[-1].tensor != use->tensor)
            g_array_append_vals(zero3->uses, use, 1);
    }
}

static bool uses_parameters(const struct trace *trace, const struct trace_operator *op)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (is_use(&trace->accesses[op->first_access + i]))
            return true;
    return false;
}

/* What came before an operator. */
struct zero3_before {
    uint8_t phase;
    const char *module;
    const char *user; /* the last module that used parameters */
    bool again;       /* it was computed again within backward */
};

/* Adds the visits that begin with an operator. One that goes on with a module behind a module
 * within it begins none, unless it uses parameters. A module at which a recomputation stopped early
 * has no operator there, but was visited. */
static void add_operator(struct zero3 *zero3, const struct trace_operator *op,
                         struct zero3_before *before)
{
    const char *module = module_of(op), *earlier = op->phase == before->phase ? before->module : "";
    bool used = uses_parameters(zero3->trace, op);
    bool again = g_str_has_prefix(op->name, "recompute");
    bool stopped = before->again && !again && used && strcmp(module, before->user) != 0;
    if (used || (strcmp(module, earlier) != 0 && !is_within(earlier, module)))
        for (uint32_t count = entered(earlier, module) + stopped; count > 0; count--) {
            begin_visit(zero3);
            if (count == 1 || (stopped && count == 2))
                add_uses(zero3, op);
        }
    before->again = again || (before->again && !used);
    before->user = used ? module : before->user;
    before->module = module;
    before->phase = op->phase;
}

static void link_uses(struct zero3 *zero3)
{
    g_autofree uint32_t *next = g_new(uint32_t, zero3->trace->tensor_count);
    for (guint p = zero3->passes->len - 1; p-- > 0;) {
        uint32_t begin = g_array_index(zero3->passes, uint32_t, p);
        uint32_t end = g_array_index(zero3->passes, uint32_t, p + 1);
        uint32_t first = g_array_index(zero3->visits, uint32_t, begin);
        memset(next, 0xff, zero3->trace->tensor_count * sizeof *next);
        for (uint32_t u = g_array_index(zero3->visits, uint32_t, end); u-- > first;) {
            struct zero3_use *use = &g_array_index(zero3->uses, struct zero3_use, u);
            use->next = next[use->tensor];
            next[use->tensor] = use->visit;
        }
    }
}

static void sum_elements(struct zero3 *zero3)
{
    uint64_t sum = 0;
    for (uint32_t v = 0, u = 0; v < zero3->visits->len; v++) {
        for (; u < g_array_index(zero3->visits, uint32_t, v); u++)
            sum += zero3->trace->tensors[g_array_index(zero3->uses, struct zero3_use, u).tensor]
                       .elements;
        g_array_append_val(zero3->before, sum);
    }
}

struct zero3 *zero3_new(const struct trace *trace)
{
    struct zero3 *zero3 = g_new0(struct zero3, 1);
    zero3->trace = trace;
    zero3->uses = g_array_new(FALSE, FALSE, sizeof(struct zero3_use));
    zero3->visits = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    zero3->passes = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    zero3->before = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct zero3_before before = {TRACE_UPDATE_PHASE, "", "", false};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE)
            continue;
        if (op->phase == TRACE_FORWARD && before.phase != TRACE_FORWARD)
            g_array_append_val(zero3->passes, zero3->visits->len);
        add_operator(zero3, op, &before);
    }
    g_array_append_val(zero3->passes, zero3->visits->len);
    begin_visit(zero3);
    link_uses(zero3);
    sum_elements(zero3);
    return zero3;
}

void zero3_free(struct zero3 *zero3)
{
    if (!zero3)
        return;
    g_array_unref(zero3->uses);
    g_array_unref(zero3->visits);
    g_array_unref(zero3->passes);
    g_array_unref(zero3->before);
    g_free(zero3);
}

/* ---- a step ---- */

struct zero3_walk {
    const struct zero3 *zero3;
    const struct zero3_settings *settings;
    uint8_t *stays;    /* [tensor_count] persistent */
    uint8_t *there;    /* [tensor_count] on the device */
    int64_t *until;    /* [tensor_count] the last visit for which it was asked for */
    uint32_t queue;    /* the next use that may be prefetched */
    int64_t available; /* elements, as DeepSpeed counts them: persistent ones are left out */
    uint64_t live;     /* elements on the device */
    struct zero3_counts counts;
};

static const struct zero3_use *use_at(const struct zero3_walk *walk, uint32_t use)
{
    return &g_array_index(walk->zero3->uses, struct zero3_use, use);
}

static uint64_t elements_of(const struct zero3_walk *walk, tensor_id tensor)
{
    return walk->zero3->trace->tensors[tensor].elements;
}

static void gather(struct zero3_walk *walk, tensor_id tensor)
{
    uint64_t elements = elements_of(walk, tensor);
    walk->there[tensor] = 1;
    walk->available += (int64_t)elements;
    walk->counts.gathered += elements;
    walk->live += elements;
    walk->counts.live = MAX(walk->counts.live, walk->live);
}

static void release(struct zero3_walk *walk, tensor_id tensor)
{
    if (!walk->there[tensor])
        return;
    walk->there[tensor] = 0;
    walk->available -= (int64_t)elements_of(walk, tensor);
    walk->live -= elements_of(walk, tensor);
}

/* Takes what the visit needs out of the queue, unless a prefetch has taken it. */
static void take_from_queue(struct zero3_walk *walk, uint32_t visit, uint32_t begin, uint32_t end,
                            uint32_t last)
{
    uint32_t count = 0;
    for (uint32_t u = begin; u < end; u++)
        count += walk->until[use_at(walk, u)->tensor] < (int64_t)visit;
    for (; count > 0 && walk->queue < last; count--, walk->queue++)
        walk->until[use_at(walk, walk->queue)->tensor] = use_at(walk, walk->queue)->visit;
}

static void prefetch(struct zero3_walk *walk, uint32_t last)
{
    int64_t room = (int64_t)walk->settings->max_live - walk->available;
    int64_t most = MIN(room, (int64_t)walk->settings->prefetch), coming = 0;
    while (walk->queue < last && coming < most) {
        const struct zero3_use *use = use_at(walk, walk->queue++);
        walk->until[use->tensor] = MAX(walk->until[use->tensor], (int64_t)use->visit);
        if (walk->there[use->tensor])
            continue;
        coming += (int64_t)elements_of(walk, use->tensor);
        gather(walk, use->tensor);
    }
}

/* A parameter stays behind a visit if it always does, if the prefetch has counted on it for a later
 * visit, or if its next use is near. */
static void release_visit(struct zero3_walk *walk, uint32_t visit, uint32_t begin, uint32_t end)
{
    const uint64_t *before = (const uint64_t *)(const void *)walk->zero3->before->data;
    for (uint32_t u = begin; u < end; u++) {
        const struct zero3_use *use = use_at(walk, u);
        bool near = use->next != NO_INDEX &&
                    before[use->next] - before[visit + 1] < walk->settings->reuse_distance;
        if (!walk->stays[use->tensor] && walk->until[use->tensor] <= (int64_t)visit + 1 && !near)
            release(walk, use->tensor);
    }
}

static void walk_pass(struct zero3_walk *walk, uint32_t first, uint32_t after)
{
    const uint32_t *begins = (const uint32_t *)(const void *)walk->zero3->visits->data;
    for (uint32_t t = 0; t < walk->zero3->trace->tensor_count; t++)
        walk->until[t] = INT64_MIN;
    walk->queue = begins[first];
    walk->available = 0;
    for (uint32_t v = first; v < after; v++) {
        for (uint32_t u = begins[v]; u < begins[v + 1]; u++)
            if (!walk->there[use_at(walk, u)->tensor])
                gather(walk, use_at(walk, u)->tensor);
        take_from_queue(walk, v, begins[v], begins[v + 1], begins[after]);
        prefetch(walk, begins[after]);
        release_visit(walk, v, begins[v], begins[v + 1]);
    }
}

/* The parameters that stay are chosen in the model's order. They come anew behind each update. */
static void choose_what_stays(struct zero3_walk *walk)
{
    uint64_t total = 0;
    for (uint32_t t = 0; t < walk->zero3->trace->tensor_count; t++) {
        uint64_t elements = elements_of(walk, t);
        walk->stays[t] = elements <= walk->settings->stay_each &&
                         total + elements <= walk->settings->stay_all;
        if (!walk->stays[t])
            continue;
        total += elements;
        gather(walk, t);
    }
}

struct zero3_counts zero3_count(const struct zero3 *zero3, const struct zero3_settings *settings)
{
    uint32_t tensors = zero3->trace->tensor_count;
    g_autofree uint8_t *stays = g_new0(uint8_t, tensors), *there = g_new0(uint8_t, tensors);
    g_autofree int64_t *until = g_new(int64_t, tensors);
    struct zero3_walk walk = {
        .zero3 = zero3, .settings = settings, .stays = stays, .there = there, .until = until};
    choose_what_stays(&walk);
    for (guint p = 0; p + 1 < zero3->passes->len; p++)
        walk_pass(&walk, g_array_index(zero3->passes, uint32_t, p),
                  g_array_index(zero3->passes, uint32_t, p + 1));
    return walk.counts;
}

/* ---- settings for given counts ---- */

enum { STEPS = 16 }; /* of each setting that is searched */

struct zero3_fit {
    const struct zero3 *zero3;
    const struct zero3_counts *wanted;
    struct zero3_settings best;
    uint64_t beyond; /* elements on the device that are not wanted */
    double distance;
};

/* Returns the relative differences. */
static double distance_of(const struct zero3_counts *counts, const struct zero3_counts *wanted)
{
    double live = (double)counts->live / (double)MAX(1, wanted->live) - 1;
    double gathered = (double)counts->gathered / (double)MAX(1, wanted->gathered) - 1;
    return fabs(gathered) + fabs(live);
}

/* More on the device than wanted is worse than any distance. */
static bool is_better(const struct zero3_fit *fit, uint64_t beyond, double distance)
{
    return beyond != fit->beyond ? beyond < fit->beyond : distance < fit->distance;
}

static void try(struct zero3_fit *fit, const struct zero3_settings *settings)
{
    const struct zero3_counts counts = zero3_count(fit->zero3, settings);
    double distance = distance_of(&counts, fit->wanted);
    uint64_t beyond = counts.live > fit->wanted->live ? counts.live - fit->wanted->live : 0;
    if (is_better(fit, beyond, distance)) {
        fit->beyond = beyond;
        fit->distance = distance;
        fit->best = *settings;
    }
}

/* Tries how far to prefetch, within the room that the parameters which stay leave. */
static void try_prefetch(struct zero3_fit *fit, struct zero3_settings settings, uint64_t most)
{
    settings.prefetch = 0;
    settings.max_live = fit->wanted->live;
    try(fit, &settings);
    settings.prefetch = most;
    for (uint64_t i = 1; most && i <= STEPS; i++) {
        settings.max_live = fit->wanted->live * i / STEPS;
        try(fit, &settings);
    }
}

struct zero3_settings zero3_fit(const struct zero3 *zero3, const struct zero3_counts *wanted,
                                uint64_t prefetch)
{
    struct zero3_fit fit = {
        .zero3 = zero3, .wanted = wanted, .beyond = UINT64_MAX, .distance = INFINITY};
    uint64_t all = 0;
    for (uint32_t t = 0; t < zero3->trace->tensor_count; t++)
        all += zero3->trace->tensors[t].elements;
    for (uint64_t i = 0; i <= STEPS; i++) {
        struct zero3_settings settings = {.stay_each = i ? all : 0,
                                          .stay_all = wanted->live * i / STEPS};
        for (uint64_t r = 0; r <= STEPS / 2; r++) {
            settings.reuse_distance = all * r / (STEPS / 2);
            try_prefetch(&fit, settings, prefetch);
        }
    }
    return fit.best;
}
