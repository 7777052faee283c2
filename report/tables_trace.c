#include "report/tables.h"

#include "report/text.h"
#include "traces/size.h"

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

/* A row with a cell for each trace, by `cell`. */
static void add_row(struct table *table, const GPtrArray *traces, const char *property,
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

struct table *table_configuration(const struct inputs *inputs)
{
    const GPtrArray *traces = inputs->traces;
    if (!traces->len)
        return NULL;
    struct table *table = table_new("Configuration", "Property");
    table->prose = true;
    bool partial = false;
    for (guint t = 0; t < traces->len; t++) {
        const struct input_trace *input = g_ptr_array_index(traces, t);
        g_ptr_array_add(table->columns, g_strdup(input->path));
        partial = partial || input->trace->partial;
    }
    add_row(table, traces, "Model", model_cell);
    add_row(table, traces, "Parameters", parameters_cell);
    add_row(table, traces, "Model data", model_bytes_cell);
    add_row(table, traces, "Precision", precision_cell);
    add_row(table, traces, "Micro-batches × sequences × tokens", batch_cell);
    add_row(table, traces, "Operators an iteration", operators_cell);
    add_row(table, traces, "Device memory of libraries", library_cell);
    add_row(table, traces, "Durations", durations_cell);
    add_row(table, traces, "Machine", machine_cell);
    add_row(table, traces, "Made by", producer_cell);
    if (partial)
        table->note = g_strdup("A traced run ended inside the window: its trace may be short.");
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
    g_autofree char *rate = text_number("%.3g", sums->flops / sums->seconds / 1e9);
    return g_strconcat(rate, " GFLOP/s", NULL);
}

struct table *table_phases(const struct input_trace *input)
{
    const struct trace *trace = input->trace;
    double whole = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        whole += (double)trace->operators[m].duration_ns / 1e9;
    g_autofree char *title = g_strconcat("Phases, ", input->path, NULL);
    struct table *table = table_new(title,
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
    table->note = g_strdup(trace->estimated
                               ? "Times were computed for a platform, not measured; waiting for "
                                 "copies is left out."
                               : "Times are the operators' own; waiting for copies is left out.");
    return table;
}
