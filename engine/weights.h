/* A model's weights in a Hugging Face model.safetensors: names, shapes, reading and writing. */
#ifndef PSTAR_ENGINE_WEIGHTS_H
#define PSTAR_ENGINE_WEIGHTS_H

#include "models/config.h"
#include "models/safetensors.h"
#include "traces/trace.h"

#include <jansson.h>

#define WEIGHTS_STEM  "model"
#define WEIGHTS_FILE  "model.safetensors"
#define WEIGHTS_INDEX "model.safetensors.index.json"

/* How weights lie in files. */
struct weights_form {
    bool halves;         /* in bf16; else in fp32 */
    uint64_t file_bytes; /* of data in a file, at most; a tensor that is larger has its own file */
};

/* The form of new weights: fp32, in files of at most 5 GiB. */
struct weights_form weights_form_new(void);
/* Returns the form of weights that were read, for those that are saved later: bf16 if all of them
 * are, and files no larger than theirs if there are several. */
struct weights_form weights_form_of(const struct safetensors *file);

/* Sets the shape of a tensor, named as in traces ("h.0.attn.c_attn.weight"). Returns its rank, 1
 * or 2. */
uint32_t weights_shape(const struct model_config *config, const char *name, uint64_t shape[2]);

/* Reads or writes elements [first, first + count) of a tensor in a list, as fp32, wherever its
 * chunk lies. Writing TRACE_MASTER also sets the rounded parameter. */
struct weights_store {
    void *self;
    bool (*read)(void *self, tensor_id tensor, enum trace_list list, uint64_t first, uint64_t count,
                 float *values, GError **error);
    bool (*write)(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                  uint64_t count, const float *values, GError **error);
};

/* Returns the list that holds the weights in full: TRACE_MASTER if it exists, else TRACE_PARAM. */
enum trace_list weights_list(const struct trace *trace);

/* Returns the same of one tensor; frozen ones are in TRACE_PARAM alone. */
enum trace_list weights_list_of(const struct trace *trace, tensor_id tensor);

/* Returns whether a tensor, named as in traces, is an adapter, which files of weights lack. */
bool weights_is_adapter(const char *name);

/* Returns the name that a tensor has in files. The caller frees it with g_free. */
char *weights_saved_name(const struct model_config *config, const char *name);

/* Finds out whether a folder holds weights to start from, or only a config.json. Fails if it holds
 * weights in another form than these two, which cannot be read: starting anew would be a
 * surprise. */
bool weights_exist(const char *folder, bool *exist, GError **error);

/* Opens a model's file, or the file or files in a folder, and checks them against the model:
 * every tensor must be there, with its shape, with or without the family's prefix ("transformer.",
 * "model."). Other tensors of such files (attention's mask buffers, the classifier of a tied model)
 * are ignored; any further tensor is refused by name. Nothing is written to the store. */
struct safetensors *weights_open(const char *path, const struct model_config *config,
                                 const struct trace *trace, GError **error);

/* Copies every tensor of an open file to the store, in pieces. */
bool weights_load(const struct safetensors *file, const struct model_config *config,
                  const struct trace *trace, const struct weights_store *store, GError **error);

/* Returns a digest of the beginning and the end of each of the trace's tensors in the file, but not
 * of adapters. It does not depend on how the file names and stores them: in fp32 or bf16, in one
 * file or several. Free with g_free. Returns NULL with an error if the file cannot be read. */
char *weights_digest(const struct safetensors *file, const struct model_config *config,
                     const struct trace *trace, GError **error);

/* Copy one list of a tensor between a file and the store, in pieces. `from` must have as many
 * elements as the tensor. */
bool weights_copy_in(const struct safetensors *file, const struct safetensors_tensor *from,
                     const struct weights_store *store, tensor_id tensor, enum trace_list list,
                     GError **error);
bool weights_copy_out(struct safetensors_writer *writer, const struct weights_store *store,
                      tensor_id tensor, enum trace_list list, uint64_t elements, GError **error);

/* ---- files of several processes ---- */

/* A process that writes a part of a model's files: number `index` of `count`. */
struct weights_writer {
    uint32_t index, count;
    json_t *checksums; /* an object that receives the safetensors_writer_checksums of each file by
                          its name; NULL if nobody needs them */
};

/* Finishes a file. */
bool weights_file_finish(struct weights_writer writer, const char *name,
                         struct safetensors_writer *file, GError **error);

/* Whole tensors [first, end), which one process writes into one file. */
struct weights_file {
    uint32_t first, end;
    uint32_t writer;
};

/* Returns struct weights_file: all tensors in order. Each writer has consecutive tensors, about as
 * many elements as any other, in files of at most `file_bytes`, with `element_bytes` an element; a
 * larger tensor has its own file. With more writers than tensors, some have no file. The caller
 * frees the result with g_array_unref. */
GArray *weights_files(const struct trace *trace, uint32_t writers, uint64_t element_bytes,
                      uint64_t file_bytes);

/* Returns the name of a file, "STEM.safetensors" if there is only one, or
 * "STEM-00001-of-00003.safetensors". Free with g_free. */
char *weights_file_name(const char *stem, uint32_t file, uint32_t files);
/* Returns whether a file of this name may be one of them, or their index. */
bool weights_file_is(const char *stem, const char *name);

/* Writes the index of several files, "STEM.safetensors.index.json". `map` has the file of every
 * tensor, by its name, and is released. */
bool weights_files_write_index(const char *folder, const char *stem, json_t *map, uint64_t bytes,
                               GError **error);

/* ---- saving ---- */

/* Returns the files of a model's weights in this form, as weights_files. */
GArray *weights_form_files(const struct weights_form *form, const struct trace *trace,
                           uint32_t writers);

/* Writes weights into a folder as transformers' save_pretrained does: model.safetensors, or several
 * files with an index. Each writer writes its files, and the first the index. */
bool weights_save(const char *folder, const struct model_config *config, const struct trace *trace,
                  const struct weights_store *store, const struct weights_form *form,
                  struct weights_writer writer, GError **error);

/* ---- new weights ---- */

/* Fill the store with the weights of a new model, drawn by initialise_values; the second function
 * with those of adapters alone. */
bool weights_initialise(const struct model_config *config, const struct trace *trace, uint64_t seed,
                        const struct weights_store *store, GError **error);
bool weights_initialise_adapters(const struct model_config *config, const struct trace *trace,
                                 uint64_t seed, const struct weights_store *store, GError **error);

/* Draws elements [first, first + count) of a tensor of a new model, as its family draws them.
 * Matrices and embeddings are normal with the config's initializer_range as deviation, in GPT-2
 * divided by sqrt(2 * layers) in the products that end on the residual stream. Weights of norms are
 * 1, biases 0. Of adapters, B is 0, and A uniform within 1/sqrt(inputs), as PEFT draws it. `tensor`
 * is its index in the model, `name` its name as in traces
 * ("h.0.attn.c_attn.weight"). Values depend only on seed, tensor and element, so that chunks and
 * pieces cannot matter. */
void initialise_values(const struct model_config *config, uint64_t seed, uint32_t tensor,
                       const char *name, uint64_t first, uint64_t count, float *values);

#endif
