/* The chain rule on symbols: backward is handed what forward used, and gradients of what forward
 * made. */
#ifndef PSTAR_TESTS_MODELS_SYMBOLIC_CHAIN_RULE_H
#define PSTAR_TESTS_MODELS_SYMBOLIC_CHAIN_RULE_H

#include "symbolic_machine.h"

/* Keeps what the operator, one of forward that has just run, read and made. What is recomputed must
 * be what it was before. */
void symbolic_remember(struct machine *m);

/* Checks what the operator, one of backward, is about to read, and notes of which values it makes
 * gradients. */
void symbolic_check_backward(struct machine *m);

#endif
