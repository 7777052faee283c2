/* A plan's certificate: lower bounds that hold for any schedule with the plan's layout, what the
 * plan achieves, and the prices from which the bounds can be recomputed
 * (planner/proof/certificate.h). In plan.json it is the key `certificate`; docs/formats.md
 * describes it. */
#ifndef PSTAR_CHUNKS_CERTIFICATE_H
#define PSTAR_CHUNKS_CERTIFICATE_H

#include "traces/choices.h"

#include <jansson.h>

#define CERTIFICATE_SEAL_DIGITS 64 /* SHA-256, in hexadecimal */

/* The price of a byte of room at a moment. BOUND_PRICE_SCALE stands for a byte of traffic. */
struct certificate_price {
    moment_id moment;
    uint64_t price;
};

/* When a window begins. If the update of a window at or after an update runs on the host, the
 * window begins when the device has finished those before. */
enum window_begin {
    WINDOW_AT_OPERATOR,    /* with the operator; or, with the first update, when the device has
                              finished everything before */
    WINDOW_AT_UPDATE,      /* when the device begins the update */
    WINDOW_AFTER_UPDATE,   /* when the device has finished the update */
    WINDOW_AFTER_OPERATOR, /* when the device has finished the operator, of forward or backward */
    WINDOW_BEGINS
};

/* Prices in a window of the iteration. h2d, d2h, host, network and memory (the host's, which copies
 * and operators of the host share) are shares of the window's time, in units of 1 /
 * BOUND_PRICE_SCALE; the rest is the share of the device's compute. room is the price of a byte
 * that is on the device when the window begins, in nanoseconds times BOUND_PRICE_SCALE. whole is
 * the same for bytes in whole units: of chunks and of the room, only multiples of `unit` count.
 */
#define CERTIFICATE_ROOM_PRICE_MOST ((uint64_t)1 << 48)

struct certificate_window {
    moment_id moment; /* of the operator with which, or after which, it begins */
    uint8_t begins;   /* enum window_begin */
    uint64_t h2d, d2h, host, network, memory;
    uint64_t room;
    uint64_t unit, whole; /* bytes; both 0 if no such price is used */
};

/* A chain of work from an operator of the device to another one, perhaps in the next iteration.
 * Copies to the host count up to the operator of the host `first`, operators of the host from there
 * to `last`, copies to the device from `last` on. Moments of the next iteration are counted on. The
 * price is a share of the time of the windows that contain the chain, in units of 1 /
 * BOUND_PRICE_SCALE. */
struct certificate_chain {
    moment_id from, first, last, to;
    uint64_t price;
};

struct certificate_traffic {
    uint64_t achieved, bound;         /* bytes */
    struct certificate_price *prices; /* [price_count] moments ascending; 0 at all others */
    uint32_t price_count;
};

/* The prices of a bound of the time. */
struct certificate_prices {
    struct certificate_window *windows; /* [window_count] ascending by time */
    uint32_t window_count; /* 0 if nothing ever runs on the device; then the bound is 0 */
    struct certificate_chain *chains; /* [chain_count] */
    uint32_t chain_count;
    uint64_t host_bytes; /* the price of a byte of the host's memory, as that of room */
};

/* The most cases of a bound, and the most groups whose sides are chosen in one of them. */
enum { CERTIFICATE_CASES_MOST = 64, CERTIFICATE_BRANCHES_MOST = 32 };

/* A case of a bound: the updates of the group branches[k] run on the host if bit k of `on_host` is
 * set, and on the device if not. */
struct certificate_case {
    struct certificate_prices prices;
    uint32_t branches[CERTIFICATE_BRANCHES_MOST], branch_count;
    uint32_t on_host;
};

/* The prices of a bound of the time from the largest chunks together. h2d, d2h and host are shares
 * of the iteration's time, in units of 1 / BOUND_PRICE_SCALE; the rest is the share of the device's
 * compute. kept is the price of a byte of the device for the whole of forward and backward, in
 * nanoseconds times BOUND_PRICE_SCALE. */
enum { CERTIFICATE_JOINT_MOST = 24 };

struct certificate_joint {
    uint32_t chunks; /* how many of the largest ones are taken together; 0 if there is no bound */
    uint64_t h2d, d2h, host, kept;
};

/* The prices of a bound of the time from what passes NVMe. A byte that is read or written counts as
 * its weight says, in units of 1 / BOUND_PRICE_SCALE. The prices are of a byte of the memories
 * above NVMe together, at moments of planner/proof/nvme_reuses.h; BOUND_PRICE_SCALE stands for a
 * byte that counts fully. */
struct certificate_nvme {
    uint32_t read_weight, write_weight;
    struct certificate_price *prices; /* [price_count] moments ascending; NULL: no such bound */
    uint32_t price_count;
};

struct certificate_time {
    uint64_t achieved, bound; /* nanoseconds */
    bool either_side; /* whether the bound holds for any placement of the groups' optimizers, or
                         only for the plan's */
    struct certificate_joint joint;
    struct certificate_nvme nvme;
    /* The bound is the least of the cases, or that of `joint` or `nvme`, or of what NVMe must read
     * and write (planner/proof/nvme_bound.h), if that is larger. The cases are the leaves of a
     * binary tree from left to right: each of its inner nodes is a group, which is on the device to
     * the left of it and on the host to the right. A single case has no branches. */
    struct certificate_case cases[CERTIFICATE_CASES_MOST];
    uint32_t case_count;
};

/* Returns whether the cases are the leaves of such a tree of groups that are less than
 * `group_count`, no group twice on the way to a leaf. So they cover all sides of the groups. */
bool certificate_covers_all(const struct certificate_time *time, uint32_t group_count);

/* Returns the prices of `price` [moment_count] that are not 0, by moment, and sets *count. The
 * caller frees them. */
struct certificate_price *certificate_room_prices(const uint64_t *price, uint32_t moment_count,
                                                  uint32_t *count);
/* Returns these prices as [moment_count], which the caller frees; NULL if one names a moment that
 * does not exist. */
uint64_t *certificate_spread_prices(const struct certificate_price *prices, uint32_t count,
                                    uint32_t moment_count);

/* Frees the arrays. */
void certificate_prices_clear(struct certificate_prices *prices);

enum certificate_outcome {
    CERTIFICATE_SEARCHED,    /* no plan that was found is better */
    CERTIFICATE_BOUNDED,     /* no plan can take less time than this one */
    CERTIFICATE_DOES_NOT_FIT /* no plan fits */
};

/* Choices that differ from the plan's, which the bounds above do not cover. */
struct certificate_alternative {
    struct run_choices *choices; /* after reading, it has no tensors, and split_masters is what the
                                    second backward needs, because a file holds neither */
    uint8_t outcome;             /* enum certificate_outcome */
    uint64_t host_price;         /* of BOUND_PRICE_SCALE: the host's share in the bound */
    uint64_t bound;              /* nanoseconds that no plan with any layout beats */
    uint64_t achieved;           /* nanoseconds of the best plan that was found, or 0 */
    uint64_t achieved_traffic;   /* its bytes over the link */
};

struct certificate {
    char *objective;        /* of the search: "time", "traffic" or "memory"; NULL if unknown */
    char *trace_sha256;     /* of the trace's file; NULL if the trace was made in memory */
    char *platform;         /* contents of the platform's file, or NULL */
    char *link;             /* as --link says, or NULL */
    uint32_t ranks, nodes;  /* on which the platform's ranks are spread; 0 if they are not */
    struct run_stage began; /* how ranks train together in the trace that the search began with */
    struct certificate_traffic traffic;
    struct certificate_time time;
    struct certificate_alternative
        *alternatives; /* [alternative_count] in the order of the search */
    uint32_t alternative_count;
};

/* Returns how far `achieved` is above the bound: 0.01 is one per cent. Returns INFINITY if only the
 * bound is 0. A negative result says that the bound is false, and no certificate with one is read
 * or passes certificate_check. */
double certificate_gap(uint64_t achieved, uint64_t bound);

/* Frees the array and all that its entries own. */
void certificate_alternatives_free(struct certificate_alternative *alternatives, uint32_t count);

/* "searched", "bounded", "does not fit" */
const char *certificate_outcome_name(enum certificate_outcome outcome);

void certificate_free(struct certificate *certificate);

/* Seals the text of a plan: replaces the digits of its seal, which are 0, by the SHA-256 of the
 * text. */
void certificate_seal(char *text);

/* Returns whether a plan's file is unchanged since it was sealed. Fails with PLAN_ERROR_INVALID if
 * it has changed or has no seal. */
bool certificate_check_seal(const char *path, GError **error);

/* Returns the SHA-256 of a file in hexadecimal, or NULL if it cannot be read. The caller frees the
 * result with g_free. */
char *certificate_hash_file(const char *path, GError **error);

/* Returns the certificate as it stands in plan.json, with a seal of zeros as its last key. */
json_t *certificate_to_json(const struct certificate *certificate);

/* Reads the certificate of a plan for a model of `layer_count` layers. Returns NULL if the object
 * is not a certificate, with what is wrong in *reason. Checks that figures are in range, and
 * recomputes nothing. */
struct certificate *certificate_from_json(const json_t *object, uint32_t layer_count,
                                          const char **reason);

#endif
