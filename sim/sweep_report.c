#include "sim/sweep_report.h"

#include "base/output_file.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "base/size.h"
#include "base/terminal.h"
#include "chunks/chunk_spread.h"
#include "sim/stage_sweep.h"

#include <jansson.h>

enum { WIDEST = 400 }; /* characters of a name or a reason */

static const char *way(const struct sweep_row *row)
{
    return row->policy ? row->policy->name : row->strategy->name;
}

static void print_heading(const struct sweep *sweep, uint64_t device_budget, FILE *out)
{
    g_autofree char *device = size_format(device_budget);
    fprintf(out, "\nDevice memory %s\n", device);
    fprintf(out, "  %10s  %-17s %5s %11s %11s %11s %11s %11s%s %9s %9s\n", "chunk",
            "policy, strategy", "ahead", "H2D", "D2H", "traffic", "peak", "host peak",
            sweep->nvme_budget ? "        NVMe" : "", "stall s", "step s");
}

/* The chunk size of the parameter list says little of a layout that has a name. */
static void end_row(const struct sweep_row *row, FILE *out)
{
    g_autofree char *name = text_shortened(row->layout->name, WIDEST);
    if (*name)
        fprintf(out, "  %s", name);
    fputc('\n', out);
}

/* Of a layout that is given, the typical size. */
static char *chunk_column(const struct sweep_row *row)
{
    const struct chunk_spread spread = chunk_spread_of(row->layout->layout, TRACE_PARAM);
    bool given = row->layout->name && chunk_spread_size(&spread) != row->chunk_bytes;
    g_autofree char *size = size_format(given ? spread.typical : row->chunk_bytes);
    return g_strconcat(given ? "~" : "", size, NULL);
}

static void print_fitting(const struct sweep *sweep, const struct sweep_row *row, bool best,
                          FILE *out)
{
    const struct plan_figures *f = &row->figures;
    g_autofree char *chunk = chunk_column(row);
    g_autofree char *h2d = size_format(f->h2d_bytes), *d2h = size_format(f->d2h_bytes);
    g_autofree char *traffic = size_format(f->h2d_bytes + f->d2h_bytes);
    g_autofree char *peak = size_format(f->peak_device_bytes);
    g_autofree char *host = size_format(f->peak_host_bytes);
    g_autofree char *size = size_format(f->peak_nvme_bytes);
    g_autofree char *stall = seconds_format(f->stall_seconds);
    g_autofree char *step = seconds_format(f->iteration_seconds);
    g_autofree char *nvme = sweep->nvme_budget ? g_strdup_printf(" %11s", size) : g_strdup("");
    if (best)
        fputs(terminal_begin(out, TERMINAL_BEST), out);
    fprintf(out, "%c %10s  %-17s %5u %11s %11s %11s %11s %11s%s %9s %9s", best ? '*' : ' ', chunk,
            way(row), row->look_ahead, h2d, d2h, traffic, peak, host, nvme, stall, step);
    if (best)
        fputs(terminal_end(out), out);
    end_row(row, out);
}

/* Otherwise the row's reason says more. */
static bool lacks_device_alone(const struct sweep_row *row)
{
    return row->device_budget < row->least_device_bytes && !row->host_lacks;
}

static void print_refused(const struct sweep_row *row, FILE *out)
{
    g_autofree char *chunk = chunk_column(row);
    g_autofree char *least = size_format(row->least_device_bytes);
    g_autofree char *reason = text_shortened(row->reason, WIDEST);
    if (row->failed)
        fprintf(out, "  %10s  %-17s %5u failed: %s", chunk, way(row), row->look_ahead, reason);
    else if (lacks_device_alone(row))
        fprintf(out, "  %10s  %-17s %5u does not fit: needs %s", chunk, way(row), row->look_ahead,
                least);
    else
        fprintf(out, "  %10s  %-17s %5u does not fit: %s", chunk, way(row), row->look_ahead,
                reason);
    end_row(row, out);
}

/* The rows of one budget that are not printed. */
struct sweep_rest {
    uint32_t worse;            /* that fit */
    GHashTable *named;         /* policies and strategies that have a row or stand in `others` */
    GString *others;           /* the best row of each other policy and strategy, in short */
    uint32_t on_device, other; /* that do not fit, for want of device memory or another reason */
    uint64_t least_device_bytes;
    const char *reason; /* of the first with another */
};

static void append_figure(GString *text, enum objective objective, const struct plan_figures *f)
{
    g_autofree char *size = size_format(objective == OBJECTIVE_TRAFFIC ? figures_traffic(f)
                                                                       : f->peak_device_bytes);
    g_autofree char *step = seconds_format(f->iteration_seconds);
    if (objective == OBJECTIVE_TIME)
        g_string_append_printf(text, "%s s", step);
    else
        g_string_append(text, size);
}

/* Counts a row that fits but is not printed. */
static void count_worse(struct sweep_rest *rest, const struct sweep_row *row,
                        enum objective objective)
{
    rest->worse++;
    if (!g_hash_table_add(rest->named, (char *)way(row)))
        return;
    g_string_append_printf(rest->others, "%s%s ", rest->others->len ? ", " : "", way(row));
    append_figure(rest->others, objective, &row->figures);
}

static void count_refused(struct sweep_rest *rest, const struct sweep_row *row)
{
    if (lacks_device_alone(row)) {
        rest->least_device_bytes = rest->on_device
                                       ? MIN(rest->least_device_bytes, row->least_device_bytes)
                                       : row->least_device_bytes;
        rest->on_device++;
    } else {
        rest->reason = rest->reason ? rest->reason : row->reason;
        rest->other++;
    }
}

static void print_rest(const struct sweep_rest *rest, uint32_t rows, FILE *out)
{
    uint32_t refused = rest->on_device + rest->other;
    if (rest->worse)
        fprintf(out, "  %u more fit; --top all shows them\n", rest->worse);
    if (rest->others->len)
        fprintf(out, "  the best of other policies and strategies: %s\n", rest->others->str);
    if (!refused)
        return;
    fprintf(out, "  %u of %u do not fit:", refused, rows);
    if (rest->on_device) {
        g_autofree char *least = size_format(rest->least_device_bytes);
        fprintf(out, " %u need more device memory, at least %s", rest->on_device, least);
    }
    if (rest->other) {
        g_autofree char *reason = text_shortened(rest->reason, WIDEST);
        if (rest->on_device)
            fprintf(out, "; %u for another reason (%s)", rest->other, reason);
        else
            fprintf(out, " %s", reason);
    }
    fputc('\n', out);
}

static bool same_budget(const struct sweep *sweep, const GArray *ranked, guint a, guint b)
{
    return b < ranked->len && sweep->rows[g_array_index(ranked, uint32_t, a)].device_budget ==
                                  sweep->rows[g_array_index(ranked, uint32_t, b)].device_budget;
}

/* Prints the rows of one budget. Returns the index in `ranked` after the last. */
static guint print_budget(const struct sweep *sweep, const GArray *ranked, guint begin,
                          uint32_t top, FILE *out)
{
    struct sweep_rest rest = {.named = g_hash_table_new(g_str_hash, g_str_equal),
                              .others = g_string_new(NULL)};
    guint i = begin;
    print_heading(sweep, sweep->rows[g_array_index(ranked, uint32_t, begin)].device_budget, out);
    for (; same_budget(sweep, ranked, begin, i); i++) {
        const struct sweep_row *row = &sweep->rows[g_array_index(ranked, uint32_t, i)];
        if (row->fits && i - begin < top) {
            print_fitting(sweep, row, i == begin, out);
            g_hash_table_add(rest.named, (char *)way(row));
        } else if (row->fits)
            count_worse(&rest, row, sweep->objective);
        else if (row->failed || top == SWEEP_ALL)
            print_refused(row, out);
        else
            count_refused(&rest, row);
    }
    print_rest(&rest, i - begin, out);
    g_hash_table_unref(rest.named);
    g_string_free(rest.others, TRUE);
    return i;
}

void sweep_print(const struct sweep *sweep, uint32_t top, FILE *out)
{
    static const char *const legends[OBJECTIVES] = {
        [OBJECTIVE_TIME] = "takes the least time; among equals, moves the fewest bytes",
        [OBJECTIVE_TRAFFIC] = "moves the fewest bytes; among equals, takes the least time",
        [OBJECTIVE_MEMORY] = ("has the lowest peak of device memory; among equals, takes the least "
                              "time")};
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    for (guint i = 0; i < ranked->len;)
        i = print_budget(sweep, ranked, i, top, out);
    if (sweep_fits(sweep))
        fprintf(out, "\n* %s\n", legends[sweep->objective]);
}

/* Of the best configuration, the passes of a pipeline too. */
static json_t *row_json(const struct sweep_row *row, uint32_t stages, bool best)
{
    json_t *object =
        json_pack("{sI so so ss? sI sI sb sI}", "chunk_bytes", (json_int_t)row->chunk_bytes,
                  "layout", text_to_json(row->layout->name), "policy",
                  text_to_json(row->policy ? row->policy->name : NULL), "strategy",
                  row->strategy ? row->strategy->name : NULL, "device_memory_bytes",
                  (json_int_t)row->device_budget, "look_ahead", (json_int_t)row->look_ahead, "fits",
                  row->fits, "least_device_memory_bytes", (json_int_t)row->least_device_bytes);
    if (row->layout->name) {
        struct chunk_spread spread = chunk_spread_of(row->layout->layout, TRACE_PARAM);
        spread.asked = row->chunk_bytes;
        chunk_spread_to_json(&spread, object);
    }
    if (row->failed)
        json_object_set_new(object, "failed", json_true());
    if (!row->fits) {
        json_object_set_new(object, "reason", text_to_json(row->reason));
        return object;
    }
    json_t *figures = figures_to_json(&row->figures);
    json_object_update(object, figures);
    json_decref(figures);
    if (row->phases)
        json_object_set_new(object, "phases", phases_json(row->phases));
    if (row->stages)
        json_object_set_new(object, "stages", stage_sweep_json(row->stages, stages, best));
    return object;
}

bool sweep_write_json(const struct sweep *sweep, const struct trace *trace, const char *trace_path,
                      const char *platform_path, const struct costs *costs, const char *path,
                      GError **error)
{
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    uint32_t best = NO_INDEX;
    for (guint i = 0; i < ranked->len && best == NO_INDEX; i++)
        if (sweep->rows[g_array_index(ranked, uint32_t, i)].fits)
            best = g_array_index(ranked, uint32_t, i);
    json_t *results = json_array();
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].done)
            json_array_append_new(results,
                                  row_json(&sweep->rows[r], sweep->stage_count, r == best));
    json_t *root = json_pack("{so ss? ss? ss so}", "trace", text_to_json(trace_path), "model",
                             trace->model, "precision", trace->precision, "objective",
                             objective_name(sweep->objective), "results", results);
    if (platform_path)
        json_object_set_new(root, "platform", text_to_json(platform_path));
    costs_describe(costs, trace, root);
    json_object_set_new(root, "host_memory_bytes",
                        sweep->host_budget == UINT64_MAX
                            ? json_null()
                            : json_integer((json_int_t)sweep->host_budget));
    if (sweep->nvme_budget)
        json_object_set_new(root, "nvme_memory_bytes",
                            json_integer((json_int_t)sweep->nvme_budget));
    bool ok = output_file_write_json(path, root, JSON_INDENT(1) | JSON_REAL_PRECISION(12), error);
    json_decref(root);
    return ok;
}

/* Names hold commas, and files' perhaps quotes. NULL is empty. */
static void append_csv_text(GString *text, const char *value)
{
    g_auto(GStrv) parts = g_strsplit(value ? value : "", "\"", -1);
    g_autofree char *doubled = g_strjoinv("\"\"", parts);
    if (value)
        g_string_append_printf(text, "\"%s\"", doubled);
}

/* A figure of a row that does not fit is empty. */
static void append_csv_figure(GString *text, const struct sweep_row *row,
                              const struct plan_figure *figure)
{
    g_string_append_c(text, ',');
    if (!row->fits)
        return;
    if (figure->unit == FIGURE_SECONDS)
        g_string_append_printf(text, "%.9f", figures_value(&row->figures, figure));
    else
        g_string_append_printf(text, "%" G_GUINT64_FORMAT, figures_count(&row->figures, figure));
}

static void append_csv_row(GString *text, const struct sweep_row *row)
{
    g_string_append_printf(
        text, "%" G_GUINT64_FORMAT ",%s,%s,%" G_GUINT64_FORMAT ",%u,%d,%" G_GUINT64_FORMAT,
        row->chunk_bytes, row->policy ? row->policy->name : "",
        row->strategy ? row->strategy->name : "", row->device_budget, row->look_ahead, row->fits,
        row->least_device_bytes);
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
        append_csv_figure(text, row, figure);
    g_string_append_c(text, ',');
    append_csv_text(text, row->layout->name);
    g_string_append_c(text, '\n');
}

bool sweep_write_csv(const struct sweep *sweep, const char *path, GError **error)
{
    g_autoptr(GString)
        text = g_string_new("chunk_bytes,policy,strategy,device_memory_bytes,look_ahead,fits,"
                            "least_device_memory_bytes");
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
        g_string_append_printf(text, ",%s", figure->name);
    g_string_append(text, ",layout\n");
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].done)
            append_csv_row(text, &sweep->rows[r]);
    return output_file_write(path, text->str, error);
}
