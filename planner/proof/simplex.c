#include "planner/proof/simplex.h"

#include "traces/failure.h"

#include <glib.h>
#include <stdlib.h>

/* A program that ends takes less than three steps a row and column; one from the random tests was
 * still going round after a quarter of an hour. */
enum { STEPS_LEAST = 10000, STEPS_PER_LINE = 20 };

/* ---- GLPK without memory ---- */

static void end_without_memory(void *unused)
{
    (void)unused;
    g_log(FAILURE_MEMORY_DOMAIN, G_LOG_LEVEL_ERROR,
          "GLPK failed to allocate what a linear program needs");
    abort(); /* never reached */
}

/* GLPK writes what went wrong to standard output before it calls the hook. */
static int print_nothing(void *unused, const char *text)
{
    (void)unused;
    (void)text;
    return 1;
}

glp_prob *simplex_new(void)
{
    enum { NO_MEMORY = 2 }; /* what glp_init_env returns then */
    if (glp_init_env() == NO_MEMORY)
        end_without_memory(NULL);
    glp_term_hook(print_nothing, NULL);
    glp_error_hook(end_without_memory, NULL);
    return glp_create_prob();
}

/* ---- solving ---- */

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
