#include "planner/proof/cases.h"
#include "planner/proof/bound.h"

#include <string.h>

/* How cases are divided. */
struct case_limits {
    uint32_t operators;  /* for iterations of at most so many */
    uint32_t windows;    /* of a case */
    uint32_t cases;      /* at most */
    uint32_t large_part; /* branches are of groups that are at least this part of the model */
    uint32_t idle; /* after so many divisions that did not raise the bound there are no more */
    double wide;   /* cases are divided while the plan takes longer than the bound by this factor */
    bool central;  /* all cases take prices from the middle, instead of those that decide alone */
};

static const struct case_limits of_proofs[] = {
    {500, TIME_WINDOWS_MOST, CERTIFICATE_CASES_MOST, 200, 12, 1.02, false},
    {2000, 24, CERTIFICATE_CASES_MOST, 200, 12, 1.02, false},
    {UINT32_MAX, 12, 8, 40, 4, 1.02, false}};

/* Mixes need no narrow bounds. */
static const struct case_limits of_mixes = {500, 12, 12, 40, 4, 1.05, true};

/* Of a group that is a branch, either side has at least this share in the mix. */
#define DIVIDED 0.02
/* A division that raises the bound by less than this factor is idle. */
#define BETTER 1.001

/* Windows begin after operators if the iteration has at most ENDED_OPERATORS, if the plan takes
 * ENDED_WIDE times as long as the bound without such windows, and if they raise the bound
 * ENDED_BETTER times. */
enum { ENDED_OPERATORS = 2000 };
#define ENDED_WIDE   1.03
#define ENDED_BETTER 1.004

static struct time_model *make_model(const struct time_job *sides, const struct reuses *reuses,
                                     const GArray *starts)
{
    return time_model_new(sides, reuses, (const struct window_start *)(void *)starts->data,
                          starts->len);
}

/* Finds prices; returns their bound. `on_host` is as for time_prices_find. */
static uint64_t find_prices(const struct time_model *model, uint64_t enough_ns, bool central,
                            struct certificate_prices *found, double *on_host)
{
    g_autoptr(GArray) chains = g_array_new(FALSE, FALSE, sizeof(struct time_chain));
    g_array_set_clear_func(chains, chain_clear);
    found->windows = time_prices_find(model, TIME_PRICES_CLOSE, enough_ns, chains,
                                      &found->host_bytes, on_host, central);
    found->window_count = model->windows->count;
    found->chain_count = chains->len;
    found->chains = g_new(struct certificate_chain, chains->len);
    for (guint r = 0; r < chains->len; r++)
        found->chains[r] = g_array_index(chains, struct time_chain, r).ends;
    const struct time_prices prices = {found->windows,
                                       (const struct time_chain *)(void *)chains->data, chains->len,
                                       found->host_bytes};
    return time_model_bound_ns(model, &prices);
}

static void set_branches(struct time_job *sides, const struct certificate_case *of_case)
{
    sides->branches = of_case->branches;
    sides->branch_count = of_case->branch_count;
    sides->branches_on_host = of_case->on_host;
}

/* ---- the check ---- */

/* Returns whether no window has prices that exceed its time. */
static bool prices_are_possible(const struct time_model *model, const struct time_prices *prices)
{
    uint32_t count = model->windows->count;
    g_autofree uint64_t *sum = g_new(uint64_t, count);
    bool possible = true;
    for (uint32_t w = 0; w < count; w++)
        sum[w] = window_prices(&prices->windows[w]);
    for (uint32_t r = 0; r < prices->chain_count; r++)
        for (uint32_t i = 0; i < prices->chains[r].span; i++)
            sum[(prices->chains[r].window + i) % count] += prices->chains[r].ends.price;
    for (uint32_t w = 0; w < count; w++)
        possible &= sum[w] <= BOUND_PRICE_SCALE;
    return possible;
}

/* Sets the bound of these prices. Returns what is wrong with them, or NULL. */
static const char *recompute_with(const struct time_model *model,
                                  const struct certificate_prices *stated, uint64_t *bound)
{
    g_autoptr(GArray) chains = g_array_new(FALSE, FALSE, sizeof(struct time_chain));
    g_array_set_clear_func(chains, chain_clear);
    for (uint32_t r = 0; r < stated->chain_count; r++) {
        struct time_chain chain;
        if (!chain_make(model->chain_operators, model->windows, &stated->chains[r], &chain))
            return "chains begin or end at invalid moments";
        g_array_append_val(chains, chain);
    }
    const struct time_prices prices = {stated->windows,
                                       (const struct time_chain *)(void *)chains->data, chains->len,
                                       stated->host_bytes};
    if (!prices_are_possible(model, &prices))
        return "the prices of a window exceed its time";
    if (stated->host_bytes && model->host_bytes == UINT64_MAX)
        return "the host's memory has a price, but no limit";
    *bound = time_model_bound_ns(model, &prices);
    return NULL;
}

const char *cases_recompute(struct time_job *sides, const struct reuses *reuses,
                            const struct certificate_case *of_case, uint64_t *bound)
{
    const struct certificate_prices *prices = &of_case->prices;
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(struct window_start));
    for (uint32_t w = 0; w < prices->window_count; w++) {
        const struct window_start start = {prices->windows[w].moment, prices->windows[w].begins};
        g_array_append_val(starts, start);
    }
    *bound = 0;
    set_branches(sides, of_case);
    if (!prices->window_count)
        return prices->chain_count ? "there are chains, but no windows" : NULL;
    if (!time_job_may_begin(sides, (const struct window_start *)(void *)starts->data, starts->len))
        return "windows begin at invalid moments";
    struct time_model *model = make_model(sides, reuses, starts);
    const char *wrong = recompute_with(model, prices, bound);
    time_model_free(model);
    return wrong;
}

/* ---- the search ---- */

/* What is known of a case. */
struct case_state {
    uint64_t bound;
    double *on_host; /* [block_count] the share of each block in its mix */
    uint32_t next;   /* the group that would divide it, or NO_INDEX */
    bool central;    /* its prices were also sought in the middle */
};

/* The cases of a bound while they become more. */
struct case_search {
    struct time_job *sides;
    const struct reuses *reuses;
    const GArray *starts; /* of the windows of cases */
    struct certificate_time *time;
    const struct case_limits *limits;
    struct case_state states[CERTIFICATE_CASES_MOST];
};

/* Chooses windows of forward and backward, at most `most` in equal parts and others at and after
 * `ended` operators, and those of the update. */
static GArray *choose_starts(const struct time_job *sides, const struct reuses *reuses,
                             uint32_t most, uint32_t ended)
{
    GArray *starts = g_array_new(FALSE, FALSE, sizeof(struct window_start));
    time_windows_choose(sides->sides[0], reuses, most, starts);
    time_windows_choose_updates(sides, starts);
    time_windows_choose_ends(sides, ended, starts);
    return starts;
}

/* Chooses fewer windows in equal parts, and others at and after long operators. */
static GArray *choose_ended_starts(const struct time_job *sides, const struct reuses *reuses,
                                   uint32_t most)
{
    return choose_starts(sides, reuses, 2 * most / 3, most / 3);
}

/* Returns the bytes of each group. The caller frees them. */
static uint64_t *weigh_groups(const struct layout *layout)
{
    uint64_t *bytes = g_new0(uint64_t, layout->group_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        bytes[layout->chunks[c].group] += layout->chunks[c].slot_bytes;
    return bytes;
}

/* Returns the group to divide a case by: of the large ones that its mix divides, the one of which
 * the mix has the most on the lesser side. NO_INDEX if there is none. */
static uint32_t choose_branch(const struct case_search *search,
                              const struct certificate_case *of_case, const double *on_host)
{
    const struct layout *layout = search->sides->plan->layout;
    g_autofree uint64_t *bytes = weigh_groups(layout);
    uint64_t total = 0;
    double most = 0;
    uint32_t best = NO_INDEX;
    for (uint32_t g = 0; g < layout->group_count; g++)
        total += bytes[g];
    for (uint32_t g = 0; g < layout->group_count; g++) {
        double divided = MIN(on_host[g], 1 - on_host[g]);
        if (bytes[g] < total / search->limits->large_part || divided < DIVIDED ||
            divided * (double)bytes[g] <= most)
            continue;
        most = divided * (double)bytes[g];
        best = g;
    }
    return of_case->branch_count < CERTIFICATE_BRANCHES_MOST ? best : NO_INDEX;
}

/* Proves the case numbered `i`, which has branches and no prices. With `central`, prices are also
 * sought in the middle. */
static void prove_case(struct case_search *search, uint32_t i, const GArray *starts,
                       uint64_t enough_ns, bool central)
{
    struct certificate_case *of_case = &search->time->cases[i];
    set_branches(search->sides, of_case);
    struct time_model *model = make_model(search->sides, search->reuses, starts);
    struct case_state *state = &search->states[i];
    state->on_host = g_new(double, 2 * (size_t)model->block_count);
    state->central = central;
    state->bound = find_prices(model, enough_ns, central, &of_case->prices, state->on_host);
    state->next = search->time->either_side ? choose_branch(search, of_case, state->on_host)
                                            : NO_INDEX;
    time_model_free(model);
}

static struct certificate_prices copy_prices(const struct certificate_prices *prices)
{
    return (struct certificate_prices){
        g_memdup2(prices->windows, prices->window_count * sizeof *prices->windows),
        prices->window_count,
        g_memdup2(prices->chains, prices->chain_count * sizeof *prices->chains),
        prices->chain_count, prices->host_bytes};
}

/* Takes the prices of `other`, which is the same case, if their bound is larger; else frees them.
 */
static void take_better(struct case_search *search, uint32_t i, struct certificate_case *other,
                        uint64_t bound)
{
    struct certificate_case *of_case = &search->time->cases[i];
    bool better = bound > search->states[i].bound;
    certificate_prices_clear(better ? &of_case->prices : &other->prices);
    if (!better)
        return;
    *of_case = *other;
    search->states[i].bound = bound;
}

/* Proves one side of a case that is divided. What was proved of both sides holds for it, too. */
static void prove_side(struct case_search *search, uint32_t i,
                       const struct certificate_prices *of_both)
{
    struct certificate_case *of_case = &search->time->cases[i];
    struct certificate_case before = *of_case;
    uint64_t bound;
    prove_case(search, i, search->starts, search->time->achieved, search->limits->central);
    before.prices = copy_prices(of_both);
    if (cases_recompute(search->sides, search->reuses, &before, &bound))
        bound = 0;
    take_better(search, i, &before, bound);
}

/* Divides a case by the side of its next group. */
static void divide(struct case_search *search, uint32_t i)
{
    struct certificate_time *time = search->time;
    struct certificate_case *left = &time->cases[i], *right = left + 1;
    struct certificate_prices of_both = left->prices;
    uint32_t behind = time->case_count - i;
    left->prices = (struct certificate_prices){0};
    left->branches[left->branch_count++] = search->states[i].next;
    g_free(search->states[i].on_host);
    memmove(right, left, behind * sizeof *left);
    memmove(&search->states[i + 1], &search->states[i], behind * sizeof *search->states);
    right->on_host |= UINT32_C(1) << (right->branch_count - 1);
    time->case_count++;
    prove_side(search, i, &of_both);
    prove_side(search, i + 1, &of_both);
    certificate_prices_clear(&of_both);
}

static uint32_t find_weakest(const struct case_search *search)
{
    uint32_t weakest = 0;
    for (uint32_t i = 1; i < search->time->case_count; i++)
        if (search->states[i].bound < search->states[weakest].bound)
            weakest = i;
    return weakest;
}

/* Seeks prices of a case that cannot be divided in the middle, too, which takes longer. Returns
 * false if that was done. */
static bool prove_centrally(struct case_search *search, uint32_t i)
{
    struct certificate_case *of_case = &search->time->cases[i];
    struct case_state *state = &search->states[i];
    if (state->central)
        return false;
    struct certificate_case again = *of_case;
    again.prices = (struct certificate_prices){0};
    set_branches(search->sides, &again);
    struct time_model *model = make_model(search->sides, search->reuses, search->starts);
    g_autofree double *on_host = g_new(double, 2 * (size_t)model->block_count);
    uint64_t bound = find_prices(model, search->time->achieved, true, &again.prices, on_host);
    time_model_free(model);
    state->central = true;
    take_better(search, i, &again, bound);
    return true;
}

/* Returns whether the plan takes longer than the bound of a case by this factor. */
static bool is_wide(const struct case_search *search, uint32_t i, double factor)
{
    return (double)search->time->achieved > factor * (double)search->states[i].bound;
}

/* Divides the weakest case again and again, because the bound is the least of all, as long as that
 * helps. */
static void divide_cases(struct case_search *search)
{
    const struct certificate_time *time = search->time;
    uint32_t weakest = 0, idle = 0;
    double reached = (double)search->states[0].bound;
    while (idle < search->limits->idle && is_wide(search, weakest, search->limits->wide) &&
           proof_goes_on(search->sides->watch)) {
        bool divisible = search->states[weakest].next != NO_INDEX &&
                         time->case_count < search->limits->cases;
        if (divisible)
            divide(search, weakest);
        else if (!prove_centrally(search, weakest))
            break;
        weakest = find_weakest(search);
        bool better = (double)search->states[weakest].bound > BETTER * reached;
        idle = better ? 0 : idle + 1;
        reached = better ? (double)search->states[weakest].bound : reached;
    }
    search->time->bound = search->states[weakest].bound;
}

static void free_states(struct case_search *search)
{
    for (uint32_t i = 0; i < search->time->case_count; i++)
        g_free(search->states[i].on_host);
}

static const struct case_limits *limits_of_proof(uint32_t operators)
{
    const struct case_limits *limits = of_proofs;
    while (operators > limits->operators)
        limits++;
    return limits;
}

/* Proves the whole case again, with windows after operators. Cases have such windows, too, if that
 * raises the bound. Otherwise all is as before. Prices in the middle would take most of the time,
 * mostly in vain; if the case decides the bound in the end, they are sought then. */
static void prove_with_ends(struct case_search *search, const GArray *of_whole,
                            const GArray *of_cases)
{
    struct certificate_case *whole = &search->time->cases[0], before = *whole;
    struct case_state *state = &search->states[0], state_before = *state;
    *whole = (struct certificate_case){0};
    prove_case(search, 0, of_whole, UINT64_MAX, false);
    bool better = (double)state->bound > ENDED_BETTER * (double)state_before.bound;
    certificate_prices_clear(better ? &before.prices : &whole->prices);
    g_free(better ? state_before.on_host : state->on_host);
    if (better) {
        search->starts = of_cases;
    } else {
        *whole = before;
        *state = state_before;
    }
}

bool cases_prove(struct time_job *sides, const struct reuses *reuses, struct certificate_time *time)
{
    struct case_search search = {.sides = sides,
                                 .reuses = reuses,
                                 .time = time,
                                 .limits = limits_of_proof(reuses->moment_count)};
    uint32_t windows = search.limits->windows;
    g_autoptr(GArray) starts = choose_starts(sides, reuses, TIME_WINDOWS_MOST, 0);
    g_autoptr(GArray) fewer = choose_starts(sides, reuses, windows, 0);
    time->case_count = 1;
    if (!starts->len)
        return false;
    search.starts = fewer;
    prove_case(&search, 0, starts, UINT64_MAX, true);
    g_autoptr(GArray) ended = NULL;
    g_autoptr(GArray) fewer_ended = NULL;
    if (time_windows_may_end(sides) && reuses->moment_count <= ENDED_OPERATORS &&
        is_wide(&search, 0, ENDED_WIDE) && proof_goes_on(sides->watch)) {
        ended = choose_ended_starts(sides, reuses, TIME_WINDOWS_MOST);
        fewer_ended = choose_ended_starts(sides, reuses, windows);
        prove_with_ends(&search, ended, fewer_ended);
    }
    divide_cases(&search);
    free_states(&search);
    return true;
}

uint32_t cases_find_mixes(struct time_job *sides, const struct reuses *reuses, uint64_t achieved_ns,
                          double *mixes[CASES_MIXES])
{
    struct certificate_time time = {.achieved = achieved_ns, .either_side = true, .case_count = 1};
    struct case_search search = {
        .sides = sides, .reuses = reuses, .time = &time, .limits = &of_mixes};
    g_autoptr(GArray) starts = choose_starts(sides, reuses, of_mixes.windows, 0);
    uint32_t count = 0;
    if (!starts->len || reuses->moment_count > of_mixes.operators)
        return 0;
    search.starts = starts;
    prove_case(&search, 0, starts, UINT64_MAX, true);
    divide_cases(&search);
    for (; count < MIN(time.case_count, CASES_MIXES) && time.case_count > 1; count++) {
        uint32_t weakest = find_weakest(&search);
        mixes[count] = g_steal_pointer(&search.states[weakest].on_host);
        search.states[weakest].bound = UINT64_MAX;
    }
    free_states(&search);
    for (uint32_t i = 0; i < time.case_count; i++)
        certificate_prices_clear(&time.cases[i].prices);
    return count;
}
