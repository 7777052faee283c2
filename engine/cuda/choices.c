#include "engine/cuda/choices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GPU, VERSION, PRODUCT, WORKSPACE, ALGORITHM, COLUMNS = ALGORITHM + CHOICE_WORDS };

struct choices {
    char *path, *gpu, *version;
    GHashTable *chosen; /* struct choice by product */
};

static bool parse(char **columns, struct choice *choice)
{
    bool ok = g_strv_length(columns) == COLUMNS &&
              g_ascii_string_to_unsigned(columns[WORKSPACE], 10, 0, UINT64_MAX,
                                         &choice->workspace_bytes, NULL);
    for (int i = 0; ok && i < CHOICE_WORDS; i++)
        ok = g_ascii_string_to_unsigned(columns[ALGORITHM + i], 16, 0, UINT64_MAX,
                                        &choice->algorithm[i], NULL);
    return ok;
}

static void keep(struct choices *choices, const char *product, const struct choice *choice)
{
    g_hash_table_insert(choices->chosen, g_strdup(product), g_memdup2(choice, sizeof *choice));
}

/* Lines of other GPUs and versions are checked, too, because a damaged file is none of ours. */
static bool read_line(struct choices *choices, const char *line, guint number, GError **error)
{
    g_auto(GStrv) columns = g_strsplit(line, "\t", -1);
    struct choice choice;
    if (!parse(columns, &choice)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                    "%s: line %u is not a choice of a product's algorithm", choices->path, number);
        return false;
    }
    if (g_str_equal(columns[GPU], choices->gpu) && g_str_equal(columns[VERSION], choices->version))
        keep(choices, columns[PRODUCT], &choice);
    return true;
}

struct choices *choices_open(const char *path, const char *gpu, uint64_t version, GError **error)
{
    struct choices *choices = g_new0(struct choices, 1);
    g_autofree char *text = NULL;
    GError *failed = NULL;
    choices->path = g_strdup(path);
    choices->gpu = g_strdelimit(g_strdup(gpu), "\t\n", ' ');
    choices->version = g_strdup_printf("%" G_GUINT64_FORMAT, version);
    choices->chosen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    bool ok = g_file_get_contents(path, &text, NULL, &failed) ||
              g_error_matches(failed, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    if (ok) {
        g_clear_error(&failed);
        g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);
        for (guint i = 0; ok && lines[i] && *lines[i]; i++)
            ok = read_line(choices, lines[i], i + 1, error);
    } else {
        g_propagate_error(error, failed);
    }
    if (!ok)
        g_clear_pointer(&choices, choices_free);
    return choices;
}

void choices_free(struct choices *choices)
{
    if (!choices)
        return;
    g_hash_table_unref(choices->chosen);
    g_free(choices->path);
    g_free(choices->gpu);
    g_free(choices->version);
    g_free(choices);
}

const struct choice *choices_find(const struct choices *choices, const char *product)
{
    return g_hash_table_lookup(choices->chosen, product);
}

bool choices_add(struct choices *choices, const char *product, const struct choice *choice)
{
    keep(choices, product, choice);
    FILE *file = fopen(choices->path, "ae");
    if (!file)
        return false;
    fprintf(file, "%s\t%s\t%s\t%" G_GUINT64_FORMAT, choices->gpu, choices->version, product,
            choice->workspace_bytes);
    for (int i = 0; i < CHOICE_WORDS; i++)
        fprintf(file, "\t%" PRIx64, choice->algorithm[i]);
    bool ok = fputc('\n', file) != EOF;
    return fclose(file) == 0 && ok;
}
