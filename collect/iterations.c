#include "collect/iterations.h"

#include "traces/activity/steps.h"

#include <glib.h>
#include <string.h>

bool step_marks_is_step(const char *text)
{
    static const char *const words[] = {
        "profilerstep", "iteration",     "iter",          "step",        "train_step",
        "train step",   "training_step", "training step", "global_step", "batch"};
    size_t digits = strlen(text), end;
    while (digits > 0 && g_ascii_isdigit(text[digits - 1]))
        digits--;
    for (end = digits; end > 0 && strchr(" _#:-=", text[end - 1]); end--)
        ;
    if (text[digits] == '\0')
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (strlen(words[i]) == end && g_ascii_strncasecmp(text, words[i], end) == 0)
            return true;
    return false;
}

bool step_marks_is_optimizer(const char *text)
{
    return g_str_has_prefix(text, "Optimizer.step#");
}

enum {
    FIRST_SEARCH = 32,
    MOST_LAUNCHES = 1 << 20, /* after which the search is given up */
    REPETITIONS = 4,         /* required if the host waits in each repetition */
    REPETITIONS_WITHOUT_WAIT = 150,
    LENGTHS_WITHOUT_UPDATE = 32, /* since a step may have many micro-batches */
    ENDING = 2,                  /* runs of equal launches that identify the end of an iteration */
    MOST_PARTS = 6,              /* iterations that may be mistaken for one */
    MOST_STRAYED = 32 /* in lengths of an iteration; an evaluation between two steps is shorter */
};

static const double needed_alike = 0.9, shortest = 0.8, longest = 1.25;

struct symbol {
    char *name;
    uint32_t number;
};

/* Runs of equal consecutive launches, such as kernels of an optimizer, one per tensor. */
struct runs {
    uint32_t symbols[ENDING]; /* the newest last */
    uint32_t count;           /* number of runs */
    uint32_t newest_length;
};

struct launch_pattern {
    GHashTable *by_name;    /* struct symbol */
    GHashTable *by_address; /* address of the name in the program to struct symbol */
    GArray *symbols;        /* uint32_t, all launches until the pattern is found */
    GArray *times;          /* uint64_t */
    GArray *optimizer;      /* bool by symbol; its name belongs to an optimizer */
    GArray *backward;       /* bool by symbol; its name belongs to backward */
    uint32_t next_search;
    struct period period; /* length 0 if not found */
    uint32_t passed;
    struct runs ending, last; /* the end of an iteration, and the latest launches */
    uint32_t since;           /* launches since the last end of an iteration */
    bool waits;               /* the host waits in each repetition */
    bool no_update;           /* repetitions have backward kernels but no optimizer's */
    bool updated;             /* an optimizer's kernel was launched */
    uint32_t before_backward; /* launches before the first backward kernel */
    bool strayed;             /* the repetition has stopped, until its end occurs again */
};

static const uint32_t WAIT = 0;

static void free_symbol(void *data)
{
    struct symbol *symbol = data;
    g_free(symbol->name);
    g_free(symbol);
}

struct launch_pattern *launch_pattern_new(void)
{
    struct launch_pattern *pattern = g_new0(struct launch_pattern, 1);
    pattern->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_symbol);
    pattern->by_address = g_hash_table_new(NULL, NULL);
    pattern->symbols = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    pattern->times = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    pattern->optimizer = g_array_new(FALSE, TRUE, sizeof(bool));
    pattern->backward = g_array_new(FALSE, TRUE, sizeof(bool));
    g_array_set_size(pattern->optimizer, WAIT + 1);
    g_array_set_size(pattern->backward, WAIT + 1);
    pattern->next_search = FIRST_SEARCH;
    return pattern;
}

void launch_pattern_free(struct launch_pattern *pattern)
{
    if (!pattern)
        return;
    g_hash_table_unref(pattern->by_address);
    g_hash_table_unref(pattern->by_name);
    g_array_unref(pattern->symbols);
    g_array_unref(pattern->times);
    g_array_unref(pattern->optimizer);
    g_array_unref(pattern->backward);
    g_free(pattern);
}

/* An address may get another name when a module is unloaded. */
static uint32_t number_of(struct launch_pattern *pattern, const char *kernel)
{
    if (!kernel)
        return WAIT;
    struct symbol *symbol = g_hash_table_lookup(pattern->by_address, kernel);
    if (symbol && strcmp(symbol->name, kernel) == 0)
        return symbol->number;
    symbol = g_hash_table_lookup(pattern->by_name, kernel);
    if (!symbol) {
        symbol = g_new(struct symbol, 1);
        symbol->name = g_strdup(kernel);
        symbol->number = pattern->optimizer->len;
        bool optimizer = kernel_words_optimizer(kernel), backward = kernel_words_backward(kernel);
        g_array_append_val(pattern->optimizer, optimizer);
        g_array_append_val(pattern->backward, backward);
        g_hash_table_insert(pattern->by_name, symbol->name, symbol);
    }
    g_hash_table_insert(pattern->by_address, (void *)kernel, symbol);
    return symbol->number;
}

static uint32_t symbol_at(const struct launch_pattern *pattern, uint32_t place)
{
    return g_array_index(pattern->symbols, uint32_t, place);
}

static bool is_optimizer(const struct launch_pattern *pattern, uint32_t symbol)
{
    return g_array_index(pattern->optimizer, bool, symbol);
}

/* Returns the average time, over the repetitions, between the launch before `place` and the one at
 * `place`. */
static double gap_at(const struct launch_pattern *pattern, uint32_t place)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = place; i < pattern->times->len; i += pattern->period.length) {
        if (i == 0)
            continue;
        sum += (double)(g_array_index(pattern->times, uint64_t, i) -
                        g_array_index(pattern->times, uint64_t, i - 1));
        count++;
    }
    return count > 0 ? sum / count : 0;
}

/* Returns the optimizer's kernel with the longest run of other launches behind it; -1 if none is
 * found by name. */
static int64_t last_of_optimizer(const struct launch_pattern *pattern)
{
    uint32_t length = pattern->period.length, begin = pattern->symbols->len - 2 * length;
    uint32_t previous = UINT32_MAX, most = 0;
    int64_t last = -1;
    for (uint32_t i = begin; i < begin + 2 * length; i++) {
        if (!is_optimizer(pattern, symbol_at(pattern, i)))
            continue;
        if (previous != UINT32_MAX && i - previous > most) {
            most = i - previous;
            last = previous;
        }
        previous = i;
    }
    return last;
}

/* Returns the longest wait of the host, or the launch before the longest pause. */
static uint32_t longest_pause(const struct launch_pattern *pattern)
{
    uint32_t length = pattern->period.length, begin = pattern->symbols->len - length;
    uint32_t place = begin;
    double most = -1;
    for (uint32_t i = begin; i < begin + length; i++) {
        bool wait = symbol_at(pattern, i) == WAIT;
        uint32_t in_first = pattern->period.first + (i - pattern->period.first) % length;
        double gap = gap_at(pattern, in_first);
        if (pattern->waits && !wait)
            continue;
        if (gap > most) {
            most = gap;
            place = wait ? i : i - 1;
        }
    }
    return place;
}

static void add_to_runs(struct runs *runs, uint32_t symbol)
{
    bool same = runs->newest_length > 0 && runs->symbols[ENDING - 1] == symbol;
    runs->newest_length = same ? runs->newest_length + 1 : 1;
    if (same)
        return;
    memmove(runs->symbols, runs->symbols + 1, sizeof runs->symbols - sizeof runs->symbols[0]);
    runs->symbols[ENDING - 1] = symbol;
    runs->count = MIN(runs->count + 1, ENDING);
}

/* Returns whether the newest run is as long as the ending's and the runs before it have the same
 * symbols. */
static bool runs_end(const struct runs *last, const struct runs *ending)
{
    uint32_t compared = MIN(last->count, ending->count);
    return compared > 0 && last->newest_length == ending->newest_length &&
           memcmp(last->symbols + ENDING - compared, ending->symbols + ENDING - compared,
                  compared * sizeof last->symbols[0]) == 0;
}

/* Returns the last runs of an iteration that ends at `place`. */
static struct runs runs_before(const struct launch_pattern *pattern, uint32_t place,
                               uint32_t length)
{
    struct runs runs = {0};
    for (uint32_t i = place + 1 - MIN(length, place + 1); i <= place; i++)
        add_to_runs(&runs, symbol_at(pattern, i));
    return runs;
}

/* Returns whether the launches up to `place` and up to `other` are the same kernels, apart from a
 * tenth. */
static bool same_kernels(const struct launch_pattern *pattern, uint32_t place, uint32_t other,
                         uint32_t length)
{
    g_autofree int32_t *counts = g_new0(int32_t, pattern->optimizer->len);
    uint32_t different = 0;
    for (uint32_t i = 0; i < length; i++) {
        counts[symbol_at(pattern, place - i)]++;
        counts[symbol_at(pattern, other - i)]--;
    }
    for (guint symbol = 0; symbol < pattern->optimizer->len; symbol++)
        different += (uint32_t)ABS(counts[symbol]);
    return different <= (1 - needed_alike) * 2 * length;
}

/* Returns whether the iteration that ends at `end` is `back` launches long. */
static bool is_length(const struct launch_pattern *pattern, uint32_t end, uint32_t back)
{
    if (back == 0 || end + 1 < 2 * back)
        return false;
    struct runs runs = runs_before(pattern, end - back, back);
    return runs_end(&runs, &pattern->ending) && same_kernels(pattern, end, end - back, back);
}

/* Divides a period that consists of several iterations. If each iteration differs by a launch,
 * several of them may repeat sooner than one. */
static void divide(struct launch_pattern *pattern, uint32_t end)
{
    uint32_t whole = pattern->period.length;
    for (uint32_t parts = MOST_PARTS; parts > 1; parts--) {
        uint32_t length = whole / parts, slack = length / 20 + 1;
        for (uint32_t back = length - MIN(slack, length); back <= length + slack; back++) {
            if (!is_length(pattern, end, back))
                continue;
            pattern->period.length = back;
            pattern->passed += (parts - 1) * pattern->period.count;
            return;
        }
    }
}

/* Sets how an iteration ends and how many launches ago the last one did. */
static void find_end(struct launch_pattern *pattern)
{
    uint32_t count = pattern->symbols->len;
    int64_t optimizer = last_of_optimizer(pattern);
    uint32_t end = optimizer >= 0 ? (uint32_t)optimizer : longest_pause(pattern);
    pattern->ending = runs_before(pattern, end, pattern->period.length);
    divide(pattern, end);
    uint32_t length = pattern->period.length;
    pattern->last = (struct runs){0};
    pattern->since = 0;
    for (uint32_t i = end + 1; i < count; i++) {
        add_to_runs(&pattern->last, symbol_at(pattern, i));
        pattern->since++;
        if (pattern->since >= shortest * length && runs_end(&pattern->last, &pattern->ending)) {
            pattern->since = 0;
            pattern->last = (struct runs){0};
        }
    }
}

/* Returns whether the host waits in each repetition, always at the same place. */
static bool waits_repeat(const struct launch_pattern *pattern, const struct period *period)
{
    uint32_t waits = 0, count = pattern->symbols->len;
    for (uint32_t i = period->first; i < count; i++) {
        if (symbol_at(pattern, i) != WAIT)
            continue;
        waits++;
        if (i + period->length < count && symbol_at(pattern, i + period->length) != WAIT)
            return false;
    }
    /* The first repetition may belong to what came before. */
    return waits >= REPETITIONS && waits + 1 >= period->count;
}

/* Returns the number of repetitions that contain a symbol of the set. */
static uint32_t count_with(const struct launch_pattern *pattern, const struct period *period,
                           const GArray *set)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < period->count; r++) {
        uint32_t i = period->first + r * period->length, end = i + period->length;
        while (i < end && !g_array_index(set, bool, symbol_at(pattern, i)))
            i++;
        count += i < end;
    }
    return count;
}

/* Excludes micro-batches, which repeat more often than their step. If kernels of an optimizer are
 * found by name, each repetition must have some. Otherwise no such kernel may occur for a long
 * time. */
static bool has_updates(struct launch_pattern *pattern, const struct period *period)
{
    uint32_t updates = count_with(pattern, period, pattern->optimizer);
    pattern->no_update = updates == 0 && count_with(pattern, period, pattern->backward) > 0;
    if (!pattern->no_update)
        return updates == 0 || updates + 1 >= period->count;
    uint32_t trained = pattern->symbols->len - pattern->before_backward;
    return !pattern->updated && trained / LENGTHS_WITHOUT_UPDATE >= period->length;
}

static bool is_sure(struct launch_pattern *pattern, const struct period *period)
{
    if (period->length == 0 || period->alike < needed_alike || period->count < REPETITIONS)
        return false;
    pattern->waits = waits_repeat(pattern, period);
    return pattern->waits || period->count >= REPETITIONS_WITHOUT_WAIT;
}

/* Searches the launches from `begin` on. With `wait_ends`, waits of the host end what repeats. */
static bool find(struct launch_pattern *pattern, uint32_t begin, bool wait_ends,
                 struct period *period)
{
    uint32_t count = pattern->symbols->len - begin, symbols = pattern->optimizer->len;
    const uint32_t *sequence = &g_array_index(pattern->symbols, uint32_t, begin);
    g_autofree bool *ending = g_memdup2(pattern->optimizer->data, symbols * sizeof(bool));
    ending[WAIT] = wait_ends;
    *period = period_find(sequence, count, symbols, ending);
    period->first += begin;
    return is_sure(pattern, period);
}

/* Searches in fewer and fewer of the newest launches, because additional launches now and then
 * limit repetitions to short stretches. */
static void search(struct launch_pattern *pattern)
{
    uint32_t count = pattern->symbols->len;
    pattern->next_search = count + count / 8;
    for (uint32_t begin = 0; count - begin >= FIRST_SEARCH; begin += (count - begin + 1) / 2) {
        struct period period;
        bool by_wait = !pattern->updated && find(pattern, begin, true, &period);
        if (!by_wait && !find(pattern, begin, false, &period))
            continue;
        if (!has_updates(pattern, &period)) {
            if (!pattern->updated) /* search later, since in fewer launches micro-batches may be
                                      found */
                return;
            continue;
        }
        pattern->period = period;
        pattern->passed += period.count;
        find_end(pattern);
        g_array_set_size(pattern->symbols, 0);
        g_array_set_size(pattern->times, 0);
        pattern->before_backward = 0;
        return;
    }
}

static enum launch_place follow(struct launch_pattern *pattern, uint32_t symbol)
{
    uint32_t length = pattern->period.length;
    add_to_runs(&pattern->last, symbol);
    pattern->since++;
    if (pattern->since >= shortest * length && runs_end(&pattern->last, &pattern->ending)) {
        pattern->since = 0;
        pattern->last = (struct runs){0};
        pattern->strayed = false;
        return LAUNCH_LAST;
    }
    if (pattern->since <= longest * length)
        return LAUNCH_WITHIN;
    if (pattern->since > MOST_STRAYED * length ||
        (pattern->no_update && is_optimizer(pattern, symbol))) {
        pattern->period = (struct period){0};
        pattern->next_search = FIRST_SEARCH;
    }
    bool news = !pattern->strayed;
    pattern->strayed = pattern->period.length > 0;
    return news ? LAUNCH_LOST : LAUNCH_UNKNOWN;
}

enum launch_place launch_pattern_add(struct launch_pattern *pattern, const char *kernel,
                                     uint64_t now_ns)
{
    uint32_t symbol = number_of(pattern, kernel);
    pattern->updated = pattern->updated || is_optimizer(pattern, symbol);
    if (pattern->period.length > 0)
        return follow(pattern, symbol);
    if (pattern->symbols->len == MOST_LAUNCHES)
        return LAUNCH_NEVER;
    g_array_append_val(pattern->symbols, symbol);
    g_array_append_val(pattern->times, now_ns);
    if (pattern->symbols->len == pattern->before_backward + 1 &&
        !g_array_index(pattern->backward, bool, symbol))
        pattern->before_backward++;
    if (pattern->symbols->len >= pattern->next_search)
        search(pattern);
    if (pattern->period.length == 0)
        return LAUNCH_UNKNOWN;
    return pattern->since == 0 ? LAUNCH_LAST : LAUNCH_WITHIN;
}

uint32_t launch_pattern_passed(const struct launch_pattern *pattern)
{
    return pattern->passed;
}

char *launch_pattern_describe(const struct launch_pattern *pattern)
{
    const char *doubt = pattern->no_update ? "; none is of an optimizer: if there are many "
                                             "micro-batches to an update, each counts as one"
                                           : "";
    return g_strdup_printf("%u launches and waits that repeat, %.1f %% alike, found after %u "
                           "times%s",
                           pattern->period.length, 100 * pattern->period.alike, pattern->passed,
                           doubt);
}
