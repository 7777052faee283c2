#include "traces/string_table.h"

struct string_table {
    GHashTable *ids;  /* by text as it was given, whose ids as pointers */
    GPtrArray *texts; /* by id - 1 */
};

struct string_table *string_table_new(void)
{
    struct string_table *table = g_new0(struct string_table, 1);
    table->ids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    table->texts = g_ptr_array_new_with_free_func(g_free);
    return table;
}

void string_table_free(struct string_table *table)
{
    g_hash_table_unref(table->ids);
    g_ptr_array_unref(table->texts);
    g_free(table);
}

uint32_t string_table_id(struct string_table *table, const char *text)
{
    uint32_t id = GPOINTER_TO_UINT(g_hash_table_lookup(table->ids, text));
    if (id == 0) {
        g_ptr_array_add(table->texts, g_utf8_make_valid(text, -1));
        id = table->texts->len;
        g_hash_table_insert(table->ids, g_strdup(text), GUINT_TO_POINTER(id));
    }
    return id;
}

const char *string_table_text(const struct string_table *table, uint32_t id)
{
    return (const char *)g_ptr_array_index(table->texts, id - 1);
}

struct record_string *string_table_strings(const struct string_table *table, uint32_t *count)
{
    struct record_string *strings = g_new(struct record_string, table->texts->len);
    *count = table->texts->len;
    for (uint32_t i = 0; i < *count; i++)
        strings[i] = (struct record_string){i + 1, (char *)g_ptr_array_index(table->texts, i)};
    return strings;
}
