#include "sim/sweep_report.h"

#include "traces/output_file.h"
#include "traces/size.h"

#include <jansson.h>

static const char *way(const struct sweep_row *row)
{
    return row->policy ? row->policy->name : row->strategy->name;
}

static void print_heading(uint64_t device_budget, FILE *out)
{
    g_autofree char *device = size_format(device_budget);
    fprintf(out, "\nDevice memory %s\n", device);
    fprintf(out, "  %10s  %-17s %5s %11s %11s %11s %11s %11s %9s %9s\n", "chunk",
            "policy, strategy", "ahead", "H2D", "D2H", "traffic", "peak", "host peak", "stall s",
            "step s");
}

/* The chunk size of the parameter list says little of a layout that has a name. */
static void end_row(const struct sweep_row *row, FILE *out)
{
    if (row->layout->name)
        fprintf(out, "  %s", row->layout->name);
    fputc('\n', out);
}

static void print_fitting(const struct sweep_row *row, bool best, FILE *out)
{
    const struct plan_figures *f = &row->figures;
    g_autofree char *chunk = size_format(row->chunk_bytes);
    g_autofree char *h2d = size_format(f->h2d_bytes), *d2h = size_format(f->d2h_bytes);
    g_autofree char *traffic = size_format(f->h2d_bytes + f->d2h_bytes);
    g_autofree char *peak = size_format(f->peak_device_bytes);
    g_autofree char *host = size_format(f->peak_host_bytes);
    fprintf(out, "%c %10s  %-17s %5u %11s %11s %11s %11s %11s %9.4f %9.4f", best ? '*' : ' ', chunk,
            way(row), row->look_ahead, h2d, d2h, traffic, peak, host, f->stall_seconds,
            f->iteration_seconds);
    end_row(row, out);
}

static void print_refused(const struct sweep_row *row, FILE *out)
{
    g_autofree char *chunk = size_format(row->chunk_bytes);
    g_autofree char *least = size_format(row->least_device_bytes);
    if (row->failed)
        fprintf(out, "  %10s  %-17s %5u failed: %s", chunk, way(row), row->look_ahead, row->reason);
    else if (row->device_budget < row->least_device_bytes)
        fprintf(out, "  %10s  %-17s %5u does not fit: needs %s", chunk, way(row), row->look_ahead,
                least);
    else
        fprintf(out, "  %10s  %-17s %5u does not fit: %s", chunk, way(row), row->look_ahead,
                row->reason);
    end_row(row, out);
}

void sweep_print(const struct sweep *sweep, FILE *out)
{
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    const struct sweep_row *before = NULL;
    for (guint i = 0; i < ranked->len; i++) {
        const struct sweep_row *row = &sweep->rows[g_array_index(ranked, uint32_t, i)];
        bool first = !before || before->device_budget != row->device_budget;
        if (first)
            print_heading(row->device_budget, out);
        if (row->fits)
            print_fitting(row, first, out);
        else
            print_refused(row, out);
        before = row;
    }
    fputs("\n* moves the fewest bytes; among equals, takes the least time\n", out);
}

static json_t *row_json(const struct sweep_row *row)
{
    json_t *object =
        json_pack("{sI ss? ss? ss? sI sI sb sI}", "chunk_bytes", (json_int_t)row->chunk_bytes,
                  "layout", row->layout->name, "policy", row->policy ? row->policy->name : NULL,
                  "strategy", row->strategy ? row->strategy->name : NULL, "device_memory_bytes",
                  (json_int_t)row->device_budget, "look_ahead", (json_int_t)row->look_ahead, "fits",
                  row->fits, "least_device_memory_bytes", (json_int_t)row->least_device_bytes);
    if (row->failed)
        json_object_set_new(object, "failed", json_true());
    if (!row->fits) {
        json_object_set_new(object, "reason", json_string(row->reason));
        return object;
    }
    json_t *figures = figures_to_json(&row->figures);
    json_object_update(object, figures);
    json_decref(figures);
    if (row->phases)
        json_object_set_new(object, "phases", phases_json(row->phases));
    return object;
}

bool sweep_write_json(const struct sweep *sweep, const struct trace *trace, const char *trace_path,
                      const struct costs *costs, const char *path, GError **error)
{
    json_t *results = json_array();
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].done)
            json_array_append_new(results, row_json(&sweep->rows[r]));
    json_t *root = json_pack("{ss ss? ss? sf sf so}", "trace", trace_path, "model", trace->model,
                             "precision", trace->precision, "h2d_rate",
                             costs_link_rate(costs, MOVER_H2D), "d2h_rate",
                             costs_link_rate(costs, MOVER_D2H), "results", results);
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
