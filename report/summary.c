#include "report/output.h"

#include "chunks/figures.h"
#include "report/text.h"

static void append_printable(GString *text, const char *part)
{
    g_autofree char *printable = text_printable(part);
    g_string_append(text, printable);
}

static void append_advice(GString *text, guint number, const struct advice *advice)
{
    g_string_append_printf(text, "%u. ", number);
    append_printable(text, advice->claim);
    g_string_append(text, ".\n   ");
    append_printable(text, advice->detail);
    if (advice->command) {
        g_string_append(text, "\n       ");
        append_printable(text, advice->command);
    }
    g_string_append_c(text, '\n');
}

char *summary_text(const struct contents *contents, const char *folder)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < contents->tables->len; i++)
        table_append_text(g_ptr_array_index(contents->tables, i), text);
    if (contents->verdict) {
        append_printable(text, contents->verdict);
        g_string_append(text, ".\n");
    }
    if (contents->comparison) {
        append_printable(text, contents->comparison);
        g_string_append_c(text, '\n');
    }
    for (guint i = 0; i < contents->advice->len; i++)
        append_advice(text, i + 1, g_ptr_array_index(contents->advice, i));
    for (guint i = 0; i < contents->highlights->len; i++) {
        const struct highlight *highlight = g_ptr_array_index(contents->highlights, i);
        g_string_append_printf(text, "%s: ", highlight->question);
        append_printable(text, highlight->answer);
        g_string_append(text, ", ");
        append_printable(text, highlight->detail);
        g_string_append_c(text, '\n');
    }
    for (guint i = 0; i < contents->missing->len; i++) {
        const struct missing *missing = &g_array_index(contents->missing, struct missing, i);
        g_string_append_printf(text, "Not shown: %s: ", missing->plot);
        append_printable(text, missing->reason);
        g_string_append_c(text, '.');
        if (missing->command) {
            g_string_append(text, " To make it:\n    ");
            append_printable(text, missing->command);
        }
        g_string_append_c(text, '\n');
    }
    if (!folder)
        return g_string_free(text, FALSE);
    g_autofree char *page = g_build_filename(folder, "index.html", NULL);
    g_string_append_printf(text, "%u figure%s in ", contents->plots->len,
                           contents->plots->len == 1 ? "" : "s");
    append_printable(text, page);
    g_string_append_c(text, '\n');
    return g_string_free(text, FALSE);
}

/* Names come from files, and JSON needs valid UTF-8. NULL is null. */
static json_t *string_of(const char *text)
{
    if (!text)
        return json_null();
    g_autofree char *printable = text_printable(text);
    return json_string(printable);
}

/* Unlimited memory is null. */
static json_t *budget_of(uint64_t bytes)
{
    return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *plots_of(const struct contents *contents)
{
    json_t *figures = json_array();
    for (guint i = 0; i < contents->plots->len; i++) {
        const struct plot *plot = g_ptr_array_index(contents->plots, i);
        json_t *object = json_object();
        json_object_set_new(object, "name", string_of(plot->name));
        json_object_set_new(object, "title", string_of(plot->title));
        json_object_set_new(object, "alt", string_of(plot->alt));
        static const char *const kinds[] = {"svg", "png", "gp", "dat"};
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
            g_autofree char *path = g_strdup_printf("figures/%s.%s", plot->name, kinds[k]);
            json_object_set_new(object, kinds[k], string_of(path));
        }
        json_array_append_new(figures, object);
    }
    return figures;
}

/* Returns the figure of a section of the page, in which a timeline may stand for a figure. */
static const char *figure_of(const struct contents *contents, const char *section)
{
    for (guint i = 0; i < contents->plots->len; i++) {
        const struct plot *plot = g_ptr_array_index(contents->plots, i);
        g_autofree char *timeline = plot->timeline < 0 ? NULL
                                                       : timeline_name((unsigned)plot->timeline);
        if (!g_strcmp0(timeline, section))
            return plot->name;
    }
    return section;
}

static json_t *advice_of(const struct contents *contents)
{
    json_t *all = json_array();
    for (guint i = 0; i < contents->advice->len; i++) {
        const struct advice *advice = g_ptr_array_index(contents->advice, i);
        json_t *object = json_object();
        json_object_set_new(object, "claim", string_of(advice->claim));
        json_object_set_new(object, "detail", string_of(advice->detail));
        json_object_set_new(object, "command", string_of(advice->command));
        json_object_set_new(object, "figure", string_of(figure_of(contents, advice->plot)));
        json_array_append_new(all, object);
    }
    return all;
}

static json_t *missing_of(const struct contents *contents)
{
    json_t *missing = json_array();
    for (guint i = 0; i < contents->missing->len; i++) {
        const struct missing *item = &g_array_index(contents->missing, struct missing, i);
        json_t *object = json_object();
        json_object_set_new(object, "figure", string_of(item->plot));
        json_object_set_new(object, "reason", string_of(item->reason));
        json_object_set_new(object, "command", string_of(item->command));
        json_array_append_new(missing, object);
    }
    return missing;
}

static json_t *memory_of(const struct contents *contents)
{
    json_t *memory = json_array();
    for (guint i = 0; i < contents->replays->len; i++) {
        const struct replayed *replayed = &g_array_index(contents->replays, struct replayed, i);
        uint32_t peak = replayed->memory->peak;
        const struct memory_moment *moment = &replayed->memory->moments[peak];
        const struct trace_operator *busiest = &replayed->plan->trace->trace->operators[peak];
        json_t *object = json_object();
        json_object_set_new(object, "plan", string_of(replayed->plan->path));
        json_object_set_new(object, "trace", string_of(replayed->plan->trace->path));
        json_object_set_new(object, "peak_moment", json_integer(peak));
        json_object_set_new(object, "peak_operator", string_of(busiest->name));
        json_object_set_new(object, "peak_phase", string_of(trace_phase_name(busiest->phase)));
        json_object_set_new(object, "peak_live_device_bytes",
                            json_integer((json_int_t)memory_total(moment)));
        json_object_set_new(object, "peak_chunk_bytes",
                            json_integer((json_int_t)moment->chunk_bytes));
        json_object_set_new(object, "peak_non_model_bytes",
                            json_integer((json_int_t)moment->non_model_bytes));
        json_object_set_new(object, "device_memory_bytes",
                            budget_of(replayed->plan->plan->device_budget));
        json_array_append_new(memory, object);
    }
    return memory;
}

static json_t *predictions_of(const struct contents *contents)
{
    json_t *predictions = json_array();
    for (guint i = 0; i < contents->predictions->len; i++) {
        const struct prediction *prediction = &g_array_index(contents->predictions,
                                                             struct prediction, i);
        json_t *object = json_object();
        json_object_set_new(object, "made_by", string_of(prediction->configuration->maker));
        chunk_spread_to_json(&prediction->configuration->chunks, object);
        json_object_set_new(object, "device_memory_bytes",
                            budget_of(prediction->configuration->device_budget));
        json_object_set_new(object, "predictor", string_of(prediction->predictor));
        json_object_set_new(object, "run", string_of(prediction->run->origin));
        json_object_set_new(object, "steady", json_boolean(prediction->steady));
        json_object_set_new(object, "predicted", figures_to_json(&prediction->predicted));
        json_object_set_new(object, "measured", figures_to_json(&prediction->measured));
        json_array_append_new(predictions, object);
    }
    return predictions;
}

char *summary_json(const struct contents *contents, const char *folder)
{
    json_t *root = json_object();
    json_object_set_new(root, "folder", string_of(folder));
    json_object_set_new(root, "page", json_string("index.html"));
    json_object_set_new(root, "verdict",
                        contents->verdict ? string_of(contents->verdict) : json_null());
    json_object_set_new(root, "comparison",
                        contents->comparison ? string_of(contents->comparison) : json_null());
    json_object_set_new(root, "advice", advice_of(contents));
    json_object_set_new(root, "figures", plots_of(contents));
    json_object_set_new(root, "missing", missing_of(contents));
    json_object_set_new(root, "memory", memory_of(contents));
    json_object_set_new(root, "predicted_beside_measured", predictions_of(contents));
    char *dumped = json_dumps(root, JSON_INDENT(1));
    char *text = g_strconcat(dumped, "\n", NULL);
    free(dumped);
    json_decref(root);
    return text;
}
