/* Reads which tokens of a file count in the loss.
 *
 * The mask of a file of tokens lies beside it, in FILE.mask: 256 int32 (magic 20261125, version 1,
 * number of tokens as its low and its high 32 bits, CRC-32 of what follows), then one bit a token,
 * the first in the lowest bit of the first byte. A bit says whether its token counts as a target.
 * Bits behind the last token are 0. */
#ifndef PSTAR_ENGINE_TRAIN_TOKEN_MASK_H
#define PSTAR_ENGINE_TRAIN_TOKEN_MASK_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct token_mask;

/* Returns the name of a file's mask. Free with g_free. */
char *token_mask_path(const char *tokens);

/* Opens the mask of a file of `tokens` tokens, and reads it once: damage is found here. Errors
 * (enum data_error) name the file. */
struct token_mask *token_mask_open(const char *path, uint64_t tokens, GError **error);
void token_mask_close(struct token_mask *mask); /* NULL is allowed */

/* Returns the CRC-32 of the bits, which tells masks apart. */
uint32_t token_mask_sum(const struct token_mask *mask);

/* Writes whether each of `count` tokens from `first` counts. */
void token_mask_read(const struct token_mask *mask, uint64_t first, size_t count, bool *counts);

/* Returns how many of `count` tokens from `first` count. */
uint64_t token_mask_count(const struct token_mask *mask, uint64_t first, uint64_t count);

/* Returns what is wrong with the file (file_pieces_problem), or NULL. Bits that could not be read
 * were read as 0. */
const char *token_mask_problem(const struct token_mask *mask);

#endif
