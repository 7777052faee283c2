#include "planner/answers/budgets.h"
#include "base/failure.h"
#include "base/output_file.h"
#include "base/size.h"
#include "chunks/plan.h"
#include "planner/search/search.h"
#include "sim/sizes.h"

#include <glib/gstdio.h>
#include <math.h>
#include <unistd.h>

/* A search among two layouts, which takes a fraction of the time of a full search. One layout is
 * the plan's, which was best with its budgets. The other has one chunk a tensor, which needs the
 * least memory. */
struct narrow_search {
    const struct trace *trace;
    GPtrArray *layouts; /* struct named_layout */
};

static void free_named(void *data)
{
    struct named_layout *named = data;
    layout_free(named->layout);
    g_free(named);
}

static void add(struct narrow_search *narrow, struct layout *layout)
{
    struct named_layout *named = g_new0(struct named_layout, 1);
    named->layout = layout;
    g_ptr_array_add(narrow->layouts, named);
}

static struct narrow_search *narrow_search_new(const struct trace *trace, const struct plan *plan)
{
    struct narrow_search *narrow = g_new0(struct narrow_search, 1);
    narrow->trace = trace;
    narrow->layouts = g_ptr_array_new_with_free_func(free_named);
    add(narrow, layout_copy(plan->layout));
    add(narrow, layout_pack_uniform(trace, LAYOUT_ALIGNMENT, NULL));
    return narrow;
}

static void narrow_search_free(struct narrow_search *narrow)
{
    if (!narrow)
        return;
    g_ptr_array_unref(narrow->layouts);
    g_free(narrow);
}

static struct search_result *narrow_search_run(const struct narrow_search *narrow,
                                               const struct search_options *options)
{
    struct search_options own = *options;
    own.layouts = narrow->layouts;
    return search_plan(narrow->trace, &own, NULL);
}

enum { RESOLUTION = 64 };

/* If a narrow search is slower than allowed by more than this factor, no full search is tried. */
#define HOPELESS 1.2

/* ---- the least memory ---- */

struct memory_search {
    const struct trace *trace;
    struct search_options options;
    uint64_t *budget; /* the one in `options` that is lowered */
    double most_seconds;
    struct search_result *best; /* fast enough, with the least budget so far; may be NULL */
    bool *stopped;
};

/* Keeps a result that is fast enough, and frees others. Returns its time. */
static double consider(struct memory_search *least, struct search_result *result)
{
    double seconds = result ? result->plan->predicted.iteration_seconds : INFINITY;
    *least->stopped |= result && result->stopped;
    if (seconds <= least->most_seconds) {
        search_result_free(least->best);
        least->best = g_steal_pointer(&result);
    }
    search_result_free(result);
    return seconds;
}

/* Whoever follows the answer searches all layouts, so a budget that only a narrow search takes is
 * not enough. */
static bool is_enough(struct memory_search *least, const struct narrow_search *narrow,
                      uint64_t budget)
{
    *least->budget = budget;
    if (!requirement_is_met(least->trace, &least->options, NULL))
        return false;
    double seconds = consider(least, narrow_search_run(narrow, &least->options));

    if (seconds > least->most_seconds && seconds <= HOPELESS * least->most_seconds)
        seconds = consider(least, search_plan(least->trace, &least->options, NULL));
    return seconds <= least->most_seconds;
}

static void bisect(struct memory_search *least, const struct plan *reference, uint64_t low,
                   uint64_t high)
{
    struct narrow_search *narrow = narrow_search_new(least->trace, reference);
    while (high - low > high / RESOLUTION && !*least->stopped) {
        uint64_t middle = low + (high - low) / 2;
        if (is_enough(least, narrow, middle))
            high = middle;
        else
            low = middle;
    }
    narrow_search_free(narrow);
}

uint64_t min_memory_taken(const struct plan *plan, enum min_memory_kind memory)
{
    return memory == MIN_DEVICE_MEMORY ? plan->arena_bytes : plan->predicted.peak_host_bytes;
}

struct search_result *min_memory_find(const struct trace *trace,
                                      const struct search_options *options,
                                      const struct plan *reference, enum min_memory_kind memory,
                                      double most_seconds, bool *stopped)
{
    struct memory_search least = {trace, *options, .most_seconds = most_seconds,
                                  .stopped = stopped};
    uint64_t low = 0, most = min_memory_taken(reference, memory);
    least.budget = &least.options.host_budget;
    if (memory == MIN_DEVICE_MEMORY) {
        least.budget = &least.options.device_budget;
        low = requirement_device_bytes(trace, options, NULL) - 1;
    }
    bisect(&least, reference, MIN(low, most), most);
    if (!*stopped)
        return least.best;
    search_result_free(least.best);
    return NULL;
}

#define GB UINT64_C(1000000000)

const double sensitivity_links[SENSITIVITY_LINKS] = {1, 2};

static const uint64_t memories[SENSITIVITY_MEMORIES] = {0, GB, 2 * GB, 4 * GB, 8 * GB};

/* Returns the layouts for narrow searches in the stage, or NULL if nothing fits it even with the
 * most memory. */
static struct narrow_search *narrow_search_in(const struct budget_stage *stage,
                                              const struct search_options *options, bool *stopped)
{
    struct search_options most = *options;
    most.device_budget += memories[SENSITIVITY_MEMORIES - 1];
    struct search_result *other = stage->best ? NULL : search_plan(stage->trace, &most, NULL);
    const struct search_result *result = stage->best ? stage->best : other;
    struct narrow_search *narrow = result ? narrow_search_new(stage->trace, result->plan) : NULL;
    *stopped |= other && other->stopped;
    search_result_free(other);
    return narrow;
}

/* Lowers the times to those of the stage's plans. Returns false if a person stopped it. */
static bool lower(struct sensitivity *s, const struct budget_stage *stage,
                  const struct search_options *options, struct costs *const *costs)
{
    bool stopped = false;
    struct narrow_search *narrow = narrow_search_in(stage, options, &stopped);
    if (stage->best)
        s->seconds[0][0] = MIN(s->seconds[0][0], stage->best->plan->predicted.iteration_seconds);
    for (uint32_t point = 1; narrow && point < SENSITIVITY_LINKS * SENSITIVITY_MEMORIES && !stopped;
         point++) {
        uint32_t link = point / SENSITIVITY_MEMORIES, memory = point % SENSITIVITY_MEMORIES;
        struct search_options other = *options;
        other.costs = costs[link];
        other.device_budget += memories[memory];
        struct search_result *result = narrow_search_run(narrow, &other);
        double *seconds = &s->seconds[link][memory];
        if (result)
            *seconds = MIN(*seconds, result->plan->predicted.iteration_seconds);
        stopped = result ? result->stopped : stage->best != NULL;
        search_result_free(result);
    }
    narrow_search_free(narrow);
    return !stopped;
}

/* Lets each time be at most those with less memory or a slower link. */
static void never_rise(struct sensitivity *s)
{
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
        for (uint32_t m = 0; m < SENSITIVITY_MEMORIES; m++) {
            double *seconds = &s->seconds[l][m];
            if (m)
                *seconds = MIN(*seconds, s->seconds[l][m - 1]);
            if (l)
                *seconds = MIN(*seconds, s->seconds[l - 1][m]);
        }
}

bool sensitivity_find(const struct budget_stage *stages, uint32_t count,
                      const struct search_options *options, struct costs *const *costs,
                      struct sensitivity *sensitivity)
{
    bool ok = true;
    for (uint32_t m = 0; m < SENSITIVITY_MEMORIES; m++) {
        sensitivity->more[m] = memories[m];
        for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
            sensitivity->seconds[l][m] = INFINITY;
    }
    for (uint32_t i = 0; ok && i < count; i++)
        ok = lower(sensitivity, &stages[i], options, costs);
    never_rise(sensitivity);
    return ok;
}

static const char style[] =
    "set terminal svg size 820,460 dynamic enhanced font 'Helvetica,14' background '#ffffff'\n"
    "set title 'What more device memory or a faster link would buy'\n"
    "set xlabel 'device memory (GiB)'\n"
    "set ylabel 'iteration (s)'\n"
    "set border 3 lc rgb '#555555'\n"
    "set tics nomirror out\n"
    "set grid ytics lc rgb '#dddddd' lt 1\n"
    "set key inside top right reverse Left\n"
    "set yrange [0:*]\n"
    "set offsets graph 0.02, graph 0.02, graph 0.1, 0\n";

static const char *const colours[SENSITIVITY_LINKS] = {"#1f5fa8", "#c2571a"};

static char *title(uint32_t link)
{
    return link ? g_strdup_printf("a link %g times as fast", sensitivity_links[link])
                : g_strdup("the link as it is");
}

static GString *script(const struct sensitivity *s, uint64_t device_budget)
{
    GString *text = g_string_new(style);
    g_string_append(text, "$times << END\n");
    for (uint32_t m = 0; m < SENSITIVITY_MEMORIES; m++) {
        g_string_append_printf(text, "%.6f", (double)(device_budget + s->more[m]) / 0x1p30);
        for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++)
            g_string_append_printf(text, " %.9g", s->seconds[l][m]);
        g_string_append_c(text, '\n');
    }
    g_string_append(text, "END\nplot");
    for (uint32_t l = 0; l < SENSITIVITY_LINKS; l++) {
        g_autofree char *name = title(l);
        g_string_append_printf(text,
                               "%s $times using 1:%u with linespoints lw 2 pt 7 ps 0.7 "
                               "lc rgb '%s' title '%s'",
                               l ? "," : "", l + 2, colours[l], name);
    }
    return g_string_append_c(text, '\n');
}

static bool fail(GError **error, const char *what, const char *why)
{
    g_set_error(error, FAILURE, FAILURE_RUNNING, "gnuplot: %s%s%s", what, *why ? ": " : "", why);
    return false;
}

/* Returns what gnuplot prints: the picture. Our script tells it no file's name, in which there
 * might be commands, and it does not notice if a disk is full. Free with g_free. NULL on error. */
static char *run_gnuplot(const char *file, GError **error)
{
    g_autofree char *program = g_find_program_in_path("gnuplot"), *complaint = NULL;
    char *command[] = {program, (char *)file, NULL}, *picture = NULL;
    g_autoptr(GError) inner = NULL;
    int status = 0;
    if (!program) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "gnuplot is not in PATH: install it (Debian, Ubuntu: apt install gnuplot-nox)");
        return NULL;
    }
    bool ran = g_spawn_sync(NULL, command, NULL, G_SPAWN_DEFAULT, NULL, NULL, &picture, &complaint,
                            &status, &inner) &&
               g_spawn_check_wait_status(status, &inner);
    if (ran && g_str_has_suffix(g_strchomp(picture), "</svg>"))
        return picture;
    fail(error, ran ? "its picture is incomplete" : inner->message,
         complaint ? g_strstrip(complaint) : "");
    g_free(picture);
    return NULL;
}

static char *draw(const GString *text, GError **error)
{
    g_autofree char *file = NULL;
    int fd = g_file_open_tmp("pstar-XXXXXX.gp", &file, error);
    if (fd < 0) {
        failure_mark(error, FAILURE_RUNNING);
        return NULL;
    }
    close(fd);
    char *picture = NULL;
    if (g_file_set_contents(file, text->str, (gssize)text->len, error))
        picture = run_gnuplot(file, error);
    else
        failure_mark(error, FAILURE_RUNNING);
    g_remove(file);
    return picture;
}

bool sensitivity_draw(const struct sensitivity *sensitivity, uint64_t device_budget,
                      const char *path, GError **error)
{
    g_autoptr(GString) text = script(sensitivity, device_budget);
    g_autofree char *picture = draw(text, error);
    return picture &&
           (output_file_write(path, picture, error) || failure_mark(error, FAILURE_RUNNING));
}
