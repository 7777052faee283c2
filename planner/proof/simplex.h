/* Solves linear programs with GLPK's simplex method, which ends even where it goes in circles, and
 * with its interior point method, which may give up. */
#ifndef PSTAR_PLANNER_PROOF_SIMPLEX_H
#define PSTAR_PLANNER_PROOF_SIMPLEX_H

#include <stdbool.h>

#include <glpk.h>

/* Returns an empty program, which the caller frees with glp_delete_prob, in GLPK's environment of
 * this thread, which ends with glp_free_env. If the system refuses GLPK memory, the process ends as
 * when it refuses GLib memory: by a fatal message, which programs turn into an exit status. */
glp_prob *simplex_new(void);

enum simplex_start {
    SIMPLEX_WARM, /* the primal method, from the basis that the program has */
    SIMPLEX_COLD, /* the dual method, after GLPK has made the program smaller */
};

/* Solves the program. Returns whether it has an optimal solution, which `lp` then holds. Prints
 * nothing. A degenerate program may lead the method in a circle; after more steps than any program
 * needed that came to its end, it begins once more from the basis of all rows. */
bool simplex_solve(glp_prob *lp, enum simplex_start start);

/* Finds the middle of the optimal solutions with the interior point method, which `lp` then holds
 * beside that of simplex_solve. Returns false if there is none, or if the method gives up: where
 * numbers become too small or too large, GLPK ends it by an assertion of its own. What it had
 * allocated is then freed by glp_free_env alone. */
bool simplex_find_middle(glp_prob *lp);

#endif
