/* Cuts the tokens of a file into batches.
 *
 * A file is a token file of llm.c, which begins with a header of 256 int32 (magic, version, number
 * of tokens, ...) and holds uint16 tokens (magic 20240520, version 1) or uint32 tokens (20240801,
 * 7); an array of numpy (.npy); the index (.idx) of a Megatron data set, whose tokens lie beside it
 * in a .bin file; or bare numbers; or text, whose bytes are the tokens of a model with a vocabulary
 * of 256. Which tokens count in the loss is said by a mask beside it (engine/train/token_mask.h);
 * all do without one. Documents follow each other without a gap. The file is read where a batch
 * needs it. A batch is a pure function of its place in the run, so a resumed run sees the same data
 * as an uninterrupted one. */
#ifndef PSTAR_ENGINE_TRAIN_DATA_H
#define PSTAR_ENGINE_TRAIN_DATA_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum data_share { DATA_TRAINING, DATA_HELD_OUT, DATA_SHARES };

enum data_order {
    DATA_RANDOM, /* each sequence has a random start, drawn from (seed, step, micro-batch, row) */
    DATA_SEQUENTIAL /* one after the other; from the start again when no whole sequence is left */
};

/* How a file is read. */
enum data_tokens {
    DATA_TOKENS_AUTO, /* as its first bytes say; text only if the vocabulary is 256 */
    DATA_TOKENS_BYTES,
    DATA_TOKENS_UINT16, /* bare little-endian numbers */
    DATA_TOKENS_UINT32
};

enum data_error {
    DATA_ERROR_IO,
    DATA_ERROR_INVALID, /* a damaged token file */
    DATA_ERROR_KIND,    /* neither text nor tokens, or text for a model of other tokens */
    DATA_ERROR_TOKENS,  /* a token outside the vocabulary */
    DATA_ERROR_SHORT,   /* shorter than one sequence and its last target */
    DATA_ERROR_MASK     /* no target counts, or the mask is that of other tokens */
};
#define DATA_ERROR data_error_quark()
GQuark data_error_quark(void);

struct data_options {
    uint32_t vocabulary; /* every token must be below */
    uint32_t sequence;   /* T: tokens a sequence */
    double held_out; /* in [0, 1): the share of the tokens, at the end, that is never trained on */
    uint64_t seed;   /* of DATA_RANDOM */
    uint8_t order;   /* enum data_order */
    uint8_t tokens;  /* enum data_tokens */
    const char *model; /* its folder or file, for messages; must outlive data_open */
};

struct data;

/* Errors name the file and the reason, and the place of a token outside the vocabulary. */
struct data *data_open(const char *path, const struct data_options *options, GError **error);
void data_close(struct data *data); /* NULL is allowed */

/* Returns the number of tokens of a share. A share that is not empty holds at least one sequence
 * and its last target. */
uint64_t data_tokens(const struct data *data, enum data_share share);

/* Returns whether the file has a mask. */
bool data_has_mask(const struct data *data);
/* Returns how many targets of a share count. */
uint64_t data_targets(const struct data *data, enum data_share share);
/* Returns how many targets count in a step, in all of its micro-batches. */
uint64_t data_step_targets(const struct data *data, uint64_t step, uint32_t micro_batches,
                           uint32_t batch);

/* Fails if the file has become shorter since it was opened, if its bytes have been changed, or if
 * the disk could not read a part of it. What is no token any more, or cannot be read, was then read
 * as 0. Of changes that leave tokens, only those that data_digest sees are found. */
bool data_check(const struct data *data, GError **error);

/* Returns whether the tokens are the bytes of a text. */
bool data_is_text(const struct data *data);

/* Copies one micro-batch of the training share. tokens and targets are [batch, sequence]; a target
 * is the token that follows, or KERNEL_NO_TARGET (engine/kernels.h) if that does not count.
 * `micro_batches` is their number a step. */
void data_batch(const struct data *data, uint64_t step, uint32_t micro_batch,
                uint32_t micro_batches, uint32_t batch, uint32_t *tokens, uint32_t *targets);

/* For evaluation: return the number of whole sequences of a share, and copy `count` of them from
 * `first`, in order. */
uint64_t data_sequences(const struct data *data, enum data_share share);
void data_read(const struct data *data, enum data_share share, uint64_t first, uint32_t count,
               uint32_t *tokens, uint32_t *targets);

/* Returns the entropy of the training share's tokens that count in nats, which is the loss of the
 * best model that ignores context. */
double data_unigram_entropy(const struct data *data);

/* Returns a digest that tells whether two runs read the same tokens: SHA-256, in hexadecimal, over
 * the length and samples, and the mask. The caller frees it with g_free. */
char *data_digest(const struct data *data);

#endif
