/* Recognises what a file of training data holds by its first bytes. */
#ifndef PSTAR_ENGINE_TRAIN_DATA_KIND_H
#define PSTAR_ENGINE_TRAIN_DATA_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum data_form {
    DATA_FORM_TEXT,
    DATA_FORM_JSON,     /* text of another program's: JSON, or JSON lines */
    DATA_FORM_BINARY,   /* bytes that are no text; perhaps bare token numbers */
    DATA_FORM_GPT2,     /* llm.c's token file of uint16 */
    DATA_FORM_LLAMA,    /* llm.c's token file of uint32 */
    DATA_FORM_NPY,      /* numpy's file of one array */
    DATA_FORM_MEGATRON, /* the index beside a file of tokens */
    DATA_FORM_OTHER     /* a format that holds neither text nor bare tokens */
};

struct data_kind {
    enum data_form form;
    const char *name;   /* "a Parquet file" */
    const char *advice; /* how to get text or tokens out of it; NULL unless DATA_FORM_OTHER */
    bool doubtful;      /* bare token numbers may well begin with the same bytes */
};

/* The bytes that may matter. */
enum { DATA_KIND_BYTES = (1 << 20) + (128 << 10) };

/* `bytes` are the first of a file of file_bytes: all of them, or DATA_KIND_BYTES. The strings of
 * the result are constant. */
struct data_kind data_kind_of(const uint8_t *bytes, size_t count, uint64_t file_bytes);

#endif
