#include "base/size.h"
#include "chunks/figures.h"
#include "report/analysis.h"
#include "report/contents.h"
#include "report/plot.h"
#include "report/text.h"

static char *known(const char *text)
{
    return g_strdup(text ? text : "–");
}

static uint64_t parameters_of(const struct trace *trace)
{
    uint64_t parameters = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        parameters += trace->tensors[t].elements;
    return parameters;
}

/* Adds a row with one cell per trace. */
static void add_property(struct text_table *table, const GPtrArray *traces, const char *property,
                         char *(*cell)(const struct input_trace *input))
{
    GPtrArray *row = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(row, g_strdup(property));
    for (guint t = 0; t < traces->len; t++)
        g_ptr_array_add(row, cell(g_ptr_array_index(traces, t)));
    g_ptr_array_add(table->rows, row);
}

static char *model_cell(const struct input_trace *input)
{
    return known(input->trace->model);
}

static char *parameters_cell(const struct input_trace *input)
{
    return text_count(parameters_of(input->trace));
}

static char *model_bytes_cell(const struct input_trace *input)
{
    return size_format(trace_model_bytes(input->trace));
}

static char *precision_cell(const struct input_trace *input)
{
    return known(input->trace->precision);
}

static char *batch_cell(const struct input_trace *input)
{
    return g_strdup_printf("%u × %u × %u", input->trace->micro_batches, input->trace->batch,
                           input->trace->sequence);
}

static char *operators_cell(const struct input_trace *input)
{
    return text_count(input->trace->operator_count);
}

static char *library_cell(const struct input_trace *input)
{
    return size_format(input->trace->library_bytes);
}

static char *durations_cell(const struct input_trace *input)
{
    return g_strdup(input->trace->estimated ? "estimated" : "measured");
}

static char *machine_cell(const struct input_trace *input)
{
    return known(input->trace->machine);
}

static char *producer_cell(const struct input_trace *input)
{
    return known(input->trace->producer);
}

struct text_table *table_configuration(const struct report_inputs *inputs)
{
    const GPtrArray *traces = inputs->traces;
    if (!traces->len)
        return NULL;
    struct text_table *table = table_new("Configuration", "Property");
    table->prose = true;
    bool partial = false;
    for (guint t = 0; t < traces->len; t++) {
        const struct input_trace *input = g_ptr_array_index(traces, t);
        g_ptr_array_add(table->columns, g_strdup(input->path));
        partial = partial || input->trace->partial;
    }
    add_property(table, traces, "Model", model_cell);
    add_property(table, traces, "Parameters", parameters_cell);
    add_property(table, traces, "Model data", model_bytes_cell);
    add_property(table, traces, "Precision", precision_cell);
    add_property(table, traces, "Micro-batches × sequences × tokens", batch_cell);
    add_property(table, traces, "Operators per iteration", operators_cell);
    add_property(table, traces, "Device memory used by libraries", library_cell);
    add_property(table, traces, "Durations", durations_cell);
    add_property(table, traces, "Machine", machine_cell);
    add_property(table, traces, "Made by", producer_cell);
    if (partial)
        table->note = g_strdup(
            "A traced run ended inside the collection window, so its trace may be incomplete.");
    return table;
}

/* Sums over the operators of one phase. */
struct phase_sums {
    uint32_t operators;
    double seconds;
    double flops;
    uint64_t non_model_peak;
};

static struct phase_sums sum_phase(const struct trace *trace, enum trace_phase phase)
{
    struct phase_sums sums = {0};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (trace->operators[m].phase != phase)
            continue;
        sums.operators++;
        sums.seconds += (double)trace->operators[m].duration_ns / 1e9;
        sums.flops += (double)trace->operators[m].flops;
        sums.non_model_peak = MAX(sums.non_model_peak, trace->non_model_bytes[m]);
    }
    return sums;
}

static char *rate_cell(const struct phase_sums *sums)
{
    if (sums->seconds <= 0 || sums->flops <= 0)
        return g_strdup("–");
    return text_operation_rate(sums->flops / sums->seconds);
}

struct text_table *table_phases(const struct input_trace *input)
{
    const struct trace *trace = input->trace;
    double whole = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        whole += (double)trace->operators[m].duration_ns / 1e9;
    g_autofree char *file = caption_name(input->path);
    g_autofree char *title = g_strconcat("Phases, ", file, NULL);
    struct text_table *table = table_new(title,
                                         "Phase|Operators|Time|Share|Rate|Peak of non-model data");
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++) {
        struct phase_sums sums = sum_phase(trace, (enum trace_phase)phase);
        char *share = whole > 0 ? g_strdup_printf("%.0f %%", 100 * sums.seconds / whole)
                                : g_strdup("–");
        table_add(table, g_strdup(trace_phase_name((enum trace_phase)phase)),
                  text_count(sums.operators),
                  whole > 0 ? text_seconds(sums.seconds) : g_strdup("unknown"), share,
                  rate_cell(&sums), size_format(sums.non_model_peak));
    }
    table->note = g_strdup(
        trace->estimated
            ? "Times are computed for a platform, not measured, and exclude waiting for copies."
            : "Times are those of operators and exclude waiting for copies.");
    return table;
}

struct text_table *table_phase_traffic(const struct replayed *replayed)
{
    g_autofree char *file = caption_name(replayed->plan->path);
    g_autofree char *title = g_strconcat("Chunk traffic by phase, ", file, NULL);
    struct text_table *table = table_new(title, "Phase|H2D|D2H");
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++)
        table_add(table, g_strdup(trace_phase_name((enum trace_phase)phase)),
                  size_format(replayed->memory->h2d_bytes[phase]),
                  size_format(replayed->memory->d2h_bytes[phase]));
    return table;
}

static char *budget_cell(uint64_t budget)
{
    return budget == 0            ? g_strdup("–")
           : budget == UINT64_MAX ? g_strdup("unlimited")
                                  : size_format(budget);
}

static void add_peaks(struct text_table *table, char *what, const struct plan_figures *figures,
                      uint64_t device_budget, uint64_t host_budget)
{
    table_add(table, what, size_format(figures->peak_device_bytes),
              size_format(figures->peak_live_device_bytes), budget_cell(device_budget),
              size_format(figures->peak_host_bytes), budget_cell(host_budget));
}

struct text_table *table_peaks(const struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    struct text_table *table = table_new(
        "Peaks by memory", "|Device, by address|Device, live bytes|Device budget|Host|Host budget");
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        add_peaks(table, g_strdup_printf("%s, predicted", input->path), &input->plan->predicted,
                  input->plan->device_budget, input->plan->host_budget);
    }
    for (guint r = 0; r < inputs->runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(inputs->runs, r);
        struct plan_figures measured;
        if (run_log_measured(run, &measured, NULL))
            add_peaks(table, g_strdup_printf("%s, measured", run->origin), &measured,
                      run->configuration.maker ? run->configuration.device_budget : 0, 0);
    }
    if (table->rows->len)
        return table;
    table_free(table);
    return NULL;
}

/* Returns the bytes of the host slots of one list. */
static uint64_t slots_of(const struct plan *plan, int list)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (plan->layout->chunks[c].list == list && plan->host_address[c] != NO_ADDRESS)
            bytes += plan->layout->chunks[c].copy_bytes;
    return bytes;
}

static void add_pool(struct text_table *table, const struct input_plan *input)
{
    uint64_t left = input->plan->host_pool_bytes;
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        uint64_t bytes = slots_of(input->plan, list);
        if (bytes)
            table_add(table, g_strdup(input->path), g_strdup("pinned"),
                      g_strdup(trace_list_name((enum trace_list)list)), size_format(bytes));
        left -= MIN(left, bytes);
    }
    if (left)
        table_add(table, g_strdup(input->path), g_strdup("pinned"), g_strdup("staging and gaps"),
                  size_format(left));
    table_add(table, g_strdup(input->path), g_strdup("pageable"), g_strdup("–"), size_format(0));
}

/* Adds the most of each counter of the host. What is resident and not pinned is pageable. */
static void add_counted(struct text_table *table, const struct tracks *tracks)
{
    static const struct {
        enum curve curve;
        const char *kind;
    } kinds[] = {
        {CURVE_PINNED, "pinned"}, {CURVE_MANAGED, "managed"}, {CURVE_RESIDENT, "resident"}};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        double most = curve_most(tracks->curves[kinds[i].curve]);
        if (most > 0)
            table_add(table, g_strdup(tracks->origin), g_strdup(kinds[i].kind),
                      g_strdup(kinds[i].curve == CURVE_RESIDENT ? "pageable and pinned" : "–"),
                      size_format((uint64_t)most));
    }
}

struct text_table *table_host(const struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    struct text_table *table = table_new("Host memory by kind", "|Kind|Of|Most bytes");
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        if (input->plan->host_pool_bytes)
            add_pool(table, input);
    }
    for (guint i = 0; i < inputs->tracks->len; i++)
        add_counted(table, g_ptr_array_index(inputs->tracks, i));
    if (table->rows->len)
        return table;
    table_free(table);
    return NULL;
}

static void add_traffic(struct text_table *table, char *what, const struct plan_figures *figures)
{
    table_add(table, what, size_format(figures_traffic(figures)), size_format(figures->h2d_bytes),
              size_format(figures->d2h_bytes), text_count(figures->h2d_copies),
              text_count(figures->d2h_copies), text_count(figures->evictions),
              size_format(figures->moved_bytes));
}

struct text_table *table_traffic(const struct report_inputs *inputs)
{
    struct text_table *table = table_new(
        "Traffic per iteration",
        "|Both directions|H2D|D2H|H2D copies|D2H copies|Evictions|Moved within the device");
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        add_traffic(table, g_strdup_printf("%s, predicted", input->path), &input->plan->predicted);
    }
    for (guint r = 0; r < inputs->runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(inputs->runs, r);
        struct plan_figures measured;
        if (run_log_measured(run, &measured, NULL))
            add_traffic(table, g_strdup_printf("%s, measured", run->origin), &measured);
    }
    if (table->rows->len)
        return table;
    table_free(table);
    return NULL;
}

#define MOST_BEST 200 /* rows; nobody reads more */

/* The best entry of one budget and maker. */
struct best_row {
    uint64_t budget;
    guint maker; /* in the order of appearance */
    const char *name;
    const struct sweep_file_entry *entry; /* NULL if none fits */
};

static guint hash_row(const void *data)
{
    const struct best_row *row = data;
    return g_int64_hash(&row->budget) * 31 + row->maker;
}

static gboolean same_row(const void *left, const void *right)
{
    const struct best_row *a = left, *b = right;
    return a->budget == b->budget && a->maker == b->maker;
}

static int by_budget(const void *left, const void *right)
{
    const struct best_row *a = *(struct best_row *const *)left,
                          *b = *(struct best_row *const *)right;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    return (a->maker > b->maker) - (a->maker < b->maker);
}

/* Returns a row (struct best_row) for each budget and maker of the sweep, in this order. */
static GPtrArray *best_rows(const struct sweep_file *sweep)
{
    GPtrArray *rows = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) makers = sweep_file_makers(sweep);
    g_autoptr(GHashTable) numbers = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) known = g_hash_table_new(hash_row, same_row);
    for (guint m = 0; m < makers->len; m++)
        g_hash_table_insert(numbers, g_ptr_array_index(makers, m), GUINT_TO_POINTER(m));
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        const char *maker = entry->configuration.maker;
        const struct best_row key = {entry->configuration.device_budget,
                                     GPOINTER_TO_UINT(g_hash_table_lookup(numbers, maker)), maker,
                                     NULL};
        struct best_row *row = g_hash_table_lookup(known, &key);
        if (!row) {
            row = g_memdup2(&key, sizeof key);
            g_hash_table_add(known, row);
            g_ptr_array_add(rows, row);
        }
        if (entry->fits && (!row->entry || objective_compare(sweep->objective, &entry->figures,
                                                             &row->entry->figures) < 0))
            row->entry = entry;
    }
    g_ptr_array_sort(rows, by_budget);
    return rows;
}

static void add_best(struct text_table *table, const struct best_row *row, bool best)
{
    g_autofree char *name = caption_name(row->name);
    if (!row->entry) {
        table_add(table, size_format(row->budget), g_steal_pointer(&name), g_strdup("does not fit"),
                  g_strdup("–"), g_strdup("–"), g_strdup("–"), g_strdup("–"), g_strdup("–"));
        return;
    }
    const struct plan_figures *figures = &row->entry->figures;
    bool timed = figures->iteration_seconds > 0;
    g_autofree char *sizes = chunk_spread_format(&row->entry->configuration.chunks);
    table_add(table, size_format(row->budget), g_strconcat(name, best ? " *" : "", NULL),
              sizes ? g_steal_pointer(&sizes) : size_format(row->entry->configuration.chunk_bytes),
              size_format(figures_traffic(figures)), size_format(figures->h2d_bytes),
              size_format(figures->d2h_bytes),
              timed ? text_seconds(figures->stall_seconds) : g_strdup("–"),
              timed ? text_seconds(figures->iteration_seconds) : g_strdup("–"));
}

/* Returns the best of the rows of one budget, which begin at `first`. May return NULL. */
static const struct best_row *best_of(const GPtrArray *rows, guint first, enum objective objective)
{
    const struct best_row *best = NULL, *begin = g_ptr_array_index(rows, first);
    for (guint i = first; i < rows->len; i++) {
        const struct best_row *row = g_ptr_array_index(rows, i);
        if (row->budget != begin->budget)
            break;
        if (row->entry && (!best || objective_compare(objective, &row->entry->figures,
                                                      &best->entry->figures) < 0))
            best = row;
    }
    return best;
}

struct text_table *table_best(const struct sweep_file *sweep)
{
    g_autofree char *origin = caption_name(sweep->origin);
    g_autofree char *title = g_strconcat("Best of the sweep, ", origin, NULL);
    struct text_table *table =
        table_new(title, "Device memory|Decided by|Chunk size|Traffic|H2D|D2H|Stall|Step time");
    g_autoptr(GPtrArray) rows = best_rows(sweep);
    const struct best_row *best = NULL, *before = NULL;
    for (guint i = 0; i < MIN(rows->len, MOST_BEST); i++) {
        const struct best_row *row = g_ptr_array_index(rows, i);
        if (!before || before->budget != row->budget)
            best = best_of(rows, i, sweep->objective);
        add_best(table, row, row == best);
        before = row;
    }
    g_autofree char *cut = rows->len > MOST_BEST
                               ? g_strdup_printf(" The first %d of %u rows are shown.", MOST_BEST,
                                                 rows->len)
                               : g_strdup("");
    table->note = g_strdup_printf("The chunk size with the least %s for each policy and strategy. "
                                  "* marks the least with this device memory, as in pstar-sim.%s",
                                  sweep->objective == OBJECTIVE_TIME      ? "time"
                                  : sweep->objective == OBJECTIVE_TRAFFIC ? "traffic"
                                                                          : "device memory",
                                  cut);
    return table;
}

struct text_table *table_prediction(const struct prediction *prediction)
{
    g_autofree char *label = configuration_label(prediction->configuration);
    g_autofree char *title = g_strconcat("Predicted beside measured: ", label, NULL);
    struct text_table *table = table_new(title, "|Predicted|Measured|Difference");
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        if (figures_lack(&prediction->predicted, &prediction->measured, figure))
            continue;
        double predicted = figures_value(&prediction->predicted, figure);
        double measured = figures_value(&prediction->measured, figure);
        bool unknown = figure->unit == FIGURE_SECONDS && !prediction->timed;
        table_add(table, g_strdup(figure->label),
                  unknown ? g_strdup("–") : text_figure(&prediction->predicted, figure),
                  text_figure(&prediction->measured, figure),
                  unknown ? g_strdup("–") : text_difference(measured, predicted));
    }
    g_autofree char *predictor = caption_name(prediction->predictor);
    g_autofree char *origin = caption_name(prediction->run->origin);
    table->note =
        g_strdup_printf("Predicted by %s, measured by %s.%s", predictor, origin,
                        prediction->steady ? "" : " The counts of the run differ between steps.");
    return table;
}

static char *share_cell(double part, double whole)
{
    g_autofree char *digits = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(digits, " %", NULL);
}

static void add_row(struct text_table *table, const struct tracks *tracks, const char *name,
                    const struct track_sums *sums)
{
    GPtrArray *row = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(row, g_strdup(name));
    g_ptr_array_add(row, text_seconds(sums->seconds));
    g_ptr_array_add(row, share_cell(sums->seconds, tracks->seconds));
    for (int s = 0; s < TRACKS; s++)
        if (!track_is_rare((enum track)s) || tracks->known[s])
            g_ptr_array_add(row, tracks->known[s] ? share_cell(sums->busy[s], sums->seconds)
                                                  : g_strdup("–"));
    for (int s = TRACK_H2D; s <= TRACK_D2H; s++)
        g_ptr_array_add(row, tracks->known[s] && sums->seconds > 0
                                 ? text_rate(sums->bytes[s] / sums->seconds)
                                 : g_strdup("–"));
    g_ptr_array_add(table->rows, row);
}

/* Says what the network carries, beside its peak. */
static char *network_note(const struct tracks *tracks, const struct track_sums *all)
{
    double bytes = all->bytes[TRACK_NETWORK];
    if (!(bytes > 0) || !(tracks->network_rate > 0))
        return g_strdup("");
    g_autofree char *busy = text_rate(bytes / all->busy[TRACK_NETWORK]);
    g_autofree char *mean = text_rate(bytes / tracks->seconds);
    g_autofree char *peak = text_rate(tracks->network_rate);
    return g_strdup_printf(" A rank receives %s from the others while the network is busy, and %s "
                           "over the step; the platform's peak is %s.",
                           busy, mean, peak);
}

struct text_table *table_busy(const struct tracks *tracks)
{
    g_autofree char *origin = caption_name(tracks->origin);
    g_autofree char *title = g_strdup_printf("How busy each resource is, by phase: %s, %s", origin,
                                             tracks->measured ? "measured" : "simulated");
    g_autofree char *columns = g_strdup_printf(
        "Phase|Time|Share|Device computes|H2D|D2H|Host optimizer|%s%s%sDevice waits|H2D rate|D2H "
        "rate",
        tracks->known[TRACK_NETWORK] ? "Network|" : "",
        tracks->known[TRACK_NVME_READ] ? "NVMe reads|" : "",
        tracks->known[TRACK_NVME_WRITE] ? "NVMe writes|" : "");
    struct text_table *table = table_new(title, columns);
    for (int phase = 0; tracks->phases->len && phase < TRACK_NO_PHASE; phase++) {
        const struct track_sums sums = tracks_sum(tracks, (enum trace_phase)phase);
        if (sums.seconds > 0)
            add_row(table, tracks, trace_phase_name((enum trace_phase)phase), &sums);
    }
    const struct track_sums all = tracks_sum_all(tracks);
    add_row(table, tracks, "step", &all);
    g_autofree char *network = network_note(tracks, &all);
    table->note =
        g_strconcat("Percentages are the share of the phase in which the resource is busy. "
                    "Rates are means over the phase.",
                    network, NULL);
    return table;
}

#define MOST_OPERATORS 12

static void add_seconds(struct text_table *table, const char *what, double a, double b)
{
    if (a > 0 || b > 0)
        table_add(table, g_strdup(what), text_seconds(a), text_seconds(b), text_difference(b, a));
}

static void add_bytes(struct text_table *table, const char *what, double a, double b)
{
    if (a > 0 || b > 0)
        table_add(table, g_strdup(what), size_format((uint64_t)a), size_format((uint64_t)b),
                  text_difference(b, a));
}

static double peak_of(const struct report_inputs *inputs, const struct tracks *tracks)
{
    const struct input_trace *input = inputs_trace_of(inputs, tracks);
    uint64_t peak = 0;
    for (uint32_t m = 0; input && m < input->trace->operator_count; m++)
        peak = MAX(peak, input->trace->non_model_bytes[m]);
    return (double)peak;
}

struct text_table *table_compare(const struct report_inputs *inputs)
{
    const struct tracks *a, *b;
    if (!compare_steps(inputs, &a, &b) || !compare_same_work(inputs, a, b))
        return NULL;
    struct text_table *table = table_new("Side by side", "|A|B|B beside A");
    const struct track_sums all[2] = {tracks_sum_all(a), tracks_sum_all(b)};
    add_seconds(table, "Step", a->seconds, b->seconds);
    for (int phase = 0; phase < TRACK_NO_PHASE; phase++)
        add_seconds(table, trace_phase_name((enum trace_phase)phase),
                    tracks_sum(a, (enum trace_phase)phase).seconds,
                    tracks_sum(b, (enum trace_phase)phase).seconds);
    for (int s = 0; s < TRACKS; s++)
        if (a->known[s] && b->known[s])
            add_seconds(table, track_label((enum track)s), all[0].busy[s], all[1].busy[s]);
    add_bytes(table, "Moved, H2D", all[0].bytes[TRACK_H2D], all[1].bytes[TRACK_H2D]);
    add_bytes(table, "Moved, D2H", all[0].bytes[TRACK_D2H], all[1].bytes[TRACK_D2H]);
    add_bytes(table, "Peak of non-model data", peak_of(inputs, a), peak_of(inputs, b));
    g_autofree char *first = caption_name(a->origin), *second = caption_name(b->origin);
    table->note = g_strdup_printf("A is %s, B is %s.", first, second);
    return table;
}

struct text_table *table_compare_operators(const struct report_inputs *inputs)
{
    const struct tracks *a, *b;
    if (!compare_steps(inputs, &a, &b) || !compare_same_work(inputs, a, b))
        return NULL;
    g_autoptr(GArray) changes = compare_names(a, b);
    struct text_table *table = table_new("Largest differences", "|A|B|Difference");
    for (guint i = 0; i < MIN(changes->len, MOST_OPERATORS); i++) {
        const struct compare_change *change = &g_array_index(changes, struct compare_change, i);
        double more = change->seconds[1] - change->seconds[0];
        g_autofree char *length = text_seconds(more < 0 ? -more : more);
        table_add(table, g_strdup(change->name), text_seconds(change->seconds[0]),
                  text_seconds(change->seconds[1]),
                  g_strconcat(more < 0 ? "−" : "+", length, NULL));
    }
    table->note =
        g_strdup("Compute on the device and the host. All calls with one name are summed.");
    return table;
}
