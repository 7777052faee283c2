/* What a person may have meant by a word that is not known. */
#ifndef PSTAR_CLI_SUGGEST_H
#define PSTAR_CLI_SUGGEST_H

#include <glib.h>

/* Returns the known word that is closest to `word`, whatever the case of their letters: one that it
 * begins, one of which it is a part of some letters, or one from which it differs by at most two
 * letters (and less than half of them) that were added, left out, changed or swapped with a
 * neighbour. Returns NULL if there is none. `known` holds const char *. */
const char *suggest(const char *word, const GPtrArray *known);

#endif
