/* Finds the tokens in files that say how their tokens are stored: those of llm.c, numpy and
 * Megatron-LM. Headers are not trusted: every count is compared with the size of the file. */
#ifndef PSTAR_ENGINE_TRAIN_TOKEN_ARRAY_H
#define PSTAR_ENGINE_TRAIN_TOKEN_ARRAY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Little-endian integers, one behind the other. */
struct token_array {
    uint64_t at;    /* the byte at which they begin */
    uint64_t count; /* of them */
    uint8_t bytes;  /* of one: 1, 2, 4 or 8 */
    bool is_signed;
    bool masked;       /* the file says that it has a mask (engine/train/token_mask.h) ... */
    uint32_t mask_sum; /* ... and which: token_mask_sum */
};

/* Reads llm.c's header of 256 int32: magic, version, number of tokens, and 0 in llm.c's own files,
 * or 1 and the CRC-32 of the file's mask. The magic, which the caller has recognised, belongs to
 * `version` and `token_bytes`. `file` is a descriptor of a file of file_bytes. Errors (enum
 * data_error) do not name the file. */
bool token_array_read_llmc(int file, uint64_t file_bytes, int32_t version, uint8_t token_bytes,
                           struct token_array *array, GError **error);

/* Reads the header of a .npy file (versions 1 to 3) that holds a one-dimensional array of
 * little-endian integers. */
bool token_array_read_npy(int file, uint64_t file_bytes, struct token_array *array, GError **error);

/* Reads Megatron-LM's index (.idx) of a file of tokens (.bin) of data_bytes:
 *
 *     "MMIDIDX\0\0", version 1 (uint64), type of a token (uint8), sequences n (uint64), entries of
 *     the list of documents d (uint64); tokens of each sequence (n int32); the byte at which each
 *     begins (n int64); the first sequence of each document (d int64)
 *
 * Its sequences must follow each other and fill the .bin file, as Megatron's tools write them. */
bool token_array_read_index(int file, uint64_t file_bytes, uint64_t data_bytes,
                            struct token_array *array, GError **error);

#endif
