#include "saved.h"

#include "models/safetensors.h"

#include <string.h>

static struct safetensors *open_files(const struct run_folder *folder, const char *name,
                                      const char *stem)
{
    GError *error = NULL;
    g_autofree char *path = run_folder_path(folder, name);
    g_autofree char *one = g_strdup_printf("%s/%s.safetensors", path, stem);
    g_autofree char *index = g_strconcat(one, ".index.json", NULL);
    bool several = g_file_test(index, G_FILE_TEST_EXISTS);
    g_assert_true(g_file_test(one, G_FILE_TEST_EXISTS) != several);
    struct safetensors *file = several ? safetensors_open_index(index, &error)
                                       : safetensors_open(one, &error);
    g_assert_no_error(error);
    return file;
}

static void compare(const struct safetensors *a, const struct safetensors *b)
{
    g_assert_cmpuint(safetensors_count(a), ==, safetensors_count(b));
    g_assert_cmpuint(safetensors_count(a), >, 0);
    for (uint32_t i = 0; i < safetensors_count(a); i++) {
        const struct safetensors_tensor *one = safetensors_at(a, i);
        const struct safetensors_tensor *other = safetensors_find(b, one->name);
        g_assert_nonnull(other);
        g_assert_cmpuint(one->dtype, ==, other->dtype);
        g_assert_cmpuint(one->rank, ==, other->rank);
        g_assert_cmpmem(one->shape, one->rank * sizeof *one->shape, other->shape,
                        other->rank * sizeof *other->shape);
        g_autofree float *values = g_new(float, one->elements);
        g_autofree float *others = g_new(float, one->elements);
        g_assert_true(safetensors_read(a, one, 0, one->elements, values, NULL));
        g_assert_true(safetensors_read(b, other, 0, one->elements, others, NULL));
        if (memcmp(values, others, one->elements * sizeof *values) != 0)
            g_error("%s is not the same in %s and %s", one->name, safetensors_path(a),
                    safetensors_path(b));
    }
}

void saved_files_must_be_same(const struct run_folder *folder, const char *a, const char *b,
                              const char *stem)
{
    struct safetensors *one = open_files(folder, a, stem);
    struct safetensors *other = open_files(folder, b, stem);
    compare(one, other);
    safetensors_close(one);
    safetensors_close(other);
}

void saved_must_be_same(const struct run_folder *folder, const char *a, const char *b)
{
    g_autofree char *adapters = g_strconcat(a, "/adapter_model.safetensors", NULL);
    bool tuned = run_folder_has(folder, adapters);
    saved_files_must_be_same(folder, a, b, tuned ? "adapter_model" : "model");
    saved_files_must_be_same(folder, a, b, "optimizer");
}

uint32_t saved_count_files(const struct run_folder *folder, const char *name, const char *stem)
{
    g_autofree char *path = run_folder_path(folder, name);
    GDir *directory = g_dir_open(path, 0, NULL);
    uint32_t count = 0;
    g_assert_nonnull(directory);
    for (const char *file; (file = g_dir_read_name(directory));)
        count += g_str_has_prefix(file, stem) && g_str_has_suffix(file, ".safetensors");
    g_dir_close(directory);
    return count;
}
