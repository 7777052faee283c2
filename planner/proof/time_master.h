/* The master program of the time bound: it mixes the routes of the blocks that were found so far,
 * so that the windows are as short as possible. Its dual values are prices.
 *
 * Rows: for each window and resource, the window's length less what blocks take is at least what is
 * always there. Then the room of each window. Then each block takes one route, of which those of
 * one kind share a row. Then the host's memory. Then the windows that contain a chain are at least
 * as long. Columns: lengths of the windows, whose sum is minimised, memory that the host lacks,
 * which costs more than anything else, then shares of routes. This is an internal header of the
 * proof. */
#ifndef PSTAR_PLANNER_PROOF_TIME_MASTER_H
#define PSTAR_PLANNER_PROOF_TIME_MASTER_H

#include "planner/proof/prices.h"

#include <glpk.h>

/* A column: a route of the blocks of a kind. */
struct time_way {
    uint32_t kind;
    uint16_t unused; /* rounds in a row in which the mix has none of it */
    uint8_t side;    /* enum time_side */
};

struct time_master {
    const struct time_model *model;
    glp_prob *lp;
    double ns_unit, byte_unit; /* of its numbers */
    struct time_use use;       /* of the routes found last */
    GArray *ways;              /* struct time_way of the columns after those of the windows */
    GArray *chains;            /* struct time_chain of the rows, with the prices at hand */
    GArray *parts;             /* double [chains * kind_count]: the mean parts of a kind's blocks */
    uint64_t *units;           /* [window count] bytes of room that count whole, or 0 */
    bool is_central;           /* the duals at hand are those of the interior point */
    int *rows;                 /* scratch space for a column */
    double *values;
};

/* `chains` (may be NULL) receives the chains; it holds none yet, and gets at most `chains_most`. */
struct time_master *time_master_new(const struct time_model *model, GArray *chains,
                                    uint32_t chains_most);
void time_master_free(struct time_master *m);

/* Rows of the program, from 1. A resource without limits has none. */
int time_master_row(const struct time_master *m, uint32_t window, enum window_resource use);
int time_master_host_row(const struct time_master *m);
int time_master_chain_row(const struct time_master *m, uint32_t chain);

double time_master_dual(const struct time_master *m, int row);

/* Returns a price of a byte of the host's memory above which no schedule pays: copying all chunks
 * in both directions many times costs less. */
uint64_t time_master_host_price_most(const struct time_master *m);

/* Adds the routes found last, of all kinds; or those that would shorten the mix at the master's
 * prices, and returns how many. */
void time_master_append(struct time_master *m);
int time_master_add_ways(struct time_master *m);

/* Removes routes that the mix has had none of for some rounds. Prices that want them again find
 * them again, and the program keeps a size that does not grow with the rounds. */
void time_master_forget(struct time_master *m);

/* Returns how many blocks have the route. */
double time_master_share(const struct time_master *m, guint way);

const struct time_chain *time_master_chain(const struct time_master *m, uint32_t r);

/* Makes the chain a row; *chain passes to the program. */
void time_master_add_chain(struct time_master *m, struct time_chain *chain);

#endif
