/* The byte-level BPE of GPT-2, and the BPE of characters of LLaMA 2 and Gemma: from text to tokens
 * and back.
 *
 * A word is a match of GPT-2's pattern, whose bytes are tokens at first; or begins with spaces, and
 * its characters are tokens, or the bytes of those that are none. Then the two neighbours
 * whose merge stands first in the list of merges become one token, until no merge is left. */
#ifndef PSTAR_MODELS_TOKENIZER_H
#define PSTAR_MODELS_TOKENIZER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum tokenizer_error {
    TOKENIZER_ERROR_MISSING, /* the folder has no file of a tokenizer */
    TOKENIZER_ERROR_INVALID, /* damaged, or of another kind */
    TOKENIZER_ERROR_TEXT     /* the text cannot be encoded, or a token is unknown */
};
#define TOKENIZER_ERROR tokenizer_error_quark()
GQuark tokenizer_error_quark(void);

struct tokenizer;

/* Reads tokenizer.json of a model's folder, or vocab.json and merges.txt. `path` is the folder or
 * its config.json. Errors name the file and
 * what in it is of another kind. */
struct tokenizer *tokenizer_read(const char *path, GError **error);
void tokenizer_free(struct tokenizer *tokenizer); /* NULL is allowed */

/* Returns one more than the greatest token. */
uint32_t tokenizer_vocabulary(const struct tokenizer *tokenizer);

/* Appends the tokens (uint32_t) of a text to `tokens`. Special tokens such as <|endoftext|> are
 * recognised. Fails, naming the place, if the text is not UTF-8. */
bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, gsize bytes,
                      GArray *tokens, GError **error);

/* Returns the bytes of tokens, which end with 0 besides; free with g_free. They may end in the
 * middle of a character. */
char *tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *tokens, gsize count,
                       GError **error);

#endif
