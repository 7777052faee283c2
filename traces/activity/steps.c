#include "traces/activity/steps.h"

#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A symbol that occurs n times per step recurs one step later as its n-th next occurrence. */
enum { MOST_A_STEP = 12, CANDIDATES = 256 };

static const double worst_alike = 0.75, steady = 0.8, endings_alike = 0.5;

struct lag {
    uint32_t length;
    double votes;
};

static int most_votes(const void *left, const void *right)
{
    const struct lag *a = (const struct lag *)left, *b = (const struct lag *)right;
    if (a->votes != b->votes)
        return a->votes > b->votes ? -1 : 1;
    return a->length < b->length ? -1 : 1;
}

/* Counts a run of equal kernels of an optimizer, which launches one per tensor, once. */
static bool is_counted(const uint32_t *sequence, uint32_t place, const bool *ending)
{
    uint32_t symbol = sequence[place];
    return !ending || !ending[symbol] || place == 0 || sequence[place - 1] != symbol;
}

/* Counts each distance from a symbol to its n-th next occurrence [length / 2 + 1]. A vote is
 * weighted by the inverse frequency of the symbol, so that rare symbols count; symbols that end a
 * step count most. */
static struct lag *count_lags(const uint32_t *sequence, uint32_t length, uint32_t symbols,
                              const bool *ending)
{
    uint32_t longest = length / 2;
    struct lag *lags = g_new0(struct lag, (size_t)longest + 1);
    uint32_t *last = g_new(uint32_t,
                           (size_t)symbols * MOST_A_STEP); /* ring of positions per symbol */
    uint32_t *seen = g_new0(uint32_t, symbols), *total = g_new0(uint32_t, symbols);
    for (uint32_t i = 0; i < length; i++)
        total[sequence[i]] += is_counted(sequence, i, ending);
    for (uint32_t i = 0; i < length; i++) {
        uint32_t symbol = sequence[i], *places = &last[(size_t)symbol * MOST_A_STEP];
        uint32_t known = MIN(seen[symbol], MOST_A_STEP);
        double weight = (ending && ending[symbol] ? symbols : 1.0) / total[symbol];
        if (!is_counted(sequence, i, ending))
            continue;
        for (uint32_t n = 1; n <= known; n++) {
            uint32_t lag = i - places[(seen[symbol] - n) % MOST_A_STEP];
            if (lag <= longest)
                lags[lag].votes += weight;
        }
        places[seen[symbol]++ % MOST_A_STEP] = i;
    }
    for (uint32_t l = 0; l <= longest; l++)
        lags[l].length = l;
    g_free(last);
    g_free(seen);
    g_free(total);
    return lags;
}

/* Returns the share of symbols in the later half, where the run is steady, that recur `lag` later.
 */
static double share_alike(const uint32_t *sequence, uint32_t length, uint32_t lag)
{
    uint32_t begin = (length - lag) / 2, same = 0;
    for (uint32_t i = begin; i + lag < length; i++)
        same += sequence[i] == sequence[i + lag];
    return (double)same / (double)(length - lag - begin);
}

/* Returns whether at least half of the ending symbols in the later half recur `lag` later. For the
 * last ones, earlier occurrences count. */
static bool endings_repeat(const uint32_t *sequence, uint32_t length, uint32_t lag,
                           const bool *ending)
{
    uint32_t endings = 0, same = 0;
    for (uint32_t i = (length - lag) / 2; ending && i < length; i++) {
        uint32_t other = i + lag < length ? i + lag : i - lag;
        endings += ending[sequence[i]];
        same += ending[sequence[i]] && sequence[i] == sequence[other];
    }
    return same >= endings_alike * endings;
}

/* Returns the difference below which two shares of a sequence may be equal apart from chance. */
static double tolerance(uint32_t length)
{
    return 0.01 + 1.5 / sqrt(length);
}

/* Extends the period from the end backwards while whole repetitions are alike. */
static struct period find_steady(const uint32_t *sequence, uint32_t length, uint32_t lag)
{
    uint32_t begin = length - lag, same = 0;
    while (begin >= lag) {
        uint32_t equal = 0;
        for (uint32_t i = begin - lag; i < begin; i++)
            equal += sequence[i] == sequence[i + lag];
        if (equal < steady * lag)
            break;
        begin -= lag;
        same += equal;
    }
    uint32_t count = (length - begin) / lag;
    return (struct period){.length = lag,
                           .first = begin,
                           .count = count,
                           .alike = count > 1 ? same / ((double)lag * (count - 1)) : 0};
}

/* Chooses the shortest good lag. A lag of layers may outweigh the rest of a step, but it does not
 * hold until the end of the run; a step does. */
static struct period choose(const uint32_t *sequence, uint32_t length, struct lag *lags,
                            const bool *ending)
{
    struct period chosen = {0};
    uint32_t count = length / 2 + 1;
    double shares[CANDIDATES] = {0}, best = 0;
    qsort(lags, count, sizeof(struct lag), most_votes);
    for (uint32_t c = 0; c < MIN(count, CANDIDATES) && lags[c].votes > 0; c++) {
        if (endings_repeat(sequence, length, lags[c].length, ending))
            shares[c] = share_alike(sequence, length, lags[c].length);
        best = MAX(best, shares[c]);
    }
    for (uint32_t c = 0; c < MIN(count, CANDIDATES) && best >= worst_alike; c++) {
        if (shares[c] < best - tolerance(length) || lags[c].length == 0 ||
            (chosen.length > 0 && lags[c].length > chosen.length))
            continue;
        struct period period = find_steady(sequence, length, lags[c].length);
        if (period.count >= 2 && length - period.first >= length / 2)
            chosen = period;
    }
    return chosen;
}

struct period period_find(const uint32_t *sequence, uint32_t length, uint32_t symbols,
                          const bool *ending)
{
    if (length < 2)
        return (struct period){0};
    struct lag *lags = count_lags(sequence, length, symbols, ending);
    struct period period = choose(sequence, length, lags, ending);
    g_free(lags);
    return period;
}

static bool has_word(const char *lower, const char *const *words)
{
    for (; *words; words++)
        if (strstr(lower, *words))
            return true;
    return false;
}

/* Excludes "lambda", which many kernel names contain. */
static bool has_lamb(const char *lower)
{
    const char *lamb = lower;
    while ((lamb = strstr(lamb, "lamb")) && g_str_has_prefix(lamb, "lambda"))
        lamb += strlen("lambda");
    return lamb != NULL;
}

bool kernel_words_optimizer(const char *name)
{
    static const char *const words[] = {"adam",      "sgd",     "optimizer", "multi_tensor_apply",
                                        "adagrad",   "rmsprop", "adadelta",  "shampoo",
                                        "adafactor", "muon",    "sophia",    "_lion",
                                        "lion_",     NULL};
    g_autofree char *lower = g_ascii_strdown(name, -1);
    return has_word(lower, words) || has_lamb(lower);
}

bool kernel_words_backward(const char *name)
{
    static const char *const words[] = {"backward", "bwd",   "dgrad", "wgrad",
                                        "_grad",    "grad_", NULL};
    g_autofree char *lower = g_ascii_strdown(name, -1);
    return has_word(lower, words);
}

/* Returns the stream with the most kernels. */
static uint32_t busiest_stream(const struct activity *activity, uint32_t device)
{
    g_autoptr(GHashTable) counts = g_hash_table_new(NULL, NULL);
    uint32_t busiest = 0, most = 0;
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        gpointer key = GUINT_TO_POINTER(kernel->stream);
        if (kernel->device != device)
            continue;
        uint32_t count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, key)) + 1;
        g_hash_table_insert(counts, key, GUINT_TO_POINTER(count));
        if (count > most) {
            most = count;
            busiest = kernel->stream;
        }
    }
    return busiest;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t median_step(const struct period *period, const GArray *starts)
{
    g_autoptr(GArray) times = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t s = 0; s + 1 < period->count; s++) {
        uint32_t at = period->first + s * period->length;
        uint64_t time_ns = g_array_index(starts, uint64_t, at + period->length) -
                           g_array_index(starts, uint64_t, at);
        g_array_append_val(times, time_ns);
    }
    g_array_sort(times, by_size);
    return times->len > 0 ? g_array_index(times, uint64_t, times->len / 2) : 0;
}

/* Maps string ids to dense numbers. */
static uint32_t symbol_of(GHashTable *symbols, uint32_t name)
{
    gpointer key = GUINT_TO_POINTER(name);
    uint32_t symbol = GPOINTER_TO_UINT(g_hash_table_lookup(symbols, key));
    if (symbol == 0) {
        symbol = g_hash_table_size(symbols) + 1;
        g_hash_table_insert(symbols, key, GUINT_TO_POINTER(symbol));
    }
    return symbol - 1;
}

/* Moves the period to the begin of a step. Repetitions begin where the recording began. A step
 * begins after the last kernel of an optimizer, which the longest run without such kernels shows.
 */
static void begin_after_update(struct period *period, const GArray *names, const GArray *ending)
{
    uint32_t last = 0, begin = 0, longest = 0;
    bool seen = false;
    for (uint32_t i = 0; i < 2 * period->length; i++) {
        if (!g_array_index(ending, bool, g_array_index(names, uint32_t, period->first + i)))
            continue;
        if (seen && i - last > longest) {
            longest = i - last;
            begin = last + 1;
        }
        seen = true;
        last = i;
    }
    if (period->length == 0 || begin % period->length == 0)
        return;
    period->first += begin % period->length;
    period->count--;
}

struct period activity_steps(const struct activity *activity, const struct records *records,
                             uint32_t device, uint64_t *step_ns)
{
    g_autoptr(GHashTable) symbols = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) ending = g_array_new(FALSE, FALSE, sizeof(bool));
    g_autoptr(GArray) names = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint32_t stream = busiest_stream(activity, device);
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        if (kernel->device != device || kernel->stream != stream)
            continue;
        uint32_t symbol = symbol_of(symbols, kernel->name);
        if (symbol == ending->len) {
            bool ends = kernel_words_optimizer(records_text(records, kernel->name));
            g_array_append_val(ending, ends);
        }
        g_array_append_val(names, symbol);
        g_array_append_val(starts, kernel->start_ns);
    }
    struct period period = period_find((const uint32_t *)(void *)names->data, names->len,
                                       ending->len, (const bool *)(void *)ending->data);
    *step_ns = median_step(&period, starts);
    begin_after_update(&period, names, ending);
    return period;
}

const struct kernel_record *activity_steps_kernel(const struct activity *activity, uint32_t device,
                                                  uint32_t place)
{
    uint32_t stream = busiest_stream(activity, device);
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        if (kernel->device == device && kernel->stream == stream && place-- == 0)
            return kernel;
    }
    return &activity->kernels[activity->kernel_count - 1];
}
