#include "base/output_file.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "base/size.h"
#include "planner/answers/explain.h"

#include <math.h>
#include <string.h>

/* Something that was tried beside the plan, and is no better. */
struct rival {
    char *what;                  /* "interleave, chunks of 4 MiB" */
    struct plan_figures figures; /* iteration_seconds is 0 if no plan was found */
    double bound;                /* seconds that no plan of it beats; 0 if not known */
    char *why;                   /* it lost */
};

static void rival_clear(void *data)
{
    struct rival *rival = data;
    g_free(rival->what);
    g_free(rival->why);
}

/* ---- why ---- */

#define NANOSECOND 0.99e-9 /* times are whole nanoseconds; differences of doubles are not */

/* Appends how much more a time is, unless it is less than `least`. */
static void append_seconds(GString *text, const char *what, double more, double least)
{
    if (more >= least)
        g_string_append_printf(text, "%s%s %.4g s longer", text->len ? ", " : "", what, more);
}

static void append_bytes(GString *text, uint64_t bytes, uint64_t than)
{
    g_autofree char *more = size_format(bytes > than ? bytes - than : than - bytes);
    if (bytes != than)
        g_string_append_printf(text, "%smoves %s %s", text->len ? ", " : "", more,
                               bytes > than ? "more" : "less");
}

/* Returns what a plan does worse. Times that are about the same are named if nothing else is
 * longer, because they may be why it lost. */
static char *why_worse(const struct plan_figures *rival, const struct plan_figures *plan)
{
    GString *text = g_string_new(NULL);
    double step = plan->iteration_seconds, more = rival->iteration_seconds - step;
    append_seconds(text, "stalls", rival->stall_seconds - plan->stall_seconds, 0.001 * step);
    append_seconds(text, "computes", more - (rival->stall_seconds - plan->stall_seconds),
                   0.001 * step);
    if (!text->len)
        append_seconds(text, "takes", more, NANOSECOND);
    append_bytes(text, figures_traffic(rival), figures_traffic(plan));
    if (!text->len)
        g_string_append(text, "as good as the plan");
    return g_string_free(text, FALSE);
}

static char *why_alternative(const struct certificate_alternative *a,
                             const struct plan_figures *plan)
{
    double bound = (double)a->bound * 1e-9, found = (double)a->achieved * 1e-9;
    if (a->achieved) {
        GString *text = g_string_new(NULL);
        append_seconds(text, "takes", found - plan->iteration_seconds, NANOSECOND);
        append_bytes(text, a->achieved_traffic, figures_traffic(plan));
        return g_string_free(text, FALSE);
    }
    return a->outcome == CERTIFICATE_DOES_NOT_FIT ? g_strdup("does not fit")
           : a->outcome == CERTIFICATE_BOUNDED
               ? g_strdup_printf("cannot take less than %.4g s, which is proved", bound)
               : g_strdup("no plan was found that fits");
}

/* ---- the list ---- */

static void add(GArray *rivals, struct rival rival)
{
    g_array_append_val(rivals, rival);
}

static void add_plan(GArray *rivals, const struct search_baseline *baseline,
                     const struct plan_figures *plan)
{
    if (!baseline->name || objective_compare(OBJECTIVE_TIME, &baseline->figures, plan) == 0)
        return; /* not tried, or the plan itself */
    g_autofree char *sizes = chunk_spread_format(&baseline->chunks);
    add(rivals, (struct rival){.what = g_strdup_printf("%s, chunks of %s", baseline->name,
                                                       sizes ? sizes : "any size"),
                               .figures = baseline->figures,
                               .why = why_worse(&baseline->figures, plan)});
}

static void add_alternative(GArray *rivals, const struct certificate_alternative *a,
                            const struct plan_figures *plan)
{
    const struct run_choices *c = a->choices;
    g_autofree char *recompute = run_layers_format(c->recompute, c->layer_count);
    g_autofree char *offload = run_layers_format(c->offload, c->layer_count);
    /* only the sum of the traffic is known: it stands for one direction */
    add(rivals,
        (struct rival){.what = g_strdup_printf(
                           "recompute %s, offload %s, embedding on the %s%s%s, "
                           "%u x %u",
                           recompute, offload, c->host_embedding ? "host" : "device",
                           c->second_backward ? ", two backwards" : "",
                           c->state_block ? ", state blocks" : "", c->micro_batches, c->batch),
                       .figures = {.h2d_bytes = a->achieved_traffic,
                                   .iteration_seconds = (double)a->achieved * 1e-9},
                       .bound = (double)a->bound * 1e-9,
                       .why = why_alternative(a, plan)});
}

/* Rivals without a plan come last. */
static int by_rank(const void *left, const void *right, void *data)
{
    const struct rival *a = left, *b = right;
    const enum objective *objective = data;
    bool x = a->figures.iteration_seconds > 0, y = b->figures.iteration_seconds > 0;
    return x != y ? y - x : objective_compare(*objective, &a->figures, &b->figures);
}

/* Removes those that a reader cannot tell from the one before. */
static void remove_repeated(GArray *rivals)
{
    for (guint i = rivals->len; i-- > 1;) {
        const struct rival *rival = &g_array_index(rivals, struct rival, i);
        const struct rival *before = &g_array_index(rivals, struct rival, i - 1);
        if (strcmp(rival->what, before->what) == 0 && strcmp(rival->why, before->why) == 0)
            g_array_remove_index(rivals, i);
    }
}

/* Returns everything that was tried and is no better, best first. */
static GArray *rivals_of(const struct search_result *result, enum objective objective)
{
    GArray *rivals = g_array_new(FALSE, FALSE, sizeof(struct rival));
    const struct plan_figures *plan = &result->plan->predicted;
    const struct certificate *certificate = result->plan->certificate;
    g_array_set_clear_func(rivals, rival_clear);
    add_plan(rivals, &result->policy, plan);
    add_plan(rivals, &result->strategy, plan);
    for (int i = 0; i < SEARCH_LAYOUTS; i++)
        add_plan(rivals, &result->layouts[i], plan);
    for (uint32_t i = 0; certificate && i < certificate->alternative_count; i++)
        add_alternative(rivals, &certificate->alternatives[i], plan);
    if (objective == OBJECTIVE_MEMORY) /* all have the plan's budget */
        objective = OBJECTIVE_TIME;
    g_array_sort_with_data(rivals, by_rank, &objective);
    remove_repeated(rivals);
    return rivals;
}

/* ---- output ---- */

void explain_rivals(const struct search_result *result, enum objective objective, uint32_t top,
                    FILE *out)
{
    g_autoptr(GArray) rivals = rivals_of(result, objective);
    fprintf(out, "Runners-up%s\n  %10s %11s  %-66s %s\n", rivals->len ? "" : ": none", "step s",
            "traffic", "", "why it lost");
    for (guint i = 0; i < rivals->len && i < top; i++) {
        const struct rival *rival = &g_array_index(rivals, struct rival, i);
        bool found = rival->figures.iteration_seconds > 0;
        g_autofree char *traffic = found ? size_format(figures_traffic(&rival->figures))
                                         : g_strdup("-");
        g_autofree char *seconds = found ? seconds_format(rival->figures.iteration_seconds)
                                         : g_strdup("-");
        text_print_line(out, "  %10s %11s  %-66s %s", seconds, traffic, rival->what, rival->why);
    }
    if (rivals->len > top)
        fprintf(out, "  %u more; --top all shows them\n", rivals->len - top);
}

static json_t *rival_json(const struct rival *rival)
{
    bool found = rival->figures.iteration_seconds > 0;
    json_t *object = json_pack("{s:s, s:s}", "what", rival->what, "why", rival->why);
    if (found) {
        json_object_set_new(object, "iteration_seconds",
                            json_real(rival->figures.iteration_seconds));
        json_object_set_new(object, "traffic_bytes",
                            json_integer((json_int_t)figures_traffic(&rival->figures)));
    }
    if (rival->bound > 0)
        json_object_set_new(object, "lower_bound_seconds", json_real(rival->bound));
    return object;
}

static json_t *bounds_json(const struct certificate *certificate)
{
    return json_pack(
        "{s:I, s:f, s:f, s:f}", "traffic_bytes", (json_int_t)certificate->traffic.bound,
        "iteration_seconds", (double)certificate->time.bound * 1e-9, "traffic_gap",
        certificate_gap(certificate->traffic.achieved, certificate->traffic.bound), "time_gap",
        certificate_gap(certificate->time.achieved, certificate->time.bound));
}

/* A gap of infinity is no JSON: it becomes null. */
static void drop_infinities(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe (object, next, key, value)
        if (json_is_real(value) && !isfinite(json_real_value(value)))
            json_object_set_new(object, key, json_null());
}

bool explain_write_json(const struct search_result *result, enum objective objective,
                        const char *plan_path, const char *path, GError **error)
{
    g_autoptr(GArray) rivals = rivals_of(result, objective);
    const struct plan *plan = result->plan;
    g_autofree char *choices = plan->choices ? run_choices_describe(plan->choices) : g_strdup("");
    json_t *list = json_array();
    for (guint i = 0; i < rivals->len; i++)
        json_array_append_new(list, rival_json(&g_array_index(rivals, struct rival, i)));
    json_t *root =
        json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:b, s:b, s:o, s:o}", "plan",
                  text_to_json(plan_path), "objective", objective_name(objective), "made_by",
                  plan->made_by, "choices", choices, "device_bytes", (json_int_t)plan->arena_bytes,
                  "host_bytes", (json_int_t)plan->host_pool_bytes, "layouts_tried",
                  (int)result->layouts_tried, "plans_tried", (int)result->plans_tried, "stopped",
                  (int)result->stopped, "proof_stopped", (int)result->proof_stopped, "predicted",
                  figures_to_json(&plan->predicted), "runners_up", list);
    if (plan->certificate) {
        json_t *bounds = bounds_json(plan->certificate);
        drop_infinities(bounds);
        json_object_set_new(root, "lower_bounds", bounds);
    }
    bool ok = output_file_write_json(path, root, JSON_INDENT(1) | JSON_REAL_PRECISION(12), error);
    json_decref(root);
    return ok;
}
