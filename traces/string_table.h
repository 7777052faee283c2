/* Texts that occur again and again, each once, as the trace file's StringIds. */
#ifndef PSTAR_TRACES_STRING_TABLE_H
#define PSTAR_TRACES_STRING_TABLE_H

#include "traces/records.h"

struct string_table;

struct string_table *string_table_new(void);
void string_table_free(struct string_table *table);

/* The id of a text, > 0: the same for the same text. What is no UTF-8 is made so. */
uint32_t string_table_id(struct string_table *table, const char *text);

const char *string_table_text(const struct string_table *table, uint32_t id);

/* All of them, in order of id; their texts stay the table's, the array is the caller's. */
struct record_string *string_table_strings(const struct string_table *table, uint32_t *count);

#endif
