/* A file of the algorithms that were chosen for matrix products, a line each. An algorithm is a
 * number of the library, for one GPU and one version of the library; lines of others are kept and
 * not used. */
#ifndef PSTAR_ENGINE_CUDA_CHOICES_H
#define PSTAR_ENGINE_CUDA_CHOICES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum { CHOICE_WORDS = 8 };

struct choice {
    uint64_t algorithm[CHOICE_WORDS];
    uint64_t workspace_bytes;
};

struct choices;

/* Reads the file, which need not exist. Fails with G_FILE_ERROR if it cannot be read or has a line
 * that is none of ours. */
struct choices *choices_open(const char *path, const char *gpu, uint64_t version, GError **error);
void choices_free(struct choices *choices); /* may be NULL */

/* Returns what was chosen for a product, which a text without tabs describes; NULL if nothing was.
 */
const struct choice *choices_find(const struct choices *choices, const char *product);

/* Adds a choice to the file. Returns false if it cannot be written; the choice then holds for this
 * run. */
bool choices_add(struct choices *choices, const char *product, const struct choice *choice);

#endif
