/* Text to train on: a file's tokens, cut into batches.
 *
 * Any file is text, its bytes the tokens, except llm.c's token files, which say so in their first
 * bytes: 256 int32 (magic 20240520, version 1, number of tokens, ...), then uint16 tokens. The file
 * is mapped, never copied. A batch is a pure function of its place in the run, so a resumed run
 * sees what an uninterrupted one does. */
#ifndef PSTAR_ENGINE_TRAIN_DATA_H
#define PSTAR_ENGINE_TRAIN_DATA_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum data_share { DATA_TRAINING, DATA_HELD_OUT, DATA_SHARES };

enum data_order {
    DATA_RANDOM,    /* each sequence starts anywhere: drawn from (seed, step, micro-batch, row) */
    DATA_SEQUENTIAL /* one after the other, from the start again where no whole one is left */
};

enum data_error {
    DATA_ERROR_IO,
    DATA_ERROR_INVALID, /* a damaged token file */
    DATA_ERROR_TOKENS,  /* a token outside the vocabulary */
    DATA_ERROR_SHORT    /* shorter than one sequence and its last target */
};
#define DATA_ERROR data_error_quark()
GQuark data_error_quark(void);

struct data_options {
    uint32_t vocabulary; /* every token must be below; text needs 256 */
    uint32_t sequence;   /* T: tokens a sequence */
    double held_out; /* in [0, 1): the share of the tokens, at the end, that is never trained on */
    uint64_t seed;   /* of DATA_RANDOM */
    uint8_t order;   /* enum data_order */
};

struct data;

/* Errors name the file and the reason; a token outside the vocabulary also its place. */
struct data *data_open(const char *path, const struct data_options *options, GError **error);
void data_close(struct data *data); /* NULL is allowed */

/* Tokens of a share. A share that is not empty holds at least one sequence and its last target. */
uint64_t data_tokens(const struct data *data, enum data_share share);

/* One micro-batch of the training share. tokens and targets are [batch, sequence]; a target is the
 * token that follows. `micro_batches` is their number a step. */
void data_batch(const struct data *data, uint64_t step, uint32_t micro_batch,
                uint32_t micro_batches, uint32_t batch, uint32_t *tokens, uint32_t *targets);

/* Whole sequences of a share, and `count` of them from `first`, in order: for evaluation. */
uint64_t data_sequences(const struct data *data, enum data_share share);
void data_read(const struct data *data, enum data_share share, uint64_t first, uint32_t count,
               uint32_t *tokens, uint32_t *targets);

/* Entropy of the training share's tokens, in nats: the loss of the best model that ignores context.
 */
double data_unigram_entropy(const struct data *data);

/* Tells whether two runs read the same tokens: SHA-256, in hexadecimal, over length and samples.
 * Free with g_free. */
char *data_digest(const struct data *data);

#endif
