#include "cli/suggest.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_LETTERS = 32, MOST_EDITS = 2, PART_LETTERS = 4 };

/* Returns the number of edits between two words (optimal string alignment distance), or a larger
 * number than MOST_EDITS if one of them is long. */
static unsigned count_edits(const char *from, const char *to)
{
    unsigned edits[MOST_LETTERS + 1][MOST_LETTERS + 1];
    size_t rows = strlen(from), columns = strlen(to);
    if (rows > MOST_LETTERS || columns > MOST_LETTERS)
        return MOST_LETTERS;
    for (size_t r = 0; r <= rows; r++)
        edits[r][0] = (unsigned)r;
    for (size_t c = 0; c <= columns; c++)
        edits[0][c] = (unsigned)c;
    for (size_t r = 1; r <= rows; r++)
        for (size_t c = 1; c <= columns; c++) {
            bool swapped = r > 1 && c > 1 && from[r - 1] == to[c - 2] && from[r - 2] == to[c - 1];
            unsigned changed = edits[r - 1][c - 1] + (from[r - 1] != to[c - 1]);
            unsigned added = 1 + MIN(edits[r - 1][c], edits[r][c - 1]);
            edits[r][c] = MIN(changed, added);
            if (swapped)
                edits[r][c] = MIN(edits[r][c], edits[r - 2][c - 2] + 1);
        }
    return edits[rows][columns];
}

/* Returns how far a word is from a known one. Words with the same letters, or of which one is a
 * part of the other, are nearer than their edits say. */
static unsigned distance(const char *word, const char *known)
{
    g_autofree char *lower = g_ascii_strdown(word, -1);
    g_autofree char *other = g_ascii_strdown(known, -1);
    if (strcmp(lower, other) == 0)
        return 0;
    bool is_part = strlen(lower) >= PART_LETTERS && strstr(other, lower);
    return is_part || g_str_has_prefix(other, lower) ? 1 : count_edits(lower, other);
}

const char *suggest(const char *word, const GPtrArray *known)
{
    const char *best = NULL;
    unsigned least = MIN(MOST_EDITS, ((unsigned)strlen(word) - 1) / 2) + 1;
    for (guint i = 0; *word && i < known->len; i++) {
        const char *other = g_ptr_array_index(known, i);
        unsigned edits = distance(word, other);
        if (edits >= least)
            continue;
        least = edits;
        best = other;
    }
    return best;
}
