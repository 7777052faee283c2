#include "planner/proof/simplex.h"

/* A program that ends takes less than three steps a row and column; one from the random tests was
 * still going round after a quarter of an hour. */
enum { STEPS_LEAST = 10000, STEPS_PER_LINE = 20 };

bool simplex_solve(glp_prob *lp, enum simplex_start start)
{
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.it_lim = STEPS_LEAST + STEPS_PER_LINE * (glp_get_num_rows(lp) + glp_get_num_cols(lp));
    if (start == SIMPLEX_COLD) {
        options.presolve = GLP_ON;
        options.meth = GLP_DUALP;
    }
    int result = glp_simplex(lp, &options);
    if (result == GLP_EITLIM) {
        options.presolve = GLP_OFF;
        options.meth = GLP_PRIMAL;
        glp_std_basis(lp);
        result = glp_simplex(lp, &options);
    }
    return result == 0 && glp_get_status(lp) == GLP_OPT;
}
