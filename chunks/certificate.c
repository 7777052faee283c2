#include "chunks/certificate.h"

#include "base/files.h"
#include "chunks/plan.h"

#include <math.h>
#include <string.h>

#define SEAL_KEY "\"seal\":\""

double certificate_gap(uint64_t achieved, uint64_t bound)
{
    if (achieved == bound)
        return 0;
    return bound ? ((double)achieved - (double)bound) / (double)bound : INFINITY;
}

void certificate_alternatives_free(struct certificate_alternative *alternatives, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        run_choices_free(alternatives[i].choices);
    g_free(alternatives);
}

const char *certificate_outcome_name(enum certificate_outcome outcome)
{
    static const char *const names[] = {[CERTIFICATE_SEARCHED] = "searched",
                                        [CERTIFICATE_BOUNDED] = "bounded",
                                        [CERTIFICATE_DOES_NOT_FIT] = "does not fit"};
    return names[outcome];
}

struct certificate_price *certificate_room_prices(const uint64_t *price, uint32_t moment_count,
                                                  uint32_t *count)
{
    g_autoptr(GArray) prices = g_array_new(FALSE, FALSE, sizeof(struct certificate_price));
    for (uint32_t m = 0; m < moment_count; m++) {
        const struct certificate_price item = {m, price[m]};
        if (price[m])
            g_array_append_val(prices, item);
    }
    gsize length;
    struct certificate_price *found = g_array_steal(prices, &length);
    *count = (uint32_t)length;
    return found;
}

uint64_t *certificate_spread_prices(const struct certificate_price *prices, uint32_t count,
                                    uint32_t moment_count)
{
    uint64_t *price = g_new0(uint64_t, moment_count);
    for (uint32_t i = 0; i < count; i++) {
        if (prices[i].moment >= moment_count) {
            g_free(price);
            return NULL;
        }
        price[prices[i].moment] = prices[i].price;
    }
    return price;
}

void certificate_prices_clear(struct certificate_prices *prices)
{
    g_free(prices->windows);
    g_free(prices->chains);
    *prices = (struct certificate_prices){0};
}

static bool branches_before(const struct certificate_case *of_case, uint32_t depth, uint32_t group)
{
    for (uint32_t k = 0; k < depth; k++)
        if (of_case->branches[k] == group)
            return true;
    return false;
}

/* Returns whether these cases, which agree in `depth` branches, are the leaves below them. */
static bool are_leaves(const struct certificate_case *cases, uint32_t count, uint32_t depth,
                       uint32_t group_count)
{
    if (count == 1)
        return cases[0].branch_count == depth;
    if (depth == CERTIFICATE_BRANCHES_MOST)
        return false;
    uint32_t group = cases[0].branches[depth], left = 0;
    bool same = group < group_count && !branches_before(&cases[0], depth, group);
    for (uint32_t i = 0; i < count && same; i++) {
        bool on_host = cases[i].on_host >> depth & 1;
        same = cases[i].branch_count > depth && cases[i].branches[depth] == group &&
               (on_host || left == i);
        left += !on_host;
    }
    return same && left > 0 && left < count && are_leaves(cases, left, depth + 1, group_count) &&
           are_leaves(cases + left, count - left, depth + 1, group_count);
}

bool certificate_covers_all(const struct certificate_time *time, uint32_t group_count)
{
    return time->case_count >= 1 && are_leaves(time->cases, time->case_count, 0, group_count);
}

void certificate_free(struct certificate *certificate)
{
    if (!certificate)
        return;
    g_free(certificate->objective);
    g_free(certificate->trace_sha256);
    g_free(certificate->platform);
    g_free(certificate->link);
    g_free(certificate->traffic.prices);
    g_free(certificate->time.nvme.prices);
    for (int i = 0; i < CERTIFICATE_CASES_MOST; i++)
        certificate_prices_clear(&certificate->time.cases[i].prices);
    certificate_alternatives_free(certificate->alternatives, certificate->alternative_count);
    g_free(certificate);
}

/* Returns the digits of the last seal in the text, which is the plan's own and ends the file. */
static char *find_digits(char *text, size_t length)
{
    char *key = g_strrstr_len(text, (gssize)length, SEAL_KEY);
    if (!key || (size_t)(key - text) + strlen(SEAL_KEY) + CERTIFICATE_SEAL_DIGITS > length)
        return NULL;
    return key + strlen(SEAL_KEY);
}

void certificate_seal(char *text)
{
    char *digits = find_digits(text, strlen(text));
    g_assert(digits);
    g_autofree char *seal = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    memcpy(digits, seal, CERTIFICATE_SEAL_DIGITS);
}

static bool seal_fits(char *text, size_t length)
{
    char stated[CERTIFICATE_SEAL_DIGITS], *digits = find_digits(text, length);
    if (!digits)
        return false;
    memcpy(stated, digits, CERTIFICATE_SEAL_DIGITS);
    memset(digits, '0', CERTIFICATE_SEAL_DIGITS);
    g_autofree char *seal = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text,
                                                        length);
    return memcmp(stated, seal, CERTIFICATE_SEAL_DIGITS) == 0;
}

bool certificate_check_seal(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    gsize length;

    if (!g_file_get_contents(path, &text, &length, error))
        return false;
    if (seal_fits(text, length))
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "%s: the file was changed after it was written: its seal does not match", path);
    return false;
}

static void add_piece(void *sum, const void *piece, size_t bytes)
{
    g_checksum_update(sum, piece, (gssize)bytes);
}

char *certificate_hash_file(const char *path, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    return input_file_read(path, add_piece, sum, error) ? g_strdup(g_checksum_get_string(sum))
                                                        : NULL;
}

/* ---- in plan.json: writing ---- */

static json_t *text(const char *value)
{
    return value ? json_string(value) : json_null();
}

static json_t *gap_json(uint64_t achieved, uint64_t bound)
{
    double gap = certificate_gap(achieved, bound);
    return isfinite(gap) ? json_real(gap) : json_null();
}

static json_t *room_prices_json(const struct certificate_price *prices, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(
            array, json_pack("[I,I]", (json_int_t)prices[i].moment, (json_int_t)prices[i].price));
    return array;
}

static json_t *traffic_json(const struct certificate_traffic *traffic)
{
    return json_pack("{s:I,s:I,s:o}", "achieved_bytes", (json_int_t)traffic->achieved,
                     "lower_bound_bytes", (json_int_t)traffic->bound, "room_prices",
                     room_prices_json(traffic->prices, traffic->price_count));
}

static json_t *windows_json(const struct certificate_prices *prices)
{
    json_t *windows = json_array();
    for (uint32_t i = 0; i < prices->window_count; i++) {
        const struct certificate_window *w = &prices->windows[i];
        json_t *entry = json_pack("[I,I,I,I,I]", (json_int_t)w->moment, (json_int_t)w->h2d,
                                  (json_int_t)w->d2h, (json_int_t)w->host, (json_int_t)w->room);
        const uint64_t more[] = {w->begins, w->unit, w->whole, w->network, w->memory};
        int count = w->memory ? 5 : w->network ? 4 : w->unit ? 3 : w->begins != WINDOW_AT_OPERATOR;
        for (int k = 0; k < count; k++)
            json_array_append_new(entry, json_integer((json_int_t)more[k]));
        json_array_append_new(windows, entry);
    }
    return windows;
}

static json_t *chains_json(const struct certificate_prices *prices)
{
    json_t *chains = json_array();
    for (uint32_t i = 0; i < prices->chain_count; i++) {
        const struct certificate_chain *c = &prices->chains[i];
        json_array_append_new(chains, json_pack("[I,I,I,I,I]", (json_int_t)c->from,
                                                (json_int_t)c->first, (json_int_t)c->last,
                                                (json_int_t)c->to, (json_int_t)c->price));
    }
    return chains;
}

static void set_prices(json_t *object, const struct certificate_prices *prices)
{
    json_object_set_new(object, "window_prices", windows_json(prices));
    json_object_set_new(object, "chain_prices", chains_json(prices));
    if (prices->host_bytes)
        json_object_set_new(object, "host_memory_price",
                            json_integer((json_int_t)prices->host_bytes));
}

static json_t *branches_json(const struct certificate_case *of_case)
{
    json_t *branches = json_array();
    for (uint32_t k = 0; k < of_case->branch_count; k++)
        json_array_append_new(branches, json_pack("[I,I]", (json_int_t)of_case->branches[k],
                                                  (json_int_t)(of_case->on_host >> k & 1)));
    return branches;
}

static void set_cases(json_t *object, const struct certificate_time *time)
{
    json_t *cases = json_array();
    for (uint32_t i = 0; i < time->case_count; i++) {
        json_t *entry = json_pack("{s:o}", "branches", branches_json(&time->cases[i]));
        set_prices(entry, &time->cases[i].prices);
        json_array_append_new(cases, entry);
    }
    json_object_set_new(object, "cases", cases);
}

static void set_joint(json_t *object, const struct certificate_joint *joint)
{
    if (joint->chunks)
        json_object_set_new(object, "joint_prices",
                            json_pack("[I,I,I,I,I]", (json_int_t)joint->chunks,
                                      (json_int_t)joint->h2d, (json_int_t)joint->d2h,
                                      (json_int_t)joint->host, (json_int_t)joint->kept));
}

static void set_nvme(json_t *object, const struct certificate_nvme *nvme)
{
    if (nvme->prices)
        json_object_set_new(object, "nvme_prices",
                            json_pack("{s:I,s:I,s:o}", "read_weight", (json_int_t)nvme->read_weight,
                                      "write_weight", (json_int_t)nvme->write_weight, "room_prices",
                                      room_prices_json(nvme->prices, nvme->price_count)));
}

static json_t *time_json(const struct certificate_time *time)
{
    json_t *object = json_pack("{s:I,s:I,s:b}", "achieved_ns", (json_int_t)time->achieved,
                               "lower_bound_ns", (json_int_t)time->bound, "either_side",
                               time->either_side);
    if (time->case_count > 1)
        set_cases(object, time);
    else
        set_prices(object, &time->cases[0].prices);
    set_joint(object, &time->joint);
    set_nvme(object, &time->nvme);
    return object;
}

static json_t *number_if(bool there, uint64_t value)
{
    return there ? json_integer((json_int_t)value) : json_null();
}

static json_t *alternative_json(const struct certificate_alternative *a)
{
    const struct run_choices *choices = a->choices;
    g_autofree char *recompute = run_layers_format(choices->recompute, choices->layer_count);
    g_autofree char *offload = run_layers_format(choices->offload, choices->layer_count);
    bool found = a->achieved > 0;
    return json_pack(
        "{s:s,s:s,s:b,s:b,s:I,s:I,s:s,s:I,s:I,s:o,s:o,s:o*,s:o*,s:o*}", "recompute", recompute,
        "offload", offload, "host_embedding", choices->host_embedding, "backward_twice",
        choices->second_backward, "batch", (json_int_t)choices->batch, "micro_batches",
        (json_int_t)choices->micro_batches, "outcome", certificate_outcome_name(a->outcome),
        "host_price", (json_int_t)a->host_price, "lower_bound_ns", (json_int_t)a->bound,
        "achieved_ns", number_if(found, a->achieved), "achieved_bytes",
        number_if(found, a->achieved_traffic), "stage",
        choices->stage || choices->fast ? json_integer(choices->stage) : NULL, "reduction",
        choices->fast ? json_string("fast") : NULL, "state_block",
        choices->state_block ? json_integer((json_int_t)choices->state_block) : NULL);
}

static json_t *alternatives_json(const struct certificate *certificate)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < certificate->alternative_count; i++)
        json_array_append_new(array, alternative_json(&certificate->alternatives[i]));
    return array;
}

static json_t *costs_json(const struct certificate *certificate)
{
    json_t *costs = json_pack("{s:o,s:o}", "platform", text(certificate->platform), "link",
                              text(certificate->link));
    if (certificate->ranks)
        json_object_set_new(costs, "ranks", json_integer(certificate->ranks));
    if (certificate->nodes)
        json_object_set_new(costs, "nodes", json_integer(certificate->nodes));
    if (certificate->began.stage || certificate->began.fast)
        json_object_set_new(costs, "stage", json_integer(certificate->began.stage));
    if (certificate->began.fast)
        json_object_set_new(costs, "reduction", json_string("fast"));
    return costs;
}

json_t *certificate_to_json(const struct certificate *certificate)
{
    const struct certificate_traffic *traffic = &certificate->traffic;
    const struct certificate_time *time = &certificate->time;
    char seal[CERTIFICATE_SEAL_DIGITS + 1] = {0};
    memset(seal, '0', CERTIFICATE_SEAL_DIGITS);
    return json_pack(
        "{s:o,s:{s:o,s:o},s:o,s:o,s:o,s:o,s:o,s:s}", "objective", text(certificate->objective),
        "gap", "traffic", gap_json(traffic->achieved, traffic->bound), "time",
        gap_json(time->achieved, time->bound), "traffic", traffic_json(traffic), "time",
        time_json(time), "alternatives", alternatives_json(certificate), "costs",
        costs_json(certificate), "trace_sha256", text(certificate->trace_sha256), "seal", seal);
}

/* ---- in plan.json: reading ---- */

struct certificate_reader {
    const char *reason; /* what is wrong, or NULL */
};

static void fault(struct certificate_reader *reader, const char *reason)
{
    if (!reader->reason)
        reader->reason = reason;
}

static uint64_t read_number(struct certificate_reader *reader, const json_t *value, uint64_t most)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > most) {
        fault(reader, "a number is not an integer or is out of range");
        return 0;
    }
    return (uint64_t)json_integer_value(value);
}

/* Returns 0 if the key is missing, as with one rank. */
static uint32_t read_count(struct certificate_reader *reader, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value ? (uint32_t)read_number(reader, value, UINT16_MAX << 5) : 0;
}

static char *read_text(struct certificate_reader *reader, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) && !json_is_null(value))
        fault(reader, "a value must be a string or null");
    return g_strdup(json_string_value(value));
}

static void read_gap(struct certificate_reader *reader, const json_t *value, uint64_t achieved,
                     uint64_t bound)
{
    double gap = certificate_gap(achieved, bound);
    if (isfinite(gap) ? json_number_value(value) != gap : !json_is_null(value))
        fault(reader, "the gap does not follow from the achieved value and the lower bound");
    if (achieved < bound)
        fault(reader, "a lower bound is above what the plan achieves");
}

static struct certificate_price *read_room_prices(struct certificate_reader *reader,
                                                  const json_t *prices, uint32_t *count)
{
    uint64_t least = 0;
    if (!json_is_array(prices) || json_array_size(prices) >= UINT32_MAX)
        fault(reader, "room_prices must be an array");
    *count = (uint32_t)json_array_size(prices);
    struct certificate_price *read = g_new0(struct certificate_price, MAX(*count, 1));
    for (uint32_t i = 0; i < *count && !reader->reason; i++) {
        const json_t *pair = json_array_get(prices, i);
        read[i].moment = (uint32_t)read_number(reader, json_array_get(pair, 0), UINT32_MAX - 1);
        read[i].price = read_number(reader, json_array_get(pair, 1), UINT32_MAX);
        if (read[i].moment < least)
            fault(reader, "the moments of room_prices must ascend");
        least = read[i].moment + 1ULL;
    }
    return read;
}

static void read_traffic(struct certificate_reader *reader, const json_t *root,
                         struct certificate_traffic *t)
{
    const json_t *object = json_object_get(root, "traffic");
    t->achieved = read_number(reader, json_object_get(object, "achieved_bytes"), INT64_MAX);
    t->bound = read_number(reader, json_object_get(object, "lower_bound_bytes"), INT64_MAX);
    read_gap(reader, json_object_get(json_object_get(root, "gap"), "traffic"), t->achieved,
             t->bound);
    t->prices = read_room_prices(reader, json_object_get(object, "room_prices"), &t->price_count);
}

static struct certificate_window read_window(struct certificate_reader *reader, const json_t *entry)
{
    const json_t *begins = json_array_get(entry, 5), *unit = json_array_get(entry, 6);
    const json_t *network = json_array_get(entry, 8), *memory = json_array_get(entry, 9);
    return (struct certificate_window){
        .moment = (uint32_t)read_number(reader, json_array_get(entry, 0), UINT32_MAX - 1),
        .begins = begins ? (uint8_t)read_number(reader, begins, WINDOW_BEGINS - 1) : 0,
        .h2d = read_number(reader, json_array_get(entry, 1), UINT32_MAX),
        .d2h = read_number(reader, json_array_get(entry, 2), UINT32_MAX),
        .host = read_number(reader, json_array_get(entry, 3), UINT32_MAX),
        .network = network ? read_number(reader, network, UINT32_MAX) : 0,
        .memory = memory ? read_number(reader, memory, UINT32_MAX) : 0,
        .room = read_number(reader, json_array_get(entry, 4), CERTIFICATE_ROOM_PRICE_MOST),
        .unit = unit ? read_number(reader, unit, INT64_MAX) : 0,
        .whole = unit ? read_number(reader, json_array_get(entry, 7), CERTIFICATE_ROOM_PRICE_MOST)
                      : 0};
}

static void read_chains(struct certificate_reader *reader, const json_t *chains,
                        struct certificate_prices *prices)
{
    if (!chains) /* files of earlier versions lack it */
        return;
    if (!json_is_array(chains) || json_array_size(chains) > UINT16_MAX)
        fault(reader, "chain_prices must be an array of at most 65535 entries");
    prices->chain_count = (uint32_t)json_array_size(chains);
    prices->chains = g_new0(struct certificate_chain, prices->chain_count);
    for (uint32_t i = 0; i < prices->chain_count && !reader->reason; i++) {
        const json_t *entry = json_array_get(chains, i);
        prices->chains[i] = (struct certificate_chain){
            .from = (uint32_t)read_number(reader, json_array_get(entry, 0), UINT32_MAX / 4),
            .first = (uint32_t)read_number(reader, json_array_get(entry, 1), UINT32_MAX / 4),
            .last = (uint32_t)read_number(reader, json_array_get(entry, 2), UINT32_MAX / 4),
            .to = (uint32_t)read_number(reader, json_array_get(entry, 3), UINT32_MAX / 4),
            .price = read_number(reader, json_array_get(entry, 4), UINT32_MAX)};
    }
}

static void read_prices(struct certificate_reader *reader, const json_t *object,
                        struct certificate_prices *prices)
{
    const json_t *windows = json_object_get(object, "window_prices");
    if (!json_is_array(windows) || json_array_size(windows) > UINT16_MAX)
        fault(reader, "window_prices must be an array of at most 65535 entries");
    prices->window_count = (uint32_t)json_array_size(windows);
    prices->windows = g_new0(struct certificate_window, prices->window_count);
    for (uint32_t i = 0; i < prices->window_count && !reader->reason; i++)
        prices->windows[i] = read_window(reader, json_array_get(windows, i));
    read_chains(reader, json_object_get(object, "chain_prices"), prices);
    const json_t *host_bytes = json_object_get(object, "host_memory_price");
    if (host_bytes) /* only where it is not 0 */
        prices->host_bytes = read_number(reader, host_bytes, CERTIFICATE_ROOM_PRICE_MOST);
}

static void read_branches(struct certificate_reader *reader, const json_t *array,
                          struct certificate_case *of_case)
{
    size_t count = json_array_size(array);
    if (count > CERTIFICATE_BRANCHES_MOST) {
        fault(reader, "a case has too many branches");
        return;
    }
    of_case->branch_count = (uint32_t)count;
    for (size_t k = 0; k < count; k++) {
        const json_t *branch = json_array_get(array, k);
        of_case->branches[k] = (uint32_t)read_number(reader, json_array_get(branch, 0),
                                                     UINT32_MAX - 1);
        of_case->on_host |= (uint32_t)read_number(reader, json_array_get(branch, 1), 1) << k;
    }
}

static void read_cases(struct certificate_reader *reader, const json_t *cases,
                       struct certificate_time *time)
{
    size_t count = json_array_size(cases);
    if (count < 1 || count > CERTIFICATE_CASES_MOST) {
        fault(reader, "the time has no cases, or too many");
        return;
    }
    time->case_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(cases, i);
        read_branches(reader, json_object_get(entry, "branches"), &time->cases[i]);
        read_prices(reader, entry, &time->cases[i].prices);
    }
    if (!certificate_covers_all(time, UINT32_MAX))
        fault(reader, "the cases of the time do not cover all sides of their branches");
}

static struct certificate_joint read_joint(struct certificate_reader *reader, const json_t *array)
{
    if (!array) /* files of earlier versions, and most others, lack it */
        return (struct certificate_joint){0};
    return (struct certificate_joint){
        .chunks = (uint32_t)read_number(reader, json_array_get(array, 0), CERTIFICATE_JOINT_MOST),
        .h2d = read_number(reader, json_array_get(array, 1), UINT32_MAX),
        .d2h = read_number(reader, json_array_get(array, 2), UINT32_MAX),
        .host = read_number(reader, json_array_get(array, 3), UINT32_MAX),
        .kept = read_number(reader, json_array_get(array, 4), CERTIFICATE_ROOM_PRICE_MOST)};
}

enum { WEIGHT_MOST = 1 << 30 }; /* BOUND_PRICE_SCALE of planner/proof/bound.h */

static struct certificate_nvme read_nvme(struct certificate_reader *reader, const json_t *object)
{
    struct certificate_nvme nvme = {0};
    if (!object) /* only where this bound is the largest */
        return nvme;
    nvme.read_weight = (uint32_t)read_number(reader, json_object_get(object, "read_weight"),
                                             WEIGHT_MOST);
    nvme.write_weight = (uint32_t)read_number(reader, json_object_get(object, "write_weight"),
                                              WEIGHT_MOST);
    nvme.prices = read_room_prices(reader, json_object_get(object, "room_prices"),
                                   &nvme.price_count);
    return nvme;
}

static void read_time(struct certificate_reader *reader, const json_t *root,
                      struct certificate_time *time)
{
    const json_t *object = json_object_get(root, "time");
    time->achieved = read_number(reader, json_object_get(object, "achieved_ns"), INT64_MAX);
    time->bound = read_number(reader, json_object_get(object, "lower_bound_ns"), INT64_MAX);
    time->either_side = json_is_true(json_object_get(object, "either_side"));
    read_gap(reader, json_object_get(json_object_get(root, "gap"), "time"), time->achieved,
             time->bound);
    time->case_count = 1;
    if (json_object_get(object, "cases"))
        read_cases(reader, json_object_get(object, "cases"), time);
    else
        read_prices(reader, object, &time->cases[0].prices);
    time->joint = read_joint(reader, json_object_get(object, "joint_prices"));
    time->nvme = read_nvme(reader, json_object_get(object, "nvme_prices"));
}

static uint8_t read_outcome(struct certificate_reader *reader, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "outcome"));
    for (uint8_t o = 0; name && o <= CERTIFICATE_DOES_NOT_FIT; o++)
        if (!strcmp(name, certificate_outcome_name(o)))
            return o;
    fault(reader, "an alternative has no valid outcome");
    return CERTIFICATE_DOES_NOT_FIT;
}

/* `otherwise` replaces keys that files of earlier versions lack; it may be NULL. */
static void read_layers(struct certificate_reader *reader, const json_t *entry, const char *key,
                        const char *otherwise, uint8_t *marks, uint32_t count)
{
    g_autofree char *text = read_text(reader, entry, key);
    const char *layers = text ? text : otherwise;
    if (!layers)
        fault(reader, "an alternative does not name its layers");
    else if (!run_layers_parse(layers, marks, count))
        fault(reader, "an alternative names layers that the plan's model does not have");
}

/* Reads how several ranks train together. Files of earlier versions have only that of all variants.
 */
static struct run_stage read_stage(struct certificate_reader *reader, const json_t *entry,
                                   struct run_stage of_all)
{
    bool fast = json_object_get(entry, "reduction") != NULL;
    uint32_t stage = read_count(reader, entry, "stage");
    if (!stage && !fast)
        return of_all;
    if (stage > 3 || (stage < 2 && !fast))
        fault(reader, "an alternative has an invalid stage");
    return (struct run_stage){(uint8_t)stage, fast};
}

static struct run_choices *read_choices(struct certificate_reader *reader, const json_t *entry,
                                        uint32_t layer_count)
{
    struct run_choices *choices = run_choices_new(layer_count, 0);
    read_layers(reader, entry, "recompute", NULL, choices->recompute, layer_count);
    read_layers(reader, entry, "offload", "none", choices->offload, layer_count);
    choices->host_embedding = json_is_true(json_object_get(entry, "host_embedding"));
    choices->second_backward = json_is_true(json_object_get(entry, "backward_twice"));
    choices->split_masters = choices->second_backward;
    choices->batch = (uint32_t)read_number(reader, json_object_get(entry, "batch"), UINT32_MAX);
    choices->micro_batches = (uint32_t)read_number(reader, json_object_get(entry, "micro_batches"),
                                                   UINT32_MAX);
    const json_t *block = json_object_get(entry, "state_block");
    choices->state_block = block ? read_number(reader, block, INT64_MAX) : 0;
    return choices;
}

static struct certificate_alternative read_alternative(struct certificate_reader *reader,
                                                       const json_t *entry, uint32_t layer_count)
{
    struct certificate_alternative a = {
        .choices = read_choices(reader, entry, layer_count),
        .outcome = read_outcome(reader, entry),
        .host_price = read_number(reader, json_object_get(entry, "host_price"), UINT32_MAX),
        .bound = read_number(reader, json_object_get(entry, "lower_bound_ns"), INT64_MAX)};
    if (json_is_null(json_object_get(entry, "achieved_ns")))
        return a;
    a.achieved = read_number(reader, json_object_get(entry, "achieved_ns"), INT64_MAX);
    a.achieved_traffic = read_number(reader, json_object_get(entry, "achieved_bytes"), INT64_MAX);
    return a;
}

static void read_alternatives(struct certificate_reader *reader, const json_t *root,
                              uint32_t layer_count, struct certificate *certificate)
{
    const json_t *array = json_object_get(root, "alternatives");
    if (!json_is_array(array) || json_array_size(array) > UINT16_MAX) {
        fault(reader, "no alternatives");
        return;
    }
    certificate->alternatives = g_new0(struct certificate_alternative, json_array_size(array));
    for (size_t i = 0; i < json_array_size(array) && !reader->reason; i++) {
        certificate->alternatives[i] = read_alternative(reader, json_array_get(array, i),
                                                        layer_count);
        const struct run_stage together = read_stage(reader, json_array_get(array, i),
                                                     certificate->began);
        certificate->alternatives[i].choices->stage = together.stage;
        certificate->alternatives[i].choices->fast = together.fast;
        certificate->alternative_count++;
    }
}

struct certificate *certificate_from_json(const json_t *object, uint32_t layer_count,
                                          const char **reason)
{
    struct certificate_reader reader = {NULL};
    struct certificate *certificate = g_new0(struct certificate, 1);
    const json_t *costs = json_object_get(object, "costs");
    certificate->trace_sha256 = read_text(&reader, object, "trace_sha256");
    if (json_object_get(object, "objective")) /* files of earlier versions lack it */
        certificate->objective = read_text(&reader, object, "objective");
    certificate->platform = read_text(&reader, costs, "platform");
    certificate->link = read_text(&reader, costs, "link");
    certificate->ranks = read_count(&reader, costs, "ranks");
    certificate->nodes = read_count(&reader, costs, "nodes");
    certificate->began = read_stage(&reader, costs, (struct run_stage){0, false});
    read_traffic(&reader, object, &certificate->traffic);
    read_time(&reader, object, &certificate->time);
    read_alternatives(&reader, object, layer_count, certificate);
    if (!reader.reason)
        return certificate;
    *reason = reader.reason;
    certificate_free(certificate);
    return NULL;
}
