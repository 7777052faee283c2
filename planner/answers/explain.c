#include "planner/answers/explain.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "base/size.h"
#include "base/terminal.h"
#include "models/derivation.h"

enum { EXCERPT_MOMENTS = 8 };

static void print_size(FILE *out, const char *label, uint64_t bytes)
{
    g_autofree char *size = size_format(bytes);
    fprintf(out, "  %-28s %s\n", label, size);
}

static void print_purpose(const struct plan *plan, FILE *out)
{
    text_print_line(out, "Plan for %s, %s, batch %u, sequence %u, %u micro-batch%s a step",
                    plan->model ? plan->model : "an unnamed model",
                    plan->precision ? plan->precision : "unknown precision", plan->batch,
                    plan->sequence, plan->micro_batches, plan->micro_batches == 1 ? "" : "es");
    text_print_line(out, "  %-28s %s%s%s", "made by", plan->made_by,
                    plan->policy ? ", eviction by " : "", plan->policy ? plan->policy : "");
    if (plan->choices && plan->ranks > 1)
        text_print_line(out, "  %-28s %u, stage %u: they share %s%s", "ranks", plan->ranks,
                        plan->choices->stage, run_stage_describe(plan->choices->stage),
                        plan->choices->fast ? ", and sum gradients fast" : "");
    text_print_line(out, "  %-28s %.16s...", "digest of the run", plan->digest);
    print_size(out, "device budget", plan->device_budget);
    print_size(out, "device arena", plan->arena_bytes);
    if (plan->host_budget == UINT64_MAX)
        fprintf(out, "  %-28s %s\n", "host budget", "unlimited");
    else
        print_size(out, "host budget", plan->host_budget);
    print_size(out, "host pool", plan->host_pool_bytes);
    if (plan->nvme_bytes)
        print_size(out, "in NVMe", plan->nvme_bytes);
    if (plan->cut_from_bytes)
        print_size(out, "copied in parts from", plan->cut_from_bytes);
}

/* The sums over the chunks of one list, or of all lists. */
struct list_sums {
    uint32_t chunks, throughout, at_home;
    uint64_t slot_bytes, copy_bytes, throughout_bytes;
    uint64_t h2d_bytes, d2h_bytes;
};

static uint8_t *find_leavers(const struct plan *plan)
{
    uint8_t *leaves = g_new0(uint8_t, plan->layout->chunk_count);
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].kind == PLAN_WRITE_BACK || plan->actions[i].kind == PLAN_DROP)
            leaves[plan->actions[i].chunk] = 1;
    return leaves;
}

static void sum_lists(const struct plan *plan, struct list_sums sums[TRACE_ACCESS_LISTS])
{
    g_autofree uint8_t *leaves = find_leavers(plan);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        const struct chunk *chunk = &plan->layout->chunks[c];
        struct list_sums *sum = &sums[chunk->list];
        bool throughout = plan->initial_address[c] != NO_ADDRESS && !leaves[c];
        sum->chunks++;
        sum->slot_bytes += chunk->slot_bytes;
        sum->copy_bytes += chunk->copy_bytes;
        sum->at_home += plan_is_homed(plan, c) || plan_is_transient(plan, c);
        sum->throughout += throughout;
        sum->throughout_bytes += throughout ? chunk->slot_bytes : 0;
    }
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        const struct chunk *chunk = &plan->layout->chunks[action->chunk];
        if (action->kind == PLAN_FETCH)
            sums[chunk->list].h2d_bytes += chunk->copy_bytes;
        if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH)
            sums[chunk->list].d2h_bytes += chunk->copy_bytes;
    }
}

static void print_lists(const struct plan *plan, FILE *out)
{
    struct list_sums sums[TRACE_ACCESS_LISTS] = {{0}};
    sum_lists(plan, sums);
    fprintf(out, "\n  %-11s %7s %11s %11s %11s %7s %11s %10s %11s %8s %11s %11s\n", "list",
            "chunks", "smallest", "typical", "largest", "filled", "bytes", "throughout", "bytes",
            "at home", "H2D", "D2H");
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        const struct list_sums *s = &sums[list];
        if (!s->chunks)
            continue;
        const struct chunk_spread spread = chunk_spread_of(plan->layout, (uint8_t)list);
        g_autofree char *least = size_format(spread.least), *most = size_format(spread.most);
        g_autofree char *typical = size_format(spread.typical);
        g_autofree char *bytes = size_format(s->slot_bytes);
        g_autofree char *throughout = size_format(s->throughout_bytes);
        g_autofree char *h2d = size_format(s->h2d_bytes), *d2h = size_format(s->d2h_bytes);
        fprintf(out, "  %-11s %7u %11s %11s %11s %6.1f%% %11s %10u %11s %8u %11s %11s\n",
                trace_list_name((enum trace_list)list), s->chunks, least, typical, most,
                100.0 * (double)s->copy_bytes / (double)s->slot_bytes, bytes, s->throughout,
                throughout, s->at_home, h2d, d2h);
    }
    fputs("  typical: half of the bytes lie in chunks of at most this size; throughout: never "
          "leaves the device; at home: needs no host memory\n",
          out);
}

static void print_figures(const struct plan_figures *f, FILE *out)
{
    g_autofree char *h2d = size_format(f->h2d_bytes), *d2h = size_format(f->d2h_bytes);
    g_autofree char *moved = size_format(f->moved_bytes);
    fputs("\nPredicted, an iteration in the steady state\n", out);
    fprintf(out, "  %-28s %s in %" G_GUINT64_FORMAT " copies\n", "host to device", h2d,
            f->h2d_copies);
    fprintf(out, "  %-28s %s in %" G_GUINT64_FORMAT " copies\n", "device to host", d2h,
            f->d2h_copies);
    if (f->sent_bytes || f->received_bytes) {
        g_autofree char *sent = size_format(f->sent_bytes);
        g_autofree char *received = size_format(f->received_bytes);
        fprintf(out, "  %-28s %s, %" G_GUINT64_FORMAT " chunks gathered\n", "sent to other ranks",
                sent, f->gathers);
        fprintf(out, "  %-28s %s\n", "received from them", received);
    }
    if (f->peak_nvme_bytes) {
        print_size(out, "read from NVMe", f->nvme_read_bytes);
        print_size(out, "written to NVMe", f->nvme_write_bytes);
    }
    fprintf(out, "  %-28s %" G_GUINT64_FORMAT "\n", "evictions", f->evictions);
    fprintf(out, "  %-28s %s in %" G_GUINT64_FORMAT " moves\n", "within the device", moved,
            f->moves);
    print_size(out, "peak device memory", f->peak_device_bytes);
    print_size(out, "of it alive at once", f->peak_live_device_bytes);
    print_size(out, "host memory", f->peak_host_bytes);
    if (f->iteration_seconds > 0) {
        g_autofree char *step = seconds_format(f->iteration_seconds);
        g_autofree char *stall = seconds_format(f->stall_seconds);
        fprintf(out, "  %-28s %s s\n", "step", step);
        fprintf(out, "  %-28s %s s (%.1f %%)\n", "of it stalled", stall,
                100 * f->stall_seconds / f->iteration_seconds);
    }
}

static void print_phases(const struct plan *plan, const struct trace *trace, FILE *out)
{
    uint64_t h2d[TRACE_UPDATE_PHASE + 1] = {0}, d2h[TRACE_UPDATE_PHASE + 1] = {0};
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        uint32_t phase = m < plan->moment_count ? trace->operators[m].phase : TRACE_UPDATE_PHASE;
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            uint64_t used = plan->layout->chunks[plan->actions[i].chunk].copy_bytes;
            uint8_t kind = plan->actions[i].kind;
            h2d[phase] += kind == PLAN_FETCH ? used : 0;
            d2h[phase] += kind == PLAN_WRITE_BACK || kind == PLAN_FLUSH ? used : 0;
        }
        if (m < plan->moment_count) {
            h2d[phase] += trace->operators[m].h2d_bytes;
            d2h[phase] += trace->operators[m].d2h_bytes;
        }
    }
    fprintf(out, "\n  %-11s %11s %11s\n", "phase", "H2D", "D2H");
    for (int phase = 0; phase <= TRACE_UPDATE_PHASE; phase++) {
        g_autofree char *up = size_format(h2d[phase]), *down = size_format(d2h[phase]);
        fprintf(out, "  %-11s %11s %11s\n", trace_phase_name((enum trace_phase)phase), up, down);
    }
}

/* Counts moments from each fetch to the first use after it. */
static void print_prefetch(const struct plan *plan, const struct accesses *accesses, FILE *out)
{
    uint32_t n = plan->moment_count, fetches = 0, most = 0;
    g_autofree uint32_t *next = g_new(uint32_t, plan->layout->chunk_count);
    double sum = 0;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        next[c] = accesses->first_device_use[c];
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        next[c] = next[c] == NO_INDEX ? next[c] : next[c] + n;
    for (uint32_t m = n + 1; m-- > 0;) {
        for (uint32_t a = m < n ? accesses->first[m] : accesses->count;
             m < n && a < accesses->first[m + 1]; a++)
            if (!(accesses->items[a].flags & ACCESS_ON_HOST))
                next[accesses->items[a].chunk] = m;
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            uint32_t use = next[plan->actions[i].chunk];
            if (plan->actions[i].kind != PLAN_FETCH || use == NO_INDEX)
                continue;
            fetches++;
            sum += use - m;
            most = MAX(most, use - m);
        }
    }
    fprintf(out, "\n  Fetches are issued %.1f moments before their use on average, %u at most.\n",
            fetches ? sum / fetches : 0.0, most);
}

static void print_action(const struct plan *plan, const struct plan_action *action, FILE *out)
{
    const struct chunk *chunk = &plan->layout->chunks[action->chunk];
    if (action->kind == PLAN_WAIT) {
        fputs("      wait       for all copies and host operators so far\n", out);
        return;
    }
    g_autofree char *size = size_format(chunk->copy_bytes);

    fprintf(out, "      %-10s chunk %u (%s, %s)", plan_action_name(action->kind), action->chunk,
            trace_list_name((enum trace_list)chunk->list), size);
    if (action->address != NO_ADDRESS)
        fprintf(out, " at %" G_GUINT64_FORMAT, action->address);
    fputc('\n', out);
}

/* Prints the first moments of the iteration that have actions. */
static void print_excerpt(const struct plan *plan, const struct trace *trace, FILE *out)
{
    uint32_t shown = 0, m;
    fputs("\nThe schedule begins\n", out);
    for (m = 0; m <= plan->moment_count && shown < EXCERPT_MOMENTS; m++) {
        if (plan->first_action[m] == plan->first_action[m + 1])
            continue;
        const char *name = "the end of the iteration";
        if (m < plan->moment_count)
            name = trace ? trace->operators[m].name : "";
        text_print_line(out, "  before moment %u%s%s", m, *name ? ": " : "", name);
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++)
            print_action(plan, &plan->actions[i], out);
        shown++;
    }
    fprintf(out, "  (%u of %u actions)\n", plan->first_action[m], plan->action_count);
}

static void print_alternative(const struct certificate_alternative *a, FILE *out)
{
    const struct run_choices *c = a->choices;
    g_autofree char *recompute = run_layers_format(c->recompute, c->layer_count);
    g_autofree char *offload = run_layers_format(c->offload, c->layer_count);
    g_autofree char *stage = c->stage || c->fast
                                 ? g_strdup_printf("stage %u%s ", c->stage, c->fast ? " fast" : "")
                                 : g_strdup("");
    g_autofree char *least = seconds_format((double)a->bound * 1e-9);
    fprintf(out, "    %s%-16s %-9s %-6s %-5s %3u x %-3u at least %s s", stage, recompute, offload,
            c->host_embedding ? "host" : "device", c->second_backward ? "twice" : "once",
            c->micro_batches, c->batch, least);
    if (c->state_block)
        fprintf(out, " in blocks of %" G_GUINT64_FORMAT, c->state_block);
    if (a->achieved) {
        g_autofree char *moved = size_format(a->achieved_traffic);
        g_autofree char *found = seconds_format((double)a->achieved * 1e-9);
        fprintf(out, "; found %s s, %s", found, moved);
    } else {
        fputs(a->outcome == CERTIFICATE_DOES_NOT_FIT ? "; does not fit"
              : a->outcome == CERTIFICATE_BOUNDED    ? "; proved no better"
                                                     : "; nothing found",
              out);
    }
    fputc('\n', out);
}

static void print_alternatives(const struct certificate *certificate, FILE *out)
{
    if (certificate->alternative_count)
        fprintf(out,
                "  other variants with any chunks: %srecomputed layers, offloaded layers, the "
                "embedding's place, backward, micro-batches x sequences\n",
                certificate->began.stage || certificate->began.fast ? "stage, " : "");
    for (uint32_t i = 0; i < certificate->alternative_count; i++)
        print_alternative(&certificate->alternatives[i], out);
}

void explain_certificate(const struct certificate *certificate, FILE *out)
{
    const struct certificate_traffic *traffic = &certificate->traffic;
    const struct certificate_time *time = &certificate->time;
    g_autofree char *least = size_format(traffic->bound), *moved = size_format(traffic->achieved);
    fputs("Proved for any schedule of the plan's chunks\n", out);
    fprintf(out, "  traffic: bound %s, plan %s, gap %.2f %%\n", least, moved,
            100 * certificate_gap(traffic->achieved, traffic->bound));
    g_autofree char *bound = seconds_format((double)time->bound * 1e-9);
    g_autofree char *step = seconds_format((double)time->achieved * 1e-9);
    fprintf(out, "  time: bound %s s, plan %s s, gap %.2f %%%s\n", bound, step,
            100 * certificate_gap(time->achieved, time->bound),
            time->either_side ? "; on whichever side each group's optimizer runs" : "");
    print_alternatives(certificate, out);
}

void explain_plan(const struct plan *plan, const struct trace *trace, FILE *out)
{
    print_purpose(plan, out);
    print_lists(plan, out);
    print_figures(&plan->predicted, out);
    if (trace) {
        struct non_model *non_model = non_model_place(trace);
        struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
        print_phases(plan, trace, out);
        print_prefetch(plan, accesses, out);
        accesses_free(accesses);
        non_model_free(non_model);
    }
    if (plan->certificate) {
        fputc('\n', out);
        explain_certificate(plan->certificate, out);
    }
    print_excerpt(plan, trace, out);
}

/* `style` begins the row: terminal_begin's, or empty. */
static void print_row(const char *name, const struct plan_figures *figures, const char *remark,
                      const char *style, FILE *out)
{
    g_autofree char *moved = size_format(figures->h2d_bytes + figures->d2h_bytes);
    g_autofree char *stall = seconds_format(figures->stall_seconds);
    g_autofree char *step = seconds_format(figures->iteration_seconds);
    fprintf(out, "%s  %-14s %11s %10s %10s   %s%s\n", style, name, moved, stall, step, remark,
            *style ? terminal_end(out) : "");
}

static void print_baseline(const struct search_baseline *baseline, FILE *out)
{
    g_autofree char *chunk = chunk_spread_format(&baseline->chunks);
    uint32_t moments = baseline->look_ahead;
    g_autofree char *ahead = moments ? g_strdup_printf(", fetched %u moment%s ahead", moments,
                                                       moments == 1 ? "" : "s")
                                     : g_strdup("");
    g_autofree char *remark = g_strdup_printf("chunks of %s%s", chunk ? chunk : "any size", ahead);
    if (baseline->name)
        print_row(baseline->name, &baseline->figures, remark, "", out);
}

/* Returns the share of elements that the host updates, in percent. */
static double host_share(const struct plan *plan, const struct trace *trace)
{
    uint64_t on_host = 0, all = 0;
    for (uint32_t t = 0; plan->choices && t < trace->tensor_count; t++) {
        all += trace->tensors[t].elements;
        on_host += plan->choices->host_update[t] ? trace->tensors[t].elements : 0;
    }
    return all ? 100.0 * (double)on_host / (double)all : 0;
}

/* Prints the choices of layers in a model that pstar does not describe. */
static void print_layers(const struct plan *plan, unsigned scope, FILE *out)
{
    const struct run_choices *choices = plan->choices;
    g_autofree char *layers = run_layers_format(choices->recompute, choices->layer_count);
    g_autofree char *offloaded = run_layers_format(choices->offload, choices->layer_count);
    if (scope & RUN_RECOMPUTE)
        fprintf(out, "  recomputed layers: %s; ", layers);
    else
        fputs("  recomputed layers, ", out);
    if (scope & RUN_OFFLOAD)
        fprintf(out, "layers that may offload: %s; ", offloaded);
    else
        fprintf(out, "offloaded activations: not looked at, because %s; ",
                scope & RUN_RECOMPUTE ? "the trace does not say how operators use them"
                                      : "pstar does not describe the trace's model");
    fprintf(out, "a step is %u x %u sequences, as traced\n", plan->micro_batches, plan->batch);
}

static void print_run_choices(const struct plan *plan, const struct trace *trace, FILE *out)
{
    if (!plan->choices)
        return;
    g_autofree uint8_t *held = trace_held_buffers(trace);
    unsigned scope = derivation_scope_of(trace);
    if (!scope && held) /* they were chosen, so other layers could have been, too */
        scope = RUN_RECOMPUTE | RUN_OFFLOAD;
    if (!(scope & RUN_MICRO_BATCHES)) {
        print_layers(plan, scope, out);
        return;
    }
    if (!plan->choices->layer_count)
        return;
    g_autofree char *layers = run_layers_format(plan->choices->recompute,
                                                plan->choices->layer_count);
    g_autofree char *offloaded = run_layers_format(plan->choices->offload,
                                                   plan->choices->layer_count);
    g_autofree char *stage = plan->ranks > 1
                                 ? g_strdup_printf("; %u ranks in stage %u%s", plan->ranks,
                                                   plan->choices->stage,
                                                   plan->choices->fast ? ", fast reductions" : "")
                                 : g_strdup("");
    g_autofree char *blocks = plan->choices->state_block
                                  ? g_strdup_printf("; state blocks of %" G_GUINT64_FORMAT
                                                    " elements",
                                                    plan->choices->state_block)
                                  : g_strdup("");
    tensor_id first = plan->choices->first_update;
    g_autofree char *begins = first ? g_strdup_printf("; the host's updates begin with %s",
                                                      trace->tensors[first].name)
                                    : g_strdup("");
    fprintf(out,
            "  recomputed layers: %s; layers that may offload: %s; a step is %u x %u "
            "sequences%s%s%s\n",
            layers, offloaded, plan->micro_batches, plan->batch, stage, blocks, begins);
}

void explain_proof(const struct search_result *result, FILE *out)
{
    explain_certificate(result->plan->certificate, out);
    if (result->proof_stopped)
        fputs("  the proof was stopped early, so bounds may be far too low\n", out);
}

void explain_result(const struct search_result *result, FILE *out)
{
    const struct plan_figures *f = &result->plan->predicted;
    g_autofree char *peak = size_format(f->peak_device_bytes);
    g_autofree char *host = size_format(f->peak_host_bytes);
    g_autofree char *remark = g_strdup_printf("device %s, host %s, %.0f %% of the optimizer there",
                                              peak, host, host_share(result->plan, result->trace));
    fprintf(out, "%u layouts, %u plans%s%s\n", result->layouts_tried, result->plans_tried,
            result->stopped ? ", stopped early while it " : "",
            result->stopped ? result->stage : "");
    fprintf(out, "  %-14s %11s %10s %10s\n", "", "traffic", "stall s", "step s");
    print_baseline(&result->policy, out);
    print_baseline(&result->strategy, out);
    print_row("plan", f, remark, terminal_begin(out, TERMINAL_BEST), out);
    print_run_choices(result->plan, result->trace, out);
    explain_proof(result, out);
}
