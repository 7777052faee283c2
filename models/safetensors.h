/* Reads and writes safetensors files: named tensors of numbers, as Hugging Face stores weights.
 *
 * A file is eight bytes (length of the header, little-endian), the header (JSON: name -> dtype,
 * shape, data_offsets), and the data. A file is read and written in pieces, so that neither ever
 * needs a whole model in memory. */
#ifndef PSTAR_MODELS_SAFETENSORS_H
#define PSTAR_MODELS_SAFETENSORS_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SAFETENSORS_MAX_RANK 8

enum safetensors_dtype {
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_OTHER /* a number format that exists, but holds no weights: U8, BOOL, I64, ... */
};

struct safetensors_tensor {
    char *name;
    uint8_t dtype;      /* enum safetensors_dtype */
    const char *format; /* the dtype's name in the file */
    uint32_t rank;      /* 0 for a scalar */
    uint64_t shape[SAFETENSORS_MAX_RANK];
    uint64_t elements; /* product of shape */
    uint64_t offset;   /* bytes from the start of the data */
    uint64_t bytes;
    uint32_t part; /* which of the files of an index holds it; 0 for a single file */
};

enum safetensors_error {
    SAFETENSORS_ERROR_IO,      /* cannot be read or written */
    SAFETENSORS_ERROR_INVALID, /* not a safetensors file, or damaged */
    SAFETENSORS_ERROR_TENSOR   /* a tensor is missing, or of another shape or number format */
};
#define SAFETENSORS_ERROR safetensors_error_quark()
GQuark safetensors_error_quark(void);

/* A file open for reading. */
struct safetensors;

/* Checks the whole header: every tensor's bytes are its shape times its number format, in range,
 * and together they cover the data exactly once. Errors name file, tensor and reason. */
struct safetensors *safetensors_open(const char *path, GError **error);
/* Opens the files that an index lists ("model.safetensors.index.json" of transformers), as if they
 * were one. Each tensor must be in the file that the index names, and in no other. */
struct safetensors *safetensors_open_index(const char *path, GError **error);
void safetensors_close(struct safetensors *file); /* NULL is allowed */

const char *safetensors_path(const struct safetensors *file);
uint32_t safetensors_count(const struct safetensors *file);
/* Returns the tensor at `index` < count, in the order of the files and their data. The file owns
 * it.
 */
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, uint32_t index);
/* Returns NULL if no tensor has that name. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

/* Fails (SAFETENSORS_ERROR_TENSOR, naming file and tensor, what was expected and what is there)
 * unless the tensor has this shape and a number format that safetensors_read can widen. */
bool safetensors_expect(const struct safetensors *file, const struct safetensors_tensor *tensor,
                        const uint64_t *shape, uint32_t rank, GError **error);

/* Reads elements [first, first + count) of a tensor, widened to fp32 exactly. safetensors_expect
 * must have accepted the tensor, and the elements must exist. Fails (SAFETENSORS_ERROR_IO) if the
 * file cannot be read. Several threads may call it at once. */
bool safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                      uint64_t first, uint64_t count, float *values, GError **error);

/* A file being written: tensors are declared, in order, then their data is appended in that same
 * order, in pieces of any size. It appears under `path`, whole, at safetensors_writer_finish. */
struct safetensors_writer;

struct safetensors_writer *safetensors_writer_new(const char *path);
/* Declares a tensor in fp32 or bf16; its name must be new. Must precede the first append. */
void safetensors_writer_declare(struct safetensors_writer *writer, enum safetensors_dtype dtype,
                                const char *name, const uint64_t *shape, uint32_t rank);
/* Appends the next bytes of the data, which may span several tensors. */
bool safetensors_writer_append(struct safetensors_writer *writer, const void *data, uint64_t bytes,
                               GError **error);
/* Flushes the file to the disk and moves it to its place. All data must have been appended. */
bool safetensors_writer_finish(struct safetensors_writer *writer, GError **error);
/* Returns the CRC-32 (zlib's) of what was handed over to be written, to be released by the caller:
 * an object with header_bytes and header_crc32, of all that precedes the data, and `tensors`, in
 * the order of the file, each an object with name, bytes and crc32. All data must have been
 * appended. */
json_t *safetensors_writer_checksums(const struct safetensors_writer *writer);
/* Frees the writer and deletes a file that was not finished. NULL is allowed. */
void safetensors_writer_free(struct safetensors_writer *writer);

#endif
