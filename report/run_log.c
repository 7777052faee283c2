#include "report/inputs.h"

#include "chunks/figures.h"
#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEADY_FROM 2 /* the third step; the first two may include copies of loading */

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Takes what the lines before the first step say. */
static void read_header(struct logged_run *log, const json_t *object)
{
    if (!log->configuration.maker) {
        configuration_clear(&log->configuration);
        log->configuration = configuration_of_json(object);
    }
    if (!log->model)
        log->model = g_strdup(json_string_value(json_object_get(object, "model")));
    if (!log->precision)
        log->precision = g_strdup(json_string_value(json_object_get(object, "precision")));
    if (isnan(log->unigram_entropy))
        log->unigram_entropy = number_of(object, "unigram_entropy");
    if (json_object_get(object, "h2d_rate"))
        log->link_rate[0] = json_number_value(json_object_get(object, "h2d_rate"));
    if (json_object_get(object, "d2h_rate"))
        log->link_rate[1] = json_number_value(json_object_get(object, "d2h_rate"));
}

/* A run that goes on in the log of another one says again what it is: what is measured is of the
 * last one, which may have another plan. */
static void begin_part(struct logged_run *log)
{
    configuration_clear(&log->configuration);
    log->configuration.look_ahead = -1;
    g_clear_pointer(&log->model, g_free);
    g_clear_pointer(&log->precision, g_free);
    log->unigram_entropy = NAN;
    log->link_rate[0] = log->link_rate[1] = 0;
    log->part = log->steps->len;
}

/* Returns NULL, or what is wrong with the line. */
static const char *read_object(struct logged_run *log, const json_t *object)
{
    if (!json_is_object(object))
        return "it must be an object";
    bool again = log->steps->len && json_object_get(object, "made_by");
    if (again)
        begin_part(log);
    if (!log->steps->len || again)
        read_header(log, object);
    const json_t *number = json_object_get(object, "step"), *loss = json_object_get(object, "loss");
    if (!number)
        return NULL;
    if (!json_is_integer(number) || json_integer_value(number) < 0)
        return "\"step\" must be an integer >= 0";
    /* JSON has no NaN, so a diverged run writes null. */
    if (!json_is_number(loss) && !json_is_null(loss))
        return "\"loss\" must be a number or null";
    struct run_step step = {
        .step = (uint64_t)json_integer_value(number),
        .loss = number_of(object, "loss"),
        .eval_loss = number_of(object, "eval_loss"),
    };
    const struct plan_figure *bad;
    step.counted = figures_from_json(object, &step.figures, &bad);
    g_array_append_val(log->steps, step);
    return NULL;
}

/* Returns NULL, or what is wrong. */
static const char *read_line(struct logged_run *log, const char *line, size_t length)
{
    json_error_t json_error;
    json_t *object = json_loadb(line, length, 0, &json_error);
    if (!object) {
        log->cut = length && line[length - 1] != '\n';
        return log->cut ? NULL : "it must be JSON";
    }
    const char *wrong = read_object(log, object);
    json_decref(object);
    return wrong;
}

static bool read_lines(struct logged_run *log, FILE *file, GError **error)
{
    char *line = NULL;
    size_t capacity = 0, number = 0;
    ssize_t length;
    const char *wrong = NULL;
    while (!wrong && (length = getline(&line, &capacity, file)) >= 0) {
        number++;
        if (strspn(line, " \t\r\n") < (size_t)length)
            wrong = read_line(log, line, (size_t)length);
    }
    free(line);
    if (wrong)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s:%zu: bad line of a run log: %s",
                    log->origin, number, wrong);
    else if (!log->steps->len)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s: the run log has no step",
                    log->origin);
    return !wrong && log->steps->len;
}

struct logged_run *run_log_read(const char *path, GError **error)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s: %s", path, g_strerror(errno));
        return NULL;
    }
    struct logged_run *log = g_new0(struct logged_run, 1);
    log->origin = g_strdup(path);
    log->unigram_entropy = NAN;
    log->configuration.look_ahead = -1;
    log->steps = g_array_new(FALSE, TRUE, sizeof(struct run_step));
    bool ok = read_lines(log, file, error);
    fclose(file);
    if (ok)
        return log;
    run_log_free(log);
    return NULL;
}

void run_log_free(struct logged_run *log)
{
    if (!log)
        return;
    g_free(log->origin);
    g_free(log->model);
    g_free(log->precision);
    configuration_clear(&log->configuration);
    g_array_unref(log->steps);
    g_free(log);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Interpolates between the two nearest steps. */
static double quantile_of(const GArray *steps, const struct plan_figure *figure, double share)
{
    g_autofree double *values = g_new(double, steps->len);
    for (guint i = 0; i < steps->len; i++)
        values[i] = figures_value(&g_array_index(steps, struct run_step, i).figures, figure);
    qsort(values, steps->len, sizeof *values, compare_doubles);
    double place = share * (steps->len - 1);
    guint below = (guint)place, above = MIN(below + 1, steps->len - 1);
    return values[below] + (place - below) * (values[above] - values[below]);
}

/* Returns the steps of the steady state that have figures. */
static GArray *steady_steps(const struct logged_run *log)
{
    GArray *counted = g_array_new(FALSE, FALSE, sizeof(struct run_step));
    bool few = log->steps->len - log->part <= STEADY_FROM;
    for (guint i = log->part; i < log->steps->len; i++) {
        const struct run_step *step = &g_array_index(log->steps, struct run_step, i);
        if (step->counted && (i >= log->part + STEADY_FROM || few))
            g_array_append_val(counted, *step);
    }
    return counted;
}

static void set_times(const GArray *steps, double share, struct plan_figures *figures)
{
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
        if (figure->unit == FIGURE_SECONDS)
            figures_set_seconds(figures, figure, quantile_of(steps, figure, share));
}

bool run_log_measured(const struct logged_run *log, struct plan_figures *figures, bool *steady)
{
    GArray *counted = steady_steps(log);
    bool any = counted->len > 0, same = true;
    if (any) {
        *figures = g_array_index(counted, struct run_step, counted->len - 1).figures;
        for (guint i = 0; i + 1 < counted->len; i++)
            same = same &&
                   figures_equal(&g_array_index(counted, struct run_step, i).figures, figures);
        set_times(counted, 0.5, figures);
    }
    if (steady)
        *steady = same;
    g_array_unref(counted);
    return any;
}

void run_log_range(const struct logged_run *log, struct plan_figures *low,
                   struct plan_figures *high)
{
    g_autoptr(GArray) counted = steady_steps(log);
    *low = *high = (struct plan_figures){0};
    if (!counted->len)
        return;
    set_times(counted, 0.05, low);
    set_times(counted, 0.95, high);
}
