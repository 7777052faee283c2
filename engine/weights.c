#include "engine/weights.h"

#include "engine/bf16.h"
#include "engine/random.h"
#include "models/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- new weights ---- */

static void fill(float value, uint64_t count, float *values)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = value;
}

/* GPT-2 draws the products that end on the residual stream from a smaller range. */
/* Returns the tensor of this name, which the model has. */
static struct model_tensor tensor_named(const struct model_config *config, const char *name)
{
    struct model_tensor tensor;
    bool found = model_tensor_find(config, name, &tensor);
    g_assert(found);
    return tensor;
}

static bool ends_on_stream(const struct model_config *config, const struct model_tensor *tensor)
{
    return model_family_of(config)->scaled_ends &&
           (tensor->module == MODULE_OUTPUT || tensor->module == MODULE_DOWN);
}

void initialise_values(const struct model_config *config, uint64_t seed, uint32_t tensor,
                       const char *name, uint64_t first, uint64_t count, float *values)
{
    const struct model_tensor of = tensor_named(config, name);
    if (of.adapter == MODEL_ADAPTER_A) {
        double bound = 1 / sqrt((double)of.shape[1]);
        struct random_stream stream = {.seed = seed, .pass = 0, .site = tensor};
        for (uint64_t i = 0; i < count; i++)
            values[i] = (float)(bound * (random_word(&stream, first + i) * 0x1p-31 - 1));
    } else if (of.bias || of.adapter == MODEL_ADAPTER_B) {
        fill(0.0f, count, values);
    } else if (of.norm) {
        fill(config->norm_plus_one ? 0.0f : 1.0f, count, values);
    } else {
        double deviation = config->initializer_range;
        if (ends_on_stream(config, &of))
            deviation /= sqrt(2.0 * config->layers);
        struct random_stream stream = {.seed = seed, .pass = 0, .site = tensor};
        random_normal(&stream, first, count, deviation, values);
    }
}

/* ---- files ---- */

/* Elements in flight between file and store. A GPU takes some ten microseconds for a copy of any
 * size, so pieces have megabytes. */
#define PIECE (UINT64_C(1) << 20)
/* Elements that a core reads at a time. */
#define SLICE (UINT64_C(1) << 16)

uint32_t weights_shape(const struct model_config *config, const char *name, uint64_t shape[2])
{
    const struct model_tensor tensor = tensor_named(config, name);
    shape[0] = tensor.shape[0];
    shape[1] = tensor.shape[1];
    return tensor.rank;
}

enum trace_list weights_list(const struct trace *trace)
{
    return trace->list_element_bytes[TRACE_MASTER] > 0 ? TRACE_MASTER : TRACE_PARAM;
}

enum trace_list weights_list_of(const struct trace *trace, tensor_id tensor)
{
    return trace_has(trace, TRACE_MASTER, tensor) ? TRACE_MASTER : TRACE_PARAM;
}

bool weights_is_adapter(const char *name)
{
    return g_str_has_suffix(name, ".lora_A.weight") || g_str_has_suffix(name, ".lora_B.weight");
}

static bool is_head(const struct model_config *config, const char *name)
{
    const char *head = model_head(config);
    return g_str_has_prefix(name, head) && name[strlen(head)] == '.';
}

char *weights_saved_name(const struct model_config *config, const char *name)
{
    return g_strconcat(is_head(config, name) ? "" : model_family_of(config)->file_prefix, name,
                       NULL);
}

/* Files of a model without its head have names without prefixes. */
static const struct safetensors_tensor *find(const struct safetensors *file,
                                             const struct model_config *config, const char *name)
{
    const char *prefix = model_family_of(config)->prefix;
    g_autofree char *prefixed = weights_saved_name(config, name);
    const struct safetensors_tensor *tensor = safetensors_find(file, prefixed);
    if (!tensor && g_str_has_prefix(name, prefix))
        tensor = safetensors_find(file, name + strlen(prefix));
    return tensor;
}

/* ---- pieces: where the elements of a tensor are in files ---- */

/* A part of a tensor of ours, [first, first + elements): the elements from `from` on of a tensor
 * in a file, which has the shape. */
struct weights_piece {
    char *name; /* in files, without the prefix of files */
    uint64_t first, elements, from;
    uint64_t shape[3];
    uint32_t rank;
};

/* An expert's tensor for gate and up is two in files. */
enum { MOST_PIECES = 2 };

struct pieces {
    struct weights_piece at[MOST_PIECES];
    uint32_t count;
};

static void clear_pieces(struct pieces *pieces)
{
    for (uint32_t i = 0; i < pieces->count; i++)
        g_free(pieces->at[i].name);
}

typedef struct pieces pieces_auto;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(pieces_auto, clear_pieces)

static char *name_in_layer(const struct model_config *config, int32_t layer, const char *part)
{
    const struct model_family *family = model_family_of(config);
    return g_strdup_printf("%s%s.%d.%s", family->prefix, family->layers, layer, part);
}

/* Gate and up lie one behind the other in our tensor, and apart in files. */
static struct pieces pieces_of_expert(const struct model_config *config,
                                      const struct model_tensor *of)
{
    const struct model_family *family = model_family_of(config);
    const char *mlp = family->file_mlp ? family->file_mlp : family->mlp;
    bool up = of->module == MODULE_UP;
    struct pieces pieces = {.count = up ? 2 : 1};
    uint64_t rows = of->shape[0] / pieces.count, elements = rows * of->shape[1];
    for (uint32_t i = 0; i < pieces.count; i++) {
        g_autofree char *part = g_strdup_printf("%s.experts.%u.%s.weight", mlp, of->expert,
                                                family->file_experts[up ? i : 2]);
        pieces.at[i] = (struct weights_piece){.name = name_in_layer(config, of->layer, part),
                                              .first = i * elements,
                                              .elements = elements,
                                              .shape = {rows, of->shape[1]},
                                              .rank = 2};
    }
    return pieces;
}

/* Returns the pieces under the names that files have on the Hugging Face hub. */
static struct pieces pieces_of(const struct model_config *config, const char *name)
{
    const struct model_family *family = model_family_of(config);
    const struct model_tensor of = tensor_named(config, name);
    if (of.expert != NO_INDEX)
        return pieces_of_expert(config, &of);
    struct pieces pieces = {.at[0] = {.elements = of.shape[0] * of.shape[1],
                                      .shape = {of.shape[0], of.shape[1]},
                                      .rank = of.rank},
                            .count = 1};
    if (of.layer >= 0 && of.module == MODULE_ROUTER && family->file_mlp) {
        g_autofree char *part = g_strconcat(family->file_mlp, ".gate.weight", NULL);
        pieces.at[0].name = name_in_layer(config, of.layer, part);
    } else {
        pieces.at[0].name = g_strdup(name);
    }
    return pieces;
}

/* Returns the pieces under the names that transformers has in memory, where all experts of a layer
 * are one tensor: [experts, outputs, inputs]. */
static struct pieces joined_pieces(const struct model_config *config, const char *name)
{
    const struct model_tensor of = tensor_named(config, name);
    struct pieces pieces = {.count = 1};
    uint64_t elements = of.shape[0] * of.shape[1];
    if (of.expert == NO_INDEX) {
        pieces.at[0] = (struct weights_piece){.name = g_strdup(name),
                                              .elements = elements,
                                              .shape = {of.shape[0], of.shape[1]},
                                              .rank = of.rank};
        return pieces;
    }
    const struct model_family *family = model_family_of(config);
    g_autofree char *part = g_strconcat(family->experts, ".", family->modules[of.module], NULL);
    pieces.at[0] = (struct weights_piece){.name = name_in_layer(config, of.layer, part),
                                          .elements = elements,
                                          .from = of.expert * elements,
                                          .shape = {config->experts, of.shape[0], of.shape[1]},
                                          .rank = 3};
    return pieces;
}

/* Returns the pieces under the names that this file has, or else those of the hub. */
static struct pieces pieces_in(const struct safetensors *file, const struct model_config *config,
                               const char *name)
{
    struct pieces pieces = pieces_of(config, name);
    if (!config->experts || find(file, config, pieces.at[0].name))
        return pieces;
    struct pieces joined = joined_pieces(config, name);
    bool there = find(file, config, joined.at[0].name);
    clear_pieces(there ? &pieces : &joined);
    return there ? joined : pieces;
}

static bool check_piece(const struct safetensors *file, const struct model_config *config,
                        const struct weights_piece *piece, GHashTable *known, GError **error)
{
    const struct safetensors_tensor *tensor = find(file, config, piece->name);
    if (!tensor) {
        g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR, "%s: tensor %s is missing",
                    safetensors_path(file), piece->name);
        return false;
    }
    if (!safetensors_expect(file, tensor, piece->shape, piece->rank, error))
        return false;
    g_hash_table_add(known, tensor->name);
    return true;
}

static bool check_wanted(const struct safetensors *file, const struct model_config *config,
                         const struct trace *trace, GHashTable *known, GError **error)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        const char *name = trace->tensors[i].name;
        if (weights_is_adapter(name))
            continue;
        g_auto(pieces_auto) pieces = pieces_in(file, config, name);
        for (uint32_t p = 0; p < pieces.count; p++)
            if (!check_piece(file, config, &pieces.at[p], known, error))
                return false;
    }
    return true;
}

/* Returns whether the tensor may be ignored: an attention mask or the frequencies of rotary
 * positions, which older files hold as tensors, or the classifier of a tied model, which equals the
 * table of words. */
static bool is_redundant(const struct model_config *config, const char *name)
{
    static const char *const buffers[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                          ".attention.masked_bias", ".rotary_emb.inv_freq"};
    for (size_t i = 0; i < G_N_ELEMENTS(buffers); i++)
        if (g_str_has_suffix(name, buffers[i]))
            return true;
    return config->tied && is_head(config, name);
}

static bool check_rest(const struct safetensors *file, const struct model_config *config,
                       GHashTable *known, GError **error)
{
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const char *name = safetensors_at(file, i)->name;
        if (!g_hash_table_contains(known, name) && !is_redundant(config, name)) {
            g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                        "%s: tensor %s is not part of the model (%s)", safetensors_path(file), name,
                        config->name);
            return false;
        }
    }
    return true;
}

/* A link whose file is gone is there, too: opening it says what is wrong, and nothing is trained
 * from other weights instead. */
static bool is_there(const char *path)
{
    return g_file_test(path, G_FILE_TEST_EXISTS) || g_file_test(path, G_FILE_TEST_IS_SYMLINK);
}

bool weights_exist(const char *folder, bool *exist, GError **error)
{
    static const char *const other_forms[] = {
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "tf_model.h5",
        "flax_model.msgpack",
    };
    g_autofree char *file = g_build_filename(folder, WEIGHTS_FILE, NULL);
    g_autofree char *index = g_build_filename(folder, WEIGHTS_INDEX, NULL);
    *exist = is_there(file) || is_there(index);
    for (size_t i = 0; !*exist && i < G_N_ELEMENTS(other_forms); i++) {
        char *other = g_build_filename(folder, other_forms[i], NULL);
        bool found = is_there(other);
        if (found)
            g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_INVALID,
                        "%s: weights are read from " WEIGHTS_FILE " or " WEIGHTS_INDEX
                        " only, which are missing",
                        other);
        g_free(other);
        if (found)
            return false;
    }
    return true;
}

/* A folder may hold one file or several, which an index lists. */
static struct safetensors *open_file(const char *path, GError **error)
{
    g_autofree char *file = g_build_filename(path, WEIGHTS_FILE, NULL);
    g_autofree char *index = g_build_filename(path, WEIGHTS_INDEX, NULL);
    if (g_str_has_suffix(path, ".index.json"))
        return safetensors_open_index(path, error);
    if (!g_file_test(path, G_FILE_TEST_IS_DIR))
        return safetensors_open(path, error);
    bool several = !is_there(file) && is_there(index);
    return several ? safetensors_open_index(index, error) : safetensors_open(file, error);
}

struct safetensors *weights_open(const char *path, const struct model_config *config,
                                 const struct trace *trace, GError **error)
{
    struct safetensors *file = open_file(path, error);
    if (!file)
        return NULL;
    GHashTable *known = g_hash_table_new(g_str_hash, g_str_equal);
    bool fits = check_wanted(file, config, trace, known, error) &&
                check_rest(file, config, known, error);
    g_hash_table_destroy(known);
    if (!fits) {
        safetensors_close(file);
        return NULL;
    }
    return file;
}

/* Widening takes longer than the copy to a GPU unless all cores do it. Of several errors one is
 * kept. */
static bool read_piece(const struct safetensors *file, const struct safetensors_tensor *from,
                       uint64_t first, uint64_t count, float *values, GError **error)
{
    GError *kept = NULL;
#pragma omp parallel for schedule(static)
    for (uint64_t done = 0; done < count; done += SLICE) {
        GError *problem = NULL;
        if (!safetensors_read(file, from, first + done, MIN(SLICE, count - done), values + done,
                              &problem) &&
            !g_atomic_pointer_compare_and_exchange(&kept, NULL, problem))
            g_error_free(problem);
    }
    if (kept)
        g_propagate_error(error, kept);
    return !kept;
}

/* Copies the elements of a file's tensor from piece->from on to piece->first. */
static bool copy_in(const struct safetensors *file, const struct safetensors_tensor *from,
                    const struct weights_piece *piece, const struct weights_store *store,
                    tensor_id tensor, enum trace_list list, GError **error)
{
    float *values = g_new(float, PIECE);
    bool copied = true;
    for (uint64_t done = 0; copied && done < piece->elements; done += PIECE) {
        uint64_t count = MIN(PIECE, piece->elements - done);
        copied = read_piece(file, from, piece->from + done, count, values, error) &&
                 store->write(store->self, tensor, list, piece->first + done, count, values, error);
    }
    g_free(values);
    return copied;
}

bool weights_copy_in(const struct safetensors *file, const struct safetensors_tensor *from,
                     const struct weights_store *store, tensor_id tensor, enum trace_list list,
                     GError **error)
{
    const struct weights_piece whole = {.elements = from->elements};
    return copy_in(file, from, &whole, store, tensor, list, error);
}

bool weights_copy_out(struct safetensors_writer *writer, const struct weights_store *store,
                      tensor_id tensor, enum trace_list list, uint64_t elements, GError **error)
{
    float *values = g_new(float, PIECE);
    bool copied = true;
    for (uint64_t first = 0; copied && first < elements; first += PIECE) {
        uint64_t count = MIN(PIECE, elements - first);
        copied = store->read(store->self, tensor, list, first, count, values, error) &&
                 safetensors_writer_append(writer, values, count * sizeof *values, error);
    }
    g_free(values);
    return copied;
}

bool weights_load(const struct safetensors *file, const struct model_config *config,
                  const struct trace *trace, const struct weights_store *store, GError **error)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        if (weights_is_adapter(trace->tensors[i].name))
            continue;
        g_auto(pieces_auto) pieces = pieces_in(file, config, trace->tensors[i].name);
        for (uint32_t p = 0; p < pieces.count; p++) {
            const struct safetensors_tensor *from = find(file, config, pieces.at[p].name);
            g_assert(from);
            if (!copy_in(file, from, &pieces.at[p], store, i, weights_list_of(trace, i), error))
                return false;
        }
    }
    return true;
}

static bool digest_piece(GChecksum *sum, const struct safetensors *file,
                         const struct safetensors_tensor *from, const struct weights_piece *piece,
                         GError **error)
{
    float sample[1024];
    uint64_t count = MIN(piece->elements, G_N_ELEMENTS(sample));
    const uint64_t first[] = {piece->from, piece->from + piece->elements - count};
    for (size_t i = 0; i < G_N_ELEMENTS(first); i++) {
        if (!safetensors_read(file, from, first[i], count, sample, error))
            return false;
        g_checksum_update(sum, (const guchar *)sample, (gssize)(count * sizeof *sample));
    }
    return true;
}

char *weights_digest(const struct safetensors *file, const struct model_config *config,
                     const struct trace *trace, GError **error)
{
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    bool read = true;
    for (uint32_t i = 0; read && i < trace->tensor_count; i++) {
        if (weights_is_adapter(trace->tensors[i].name))
            continue;
        g_auto(pieces_auto) pieces = pieces_in(file, config, trace->tensors[i].name);
        for (uint32_t p = 0; read && p < pieces.count; p++)
            read = digest_piece(sum, file, find(file, config, pieces.at[p].name), &pieces.at[p],
                                error);
    }
    char *digest = read ? g_strdup(g_checksum_get_string(sum)) : NULL;
    g_checksum_free(sum);
    return digest;
}

/* ---- files of several processes ---- */

/* Returns how many of `writers` equal parts of the elements lie before the middle of a tensor,
 * which begins at element `before`: the number of the writer that has it. */
static uint32_t writer_of(uint64_t before, uint64_t elements, uint64_t all, uint32_t writers)
{
    double middle = (double)before + (double)elements / 2;
    return MIN((uint32_t)(middle / (double)all * writers), writers - 1);
}

GArray *weights_files(const struct trace *trace, uint32_t writers, uint64_t element_bytes,
                      uint64_t file_bytes)
{
    GArray *files = g_array_new(FALSE, FALSE, sizeof(struct weights_file));
    uint64_t all = 0, before = 0, bytes = 0;
    struct weights_file file = {0};
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        all += trace->tensors[i].elements;
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        uint64_t elements = trace->tensors[i].elements, more = elements * element_bytes;
        uint32_t writer = writer_of(before, elements, all, writers);
        if (i > 0 && (writer != file.writer || bytes + more > file_bytes)) {
            file.end = i;
            g_array_append_val(files, file);
            file.first = i;
            bytes = 0;
        }
        file.writer = writer;
        bytes += more;
        before += elements;
    }
    file.end = trace->tensor_count;
    g_array_append_val(files, file);
    return files;
}

char *weights_file_name(const char *stem, uint32_t file, uint32_t files)
{
    return files == 1 ? g_strconcat(stem, ".safetensors", NULL)
                      : g_strdup_printf("%s-%05u-of-%05u.safetensors", stem, file + 1, files);
}

/* Returns what follows the prefix and one or more digits, or NULL. */
static const char *after_number(const char *text, const char *prefix)
{
    const char *digits = text && g_str_has_prefix(text, prefix) ? text + strlen(prefix) : "";
    size_t count = strspn(digits, "0123456789");
    return count ? digits + count : NULL;
}

bool weights_file_is(const char *stem, const char *name)
{
    if (!g_str_has_prefix(name, stem))
        return false;
    const char *rest = name + strlen(stem);
    const char *numbered = after_number(after_number(rest, "-"), "-of-");
    rest = numbered ? numbered : rest;
    return strcmp(rest, ".safetensors") == 0 || strcmp(rest, ".safetensors.index.json") == 0;
}

bool weights_files_write_index(const char *folder, const char *stem, json_t *map, uint64_t bytes,
                               GError **error)
{
    g_autofree char *name = g_strconcat(stem, ".safetensors.index.json", NULL);
    g_autofree char *path = g_build_filename(folder, name, NULL);
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes,
                              "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2));
    bool saved = g_file_set_contents(path, text, -1, error);
    free(text);
    json_decref(index);
    return saved;
}

/* ---- saving ---- */

bool weights_file_finish(struct weights_writer writer, const char *name,
                         struct safetensors_writer *file, GError **error)
{
    bool finished = safetensors_writer_finish(file, error);
    if (finished && writer.checksums)
        json_object_set_new(writer.checksums, name, safetensors_writer_checksums(file));
    return finished;
}

#define FILE_BYTES (UINT64_C(5) << 30)

struct weights_form weights_form_new(void)
{
    return (struct weights_form){.halves = false, .file_bytes = FILE_BYTES};
}

struct weights_form weights_form_of(const struct safetensors *file)
{
    struct weights_form form = {.halves = true, .file_bytes = FILE_BYTES};
    uint64_t bytes = 0, most = 0;
    uint32_t part = 0;
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        form.halves = form.halves && tensor->dtype == SAFETENSORS_BF16;
        bytes = tensor->part == part ? bytes + tensor->bytes : tensor->bytes;
        part = tensor->part;
        most = MAX(most, bytes);
    }
    if (part > 0)
        form.file_bytes = MIN(most, FILE_BYTES);
    return form;
}

static uint64_t element_bytes(const struct weights_form *form)
{
    return form->halves ? sizeof(uint16_t) : sizeof(float);
}

GArray *weights_form_files(const struct weights_form *form, const struct trace *trace,
                           uint32_t writers)
{
    return weights_files(trace, writers, element_bytes(form), form->file_bytes);
}

/* Rounds as parameters are rounded. */
static bool copy_halves(struct safetensors_writer *writer, const struct weights_store *store,
                        tensor_id tensor, enum trace_list list, uint64_t elements, GError **error)
{
    g_autofree float *values = g_new(float, PIECE);
    g_autofree uint16_t *halves = g_new(uint16_t, PIECE);
    bool copied = true;
    for (uint64_t first = 0; copied && first < elements; first += PIECE) {
        uint64_t count = MIN(PIECE, elements - first);
        copied = store->read(store->self, tensor, list, first, count, values, error);
        for (uint64_t i = 0; copied && i < count; i++)
            halves[i] = bf16_round(values[i]);
        copied = copied && safetensors_writer_append(writer, halves, count * sizeof *halves, error);
    }
    return copied;
}

static bool save_file(const char *folder, const char *file_name, const struct model_config *config,
                      const struct trace *trace, const struct weights_store *store,
                      const struct weights_form *form, const struct weights_file *file,
                      struct weights_writer of, GError **error)
{
    g_autofree char *path = g_build_filename(folder, file_name, NULL);
    struct safetensors_writer *writer = safetensors_writer_new(path);
    bool saved = true;
    for (uint32_t i = file->first; i < file->end; i++) {
        if (weights_is_adapter(trace->tensors[i].name))
            continue;
        g_auto(pieces_auto) pieces = pieces_of(config, trace->tensors[i].name);
        for (uint32_t p = 0; p < pieces.count; p++) {
            const struct weights_piece *piece = &pieces.at[p];
            g_autofree char *name = weights_saved_name(config, piece->name);
            safetensors_writer_declare(writer, form->halves ? SAFETENSORS_BF16 : SAFETENSORS_F32,
                                       name, piece->shape, piece->rank);
        }
    }
    for (uint32_t i = file->first; saved && i < file->end; i++)
        if (!weights_is_adapter(trace->tensors[i].name))
            saved = (form->halves ? copy_halves : weights_copy_out)(
                writer, store, i, weights_list_of(trace, i), trace->tensors[i].elements, error);
    saved = saved && weights_file_finish(of, file_name, writer, error);
    safetensors_writer_free(writer);
    return saved;
}

static bool save_index(const char *folder, const struct model_config *config,
                       const struct trace *trace, const struct weights_form *form,
                       const GArray *files, GError **error)
{
    json_t *map = json_object();
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < files->len; f++) {
        const struct weights_file *file = &g_array_index(files, struct weights_file, f);
        g_autofree char *name = weights_file_name(WEIGHTS_STEM, f, files->len);
        for (uint32_t i = file->first; i < file->end; i++) {
            if (weights_is_adapter(trace->tensors[i].name))
                continue;
            g_auto(pieces_auto) pieces = pieces_of(config, trace->tensors[i].name);
            for (uint32_t p = 0; p < pieces.count; p++) {
                g_autofree char *tensor = weights_saved_name(config, pieces.at[p].name);
                json_object_set_new(map, tensor, json_string(name));
            }
            bytes += trace->tensors[i].elements * element_bytes(form);
        }
    }
    return weights_files_write_index(folder, WEIGHTS_STEM, map, bytes, error);
}

bool weights_save(const char *folder, const struct model_config *config, const struct trace *trace,
                  const struct weights_store *store, const struct weights_form *form,
                  struct weights_writer writer, GError **error)
{
    g_autoptr(GArray) files = weights_form_files(form, trace, writer.count);
    bool saved = true;
    for (uint32_t f = 0; saved && f < files->len; f++) {
        const struct weights_file *file = &g_array_index(files, struct weights_file, f);
        g_autofree char *name = weights_file_name(WEIGHTS_STEM, f, files->len);
        if (file->writer == writer.index)
            saved = save_file(folder, name, config, trace, store, form, file, writer, error);
    }
    return saved && (files->len == 1 || writer.index > 0 ||
                     save_index(folder, config, trace, form, files, error));
}

/* ---- new weights ---- */

static bool initialise_tensor(const struct model_config *config, const struct trace *trace,
                              tensor_id tensor, uint64_t seed, const struct weights_store *store,
                              GError **error)
{
    g_autofree float *values = g_new(float, PIECE);
    uint64_t elements = trace->tensors[tensor].elements;
    bool written = true;
    for (uint64_t first = 0; written && first < elements; first += PIECE) {
        uint64_t count = MIN(PIECE, elements - first);
        initialise_values(config, seed, tensor, trace->tensors[tensor].name, first, count, values);
        written = store->write(store->self, tensor, weights_list_of(trace, tensor), first, count,
                               values, error);
    }
    return written;
}

bool weights_initialise(const struct model_config *config, const struct trace *trace, uint64_t seed,
                        const struct weights_store *store, GError **error)
{
    bool written = true;
    for (uint32_t i = 0; written && i < trace->tensor_count; i++)
        written = initialise_tensor(config, trace, i, seed, store, error);
    return written;
}

bool weights_initialise_adapters(const struct model_config *config, const struct trace *trace,
                                 uint64_t seed, const struct weights_store *store, GError **error)
{
    bool written = true;
    for (uint32_t i = 0; written && i < trace->tensor_count; i++)
        written = !weights_is_adapter(trace->tensors[i].name) ||
                  initialise_tensor(config, trace, i, seed, store, error);
    return written;
}
