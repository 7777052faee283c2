#include "strategies/preset.h"

#include "base/size.h"
#include "chunks/lack.h"
#include "chunks/place.h"
#include "models/derive.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK(pstar_strategy_error, strategy_error)

const struct strategy_ops *const strategy_all[] = {
    &strategy_resident,     &strategy_patrickstar,  &strategy_gemini_static,
    &strategy_gemini_auto,  &strategy_zero_offload, &strategy_zero3_offload,
    &strategy_twinflow,     &strategy_superoffload, &strategy_interleave,
    &strategy_fsdp_offload, &strategy_megatrain,    NULL,
};

const struct strategy_ops *const strategy_several[] = {
    &strategy_ddp,   &strategy_zero1,           &strategy_zero2,
    &strategy_zero3, &strategy_fsdp_no_reshard, NULL,
};

const struct strategy_ops *const strategy_tiered[] = {&strategy_zero_infinity, NULL};

/* ---- names ---- */

static void free_strategy(gpointer data)
{
    struct strategy *strategy = data;
    g_free(strategy->name);
    g_free(strategy);
}

static void add(GPtrArray *list, const struct strategy_ops *ops, double value, const char *name)
{
    struct strategy *strategy = g_new(struct strategy, 1);
    *strategy = (struct strategy){ops, value, g_strdup(name)};
    g_ptr_array_add(list, strategy);
}

static const struct strategy_ops *find_in(const struct strategy_ops *const *all, const char *name,
                                          size_t length)
{
    for (; *all; all++)
        if (strlen((*all)->name) == length && strncmp(name, (*all)->name, length) == 0)
            return *all;
    return NULL;
}

static const struct strategy_ops *find(const char *name, size_t length)
{
    const struct strategy_ops *found = find_in(strategy_all, name, length);
    found = found ? found : find_in(strategy_tiered, name, length);
    return found ? found : find_in(strategy_several, name, length);
}

static void append_names(GString *names, const struct strategy_ops *const *strategies)
{
    for (; *strategies; strategies++)
        g_string_append_printf(names, "%s, ", (*strategies)->name);
}

static bool refuse_name(const char *text, const struct strategy_ops *ops, GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);
    append_names(names, strategy_all);
    append_names(names, strategy_tiered);
    append_names(names, strategy_several);
    if (!ops)
        g_set_error(error, STRATEGY_ERROR, STRATEGY_ERROR_INVALID,
                    "there is no strategy '%s'; choose one of %sor all", text, names->str);
    else if (!ops->parameter)
        g_set_error(error, STRATEGY_ERROR, STRATEGY_ERROR_INVALID,
                    "strategy '%s': %s takes no parameter", text, ops->name);
    else
        g_set_error(error, STRATEGY_ERROR, STRATEGY_ERROR_INVALID,
                    "strategy '%s': %s must be %s in [%.10g, %.10g]", text, ops->parameter,
                    ops->whole ? "an integer" : "a number", ops->least, ops->most);
    return false;
}

static bool parse_one(GPtrArray *list, const char *text, GError **error)
{
    const char *colon = strchr(text, ':');
    const struct strategy_ops *ops = find(text, colon ? (size_t)(colon - text) : strlen(text));
    double value = ops ? ops->usual : 0;
    char *end = NULL;
    if (!ops || (colon && !ops->parameter))
        return refuse_name(text, ops, error);
    if (colon) {
        value = g_ascii_strtod(colon + 1, &end);
        if (end == colon + 1 || *end || !(value >= ops->least && value <= ops->most) ||
            (ops->whole && value != floor(value)))
            return refuse_name(text, ops, error);
    }
    add(list, ops, value, text);
    return true;
}

GPtrArray *strategy_parse_list(const char *text, GError **error)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(free_strategy);
    g_auto(GStrv) names = g_strsplit(text, ",", -1);
    bool ok = *names || refuse_name(text, NULL, error);
    for (char **name = names; ok && *name; name++) {
        if (!g_str_equal(*name, "all"))
            ok = parse_one(list, *name, error);
        for (int i = 0; g_str_equal(*name, "all") && strategy_all[i]; i++)
            add(list, strategy_all[i], strategy_all[i]->usual, strategy_all[i]->name);
    }
    if (!ok)
        g_clear_pointer(&list, g_ptr_array_unref);
    return list;
}

static bool has_strategy(const GPtrArray *list, const struct strategy_ops *ops)
{
    for (guint i = 0; i < list->len; i++)
        if (((const struct strategy *)g_ptr_array_index(list, i))->ops == ops)
            return true;
    return false;
}

static void add_missing(GPtrArray *list, const struct strategy_ops *const *more)
{
    for (; *more; more++)
        if (!has_strategy(list, *more))
            add(list, *more, (*more)->usual, (*more)->name);
}

void strategy_add_several(GPtrArray *list)
{
    add_missing(list, strategy_several);
}

void strategy_add_tiered(GPtrArray *list)
{
    add_missing(list, strategy_tiered);
}

/* ---- plans ---- */

void strategy_refuse(const struct strategy_context *context, moment_id moment, uint64_t needed,
                     GError **error)
{
    uint64_t in_all = needed + context->beside;
    plan_lacks_memory(error, context->trace, moment, in_all, "", context->given_budget);
}

static struct trace *place_updates(const struct strategy *strategy, const struct strategy_job *job,
                                   struct strategy_context *context, GError **error)
{
    g_autofree uint8_t *on_host = g_new0(uint8_t, job->trace->tensor_count);
    if (!job->trace->list_element_bytes[TRACE_PARAM]) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "the trace has no parameters to place: no list 'param'");
        return NULL;
    }
    if (strategy->ops->place)
        strategy->ops->place(context, on_host);
    bool early = strategy->ops->begins_early && job->unclipped;
    g_autofree tensor_id *after = early ? updates_in_backward(context, on_host) : NULL;
    return model_place_updates_after(job->trace, on_host, after, job->platform, error);
}

static bool has_early_updates(const struct trace *trace)
{
    struct run_choices *choices = run_choices_of(trace);
    bool early = run_updates_early(choices);
    run_choices_free(choices);
    return early;
}

struct non_model *strategy_non_model(const struct strategy_job *job, const struct trace *placed)
{
    bool moved = has_early_updates(placed) || has_early_updates(job->trace);
    return moved ? non_model_place(placed) : NULL;
}

static uint8_t *find_host_used(const struct accesses *accesses)
{
    uint8_t *used = g_new0(uint8_t, accesses->chunk_count);
    for (uint32_t a = 0; a < accesses->count; a++)
        if (accesses->items[a].flags & ACCESS_ON_HOST)
            used[accesses->items[a].chunk] = 1;
    return used;
}

static uint8_t *find_outside(const struct trace *trace, const struct accesses *accesses)
{
    uint8_t *outside = g_new0(uint8_t, accesses->chunk_count);
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->layer >= 0 || op->phase == TRACE_UPDATE_PHASE)
            continue;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            outside[accesses->items[a].chunk] = 1;
    }
    return outside;
}

/* Activations that may leave do so after their layer's forward, and come back for its backward, as
 * offloaded checkpoints do in systems that put the optimizer on the host. */
static const struct script_rule activations_rule = {.retained = false};

static struct decisions *decide_by_rules(const struct strategy_context *context,
                                         const struct strategy_ops *ops, uint32_t look_ahead,
                                         struct homes **homes, uint64_t *needed, GError **error)
{
    uint32_t chunks = context->layout->chunk_count;
    g_autofree struct script_rule *rules = g_new(struct script_rule, chunks);
    const struct script script = {.rules = rules,
                                  .look_ahead = look_ahead,
                                  .fetch_from = ops->fetch_from,
                                  .return_from = ops->return_from};
    for (uint32_t c = 0; c < chunks; c++) {
        rules[c] = ops->rule(context, c);
        if (context->layout->chunks[c].list == TRACE_GATHERED)
            rules[c] = (struct script_rule){.retained = ops->keeps_gathered};
        if (ops->place && context->layout->chunks[c].list == TRACE_ACTIVATION)
            rules[c] = activations_rule;
    }
    return script_decide(context, &script, homes, needed, error);
}

/* The next iteration waits until all of the optimizer's step is over. */
static void end_step(struct decisions *decisions)
{
    const struct plan_action wait = {.kind = PLAN_WAIT, .address = NO_ADDRESS};
    GArray *actions = decisions->actions;
    uint32_t begin = decisions->first[decisions->moment_count];
    if (actions->len > begin &&
        g_array_index(actions, struct plan_action, actions->len - 1).kind == PLAN_WAIT)
        return;
    g_array_append_val(actions, wait);
    decisions->first[decisions->moment_count + 1] = actions->len;
}

static bool check_host(const struct strategy_context *context, const struct homes *homes,
                       GError **error)
{
    if (homes->host_pool_bytes <= context->host_budget)
        return true;
    g_autofree char *need = size_format(homes->host_pool_bytes);
    g_autofree char *budget = size_format(context->host_budget);
    g_autofree char *why = g_strdup_printf("host memory: the plan needs %s, and the budget is %s",
                                           need, budget);
    const struct plan_lack lack = {.memory = PLAN_MEMORY_HOST, .bytes = homes->host_pool_bytes};
    plan_lack_set(error, &lack, why);
    return false;
}

static bool check_nvme(const struct strategy *strategy, const struct strategy_job *job,
                       GError **error)
{
    if (!strategy->ops->in_nvme || job->nvme)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "NVMe: %s keeps all optimizer states there; --nvme-memory says how much of it "
                "there is",
                strategy->name);
    return false;
}

/* Gives states homes in NVMe, if there is any. Frees the plan and returns NULL if that does not
 * make it fit. */
static struct plan *give_homes(const struct strategy_context *context,
                               const struct strategy *strategy, struct plan *plan, GError **error)
{
    if (!context->nvme)
        return plan;
    struct nvme_budget budget = *context->nvme;
    budget.buffers = strategy->ops->in_nvme ? (uint32_t)context->value : 0;
    if (!nvme_homes_give(plan, context->trace, context->accesses, &budget, error))
        g_clear_pointer(&plan, plan_free);
    return plan;
}

static bool is_worth(const struct strategy_contest *contest, const struct strategy_context *context,
                     const struct decisions *decisions)
{
    return !contest ||
           contest->is_worth(contest->data, context->trace, context->accesses, decisions);
}

static struct plan *make_plan(const struct strategy_context *context,
                              const struct strategy *strategy,
                              const struct strategy_contest *contest, uint64_t *needed,
                              GError **error)
{
    const struct strategy_ops *ops = strategy->ops;
    uint32_t look_ahead = ops->look_ahead ? ops->look_ahead(context) : 0;
    struct homes *homes = NULL;
    struct plan *plan = NULL;
    struct decisions *decisions = ops->rule ? decide_by_rules(context, ops, look_ahead, &homes,
                                                              needed, error)
                                            : ops->decide(context, &homes, needed, error);
    if (decisions && ops->place)
        end_step(decisions);
    if (decisions && check_host(context, homes, error) && is_worth(contest, context, decisions)) {
        const struct plan_inputs inputs = {.trace = context->trace,
                                           .layout = context->layout,
                                           .accesses = context->accesses,
                                           .homes = homes,
                                           .device_budget = context->device_budget,
                                           .host_budget = context->host_budget};
        plan = plan_make(&inputs, place_decisions(decisions, &inputs, PLACE_WELL));
        plan->made_by = g_strdup(strategy->name);
        plan->look_ahead = look_ahead;
        plan = give_homes(context, strategy, plan, error);
    }
    decisions_free(decisions);
    homes_free(homes);
    return plan;
}

/* Does what strategy_plan does, but *needed is the need of decisions for this budget. Messages name
 * `given_budget`. */
static struct plan *plan_once(const struct strategy *strategy, const struct strategy_job *job,
                              uint64_t given_budget, struct trace **placed, uint64_t *needed,
                              GError **error)
{
    struct strategy_context context = {.trace = job->trace,
                                       .layout = job->layout,
                                       .non_model = job->non_model,
                                       .device_budget = job->device_budget,
                                       .given_budget = given_budget,
                                       .host_budget = job->nvme ? UINT64_MAX : job->host_budget,
                                       .nvme = job->nvme,
                                       .value = strategy->value};
    *needed = 0;
    *placed = NULL;
    if (!check_nvme(strategy, job, error) ||
        !(*placed = place_updates(strategy, job, &context, error)))
        return NULL;
    struct non_model *own = strategy_non_model(job, *placed);
    if (own)
        context.non_model = own->extent;
    const char *digest = job->contest ? job->contest->digest : NULL;
    struct accesses *accesses = accesses_new_digested(*placed, digest, job->layout,
                                                      context.non_model);
    g_autofree uint8_t *host_used = find_host_used(accesses);
    g_autofree uint8_t *outside = find_outside(*placed, accesses);
    context.trace = *placed;
    context.accesses = accesses;
    context.host_used = host_used;
    context.outside = outside;
    context.beside = strategy->ops->beside ? strategy->ops->beside(&context) : 0;
    context.device_budget -= MIN(context.beside, context.device_budget);
    struct plan *plan = make_plan(&context, strategy, job->contest, needed, error);
    *needed += *needed ? context.beside : 0;
    accesses_free(accesses);
    non_model_free(own);
    if (!plan)
        g_clear_pointer(placed, trace_free);
    return plan;
}

static bool lacks_host(const GError *error)
{
    const struct plan_lack *lack = plan_lack_of(error);
    return lack && lack->memory == PLAN_MEMORY_HOST;
}

/* Raises the budgets to what a refusal says would fit. Returns false if it says nothing new. */
static bool raise_budgets(struct strategy_job *job, uint64_t needed, const GError *refusal)
{
    uint64_t library_bytes = job->trace->library_bytes;
    const struct plan_lack *lack = plan_lack_of(refusal);
    if (needed > job->device_budget) {
        job->device_budget = needed;
        return true;
    }
    if (!lacks_host(refusal) || job->nvme || lack->bytes <= job->host_budget)
        return false;
    job->host_budget = lack->bytes;
    if (lack->device_bytes > library_bytes)
        job->device_budget = MAX(job->device_budget, lack->device_bytes - library_bytes);
    return true;
}

/* Returns whether it fits with larger budgets, and which. With more memory a strategy may keep
 * more, and need more. *refusal becomes the newest, or the first of the host's memory. */
static bool find_budgets(const struct strategy *strategy, const struct strategy_job *job,
                         struct strategy_job *larger, uint64_t *needed, GError **refusal)
{
    enum { MOST_TRIES = 32 };
    g_autoptr(GError) why = g_error_copy(*refusal);
    for (int i = 0; i < MOST_TRIES && raise_budgets(larger, *needed, why); i++) {
        struct trace *placed;
        g_clear_error(&why);
        struct plan *plan = plan_once(strategy, larger, job->device_budget, &placed, needed, &why);
        if (plan) {
            trace_free(placed);
            plan_free(plan);
            *needed = larger->device_budget;
            return true;
        }
        if (!lacks_host(*refusal)) {
            g_clear_error(refusal);
            *refusal = g_error_copy(why);
        }
    }
    return false;
}

struct plan *strategy_plan(const struct strategy *strategy, const struct strategy_job *job,
                           struct trace **placed, uint64_t *needed, GError **error)
{
    struct strategy_job larger = *job;
    GError *refusal = NULL;
    struct plan *plan = plan_once(strategy, job, job->device_budget, placed, needed, &refusal);
    if (plan)
        return plan;
    bool fits = refusal && !job->contest && find_budgets(strategy, job, &larger, needed, &refusal);
    if (fits && lacks_host(refusal)) {
        bool more = larger.device_budget > job->device_budget;
        const struct plan_lack lack = {
            .memory = PLAN_MEMORY_HOST,
            .bytes = larger.host_budget,
            .device_bytes = more ? larger.device_budget + job->trace->library_bytes : 0};
        plan_lack_replace(refusal, &lack);
        fits = false;
    }
    *needed = fits ? *needed : 0;
    if (refusal)
        g_propagate_error(error, refusal);
    return NULL;
}
