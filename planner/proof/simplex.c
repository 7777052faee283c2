#include "planner/proof/simplex.h"

#include "base/failure.h"

#include <glib.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

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

static void set_hooks(void)
{
    glp_term_hook(print_nothing, NULL);
    glp_error_hook(end_without_memory, NULL);
}

glp_prob *simplex_new(void)
{
    enum { NO_MEMORY = 2 }; /* what glp_init_env returns then */
    if (glp_init_env() == NO_MEMORY)
        end_without_memory(NULL);
    set_hooks();
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

/* ---- the middle of the optimal solutions ---- */

/* The interior point method under way. */
struct middle {
    jmp_buf give_up;
    bool no_memory; /* GLPK said so */
};

static int note_memory(void *data, const char *text)
{
    ((struct middle *)data)->no_memory |= strstr(text, "memory") != NULL;
    return 1;
}

static void give_up(void *data)
{
    struct middle *middle = data;
    if (middle->no_memory)
        end_without_memory(NULL);
    longjmp(middle->give_up, 1);
}

bool simplex_find_middle(glp_prob *lp)
{
    struct middle middle = {.no_memory = false};
    glp_iptcp options;
    glp_init_iptcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    glp_term_hook(note_memory, &middle);
    glp_error_hook(give_up, &middle);
    bool found = !setjmp(middle.give_up) && glp_interior(lp, &options) == 0 &&
                 glp_ipt_status(lp) == GLP_OPT;
    set_hooks();
    return found;
}
