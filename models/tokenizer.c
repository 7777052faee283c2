#include "models/tokenizer.h"

#include "traces/files.h"

#include <jansson.h>
#include <string.h>

G_DEFINE_QUARK(pstar_tokenizer_error, tokenizer_error)

#define PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { BYTES = 256, MOST_TOKENS = 1 << 24 };

/* A token whose text is taken as it is. */
struct special_token {
    char *text;
    uint32_t token;
};

struct tokenizer {
    GHashTable *names;  /* of tokens, in the letters of the file, to their numbers */
    GPtrArray *texts;   /* [token] the name, or NULL */
    GHashTable *merges; /* two tokens (key_of) to rank and merged token (packed) */
    GArray *specials;   /* struct special_token */
    uint32_t of_byte[BYTES];
    GRegex *words;
};

#define OTHER_KIND "; pstar-tokenize, a Python script, reads tokenizers of every kind"

static bool refuse(const char *path, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
static bool refuse(const char *path, GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, TOKENIZER_ERROR, TOKENIZER_ERROR_INVALID, "%s: %s", path, reason);
    return false;
}

/* ---- letters ---- */

static bool is_own_letter(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Returns the letter for which a byte stands in the files: itself if it can be printed. The others
 * have the letters from 256. */
static gunichar letter_of(unsigned byte)
{
    unsigned before = 0;
    if (is_own_letter(byte))
        return byte;
    for (unsigned b = 0; b < byte; b++)
        before += !is_own_letter(b);
    return BYTES + before;
}

static int byte_of(gunichar letter)
{
    for (unsigned byte = 0; byte < BYTES; byte++)
        if (letter_of(byte) == letter)
            return (int)byte;
    return -1;
}

/* ---- reading ---- */

static uint64_t key_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static bool find(const struct tokenizer *t, const char *name, uint32_t *token)
{
    gpointer value;
    bool found = g_hash_table_lookup_extended(t->names, name, NULL, &value);
    *token = found ? GPOINTER_TO_UINT(value) : 0;
    return found;
}

static bool add_name(struct tokenizer *t, const char *path, const char *name, const json_t *number,
                     GError **error)
{
    json_int_t token = json_integer_value(number);
    if (!json_is_integer(number) || token < 0 || token >= MOST_TOKENS)
        return refuse(path, error, "token \"%s\" has no number below %d", name, MOST_TOKENS);
    char *text = g_strdup(name);
    if (token >= t->texts->len)
        g_ptr_array_set_size(t->texts, (gint)token + 1);
    if (t->texts->pdata[token]) {
        g_free(text);
        return refuse(path, error, "two tokens have the number %lld", (long long)token);
    }
    t->texts->pdata[token] = text;
    g_hash_table_insert(t->names, text, GUINT_TO_POINTER((guint)token));
    return true;
}

static bool read_names(struct tokenizer *t, const char *path, json_t *vocabulary, GError **error)
{
    const char *name;
    json_t *number;
    json_object_foreach (vocabulary, name, number)
        if (!add_name(t, path, name, number, error))
            return false;
    for (unsigned byte = 0; byte < BYTES; byte++) {
        char letter[7] = "";
        g_unichar_to_utf8(letter_of(byte), letter);
        if (!find(t, letter, &t->of_byte[byte]))
            return refuse(path, error,
                          "byte %u has no token; only GPT-2's byte-level BPE is read" OTHER_KIND,
                          byte);
    }
    return true;
}

static bool add_merge(struct tokenizer *t, const char *path, const char *left, const char *right,
                      GError **error)
{
    g_autofree char *both = g_strconcat(left, right, NULL);
    uint32_t a, b, merged;
    if (!find(t, left, &a) || !find(t, right, &b) || !find(t, both, &merged))
        return refuse(path, error, "the merge \"%s %s\" is of unknown tokens", left, right);
    uint64_t rank = g_hash_table_size(t->merges);
    gpointer key = GSIZE_TO_POINTER(key_of(a, b));
    if (!g_hash_table_contains(t->merges, key))
        g_hash_table_insert(t->merges, key, GSIZE_TO_POINTER(rank << 32 | merged));
    return true;
}

static bool add_merge_line(struct tokenizer *t, const char *path, const char *line, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(line, " ", -1);
    if (g_strv_length(parts) != 2)
        return refuse(path, error, "\"%s\" is not a merge of two tokens", line);
    return add_merge(t, path, parts[0], parts[1], error);
}

static void add_special(struct tokenizer *t, const char *text, uint32_t token)
{
    struct special_token special = {g_strdup(text), token};
    g_array_append_val(t->specials, special);
}

static json_t *load(const char *path, GError **error)
{
    json_error_t problem;
    json_t *root = input_text_check(path, INPUT_SMALL, error) ? json_load_file(path, 0, &problem)
                                                              : NULL;
    if (!root && error && !*error)
        refuse(path, error, "line %d: %s", problem.line, problem.text);
    return root;
}

static bool is_empty(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* Refuses what would change the tokens in a way that is not implemented. */
static bool check_kind(const char *path, json_t *root, GError **error)
{
    const json_t *model = json_object_get(root, "model"), *type = json_object_get(model, "type");
    const json_t *before = json_object_get(root, "pre_tokenizer");
    const char *kind = json_string_value(json_object_get(before, "type"));
    const char *const keys[] = {"ignore_merges", "byte_fallback", "dropout",
                                "continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        if (!is_empty(json_object_get(model, keys[i])))
            return refuse(path, error, "model.%s is not implemented" OTHER_KIND, keys[i]);
    if (!is_empty(json_object_get(root, "normalizer")))
        return refuse(path, error, "normalizer is not implemented" OTHER_KIND);
    if (type && g_strcmp0(json_string_value(type), "BPE") != 0)
        return refuse(path, error, "model.type must be \"BPE\"" OTHER_KIND);
    if (g_strcmp0(kind, "ByteLevel") != 0 ||
        json_is_true(json_object_get(before, "add_prefix_space")) ||
        json_is_false(json_object_get(before, "use_regex")))
        return refuse(path, error,
                      "pre_tokenizer must be GPT-2's, ByteLevel without a prefix" OTHER_KIND);
    return true;
}

static bool read_merges(struct tokenizer *t, const char *path, const json_t *merges, GError **error)
{
    size_t i;
    json_t *merge;
    bool ok = true;
    json_array_foreach (merges, i, merge) {
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        ok = json_is_string(merge) ? add_merge_line(t, path, json_string_value(merge), error)
             : left && right       ? add_merge(t, path, left, right, error)
                                   : refuse(path, error, "model.merges must have pairs of tokens");
        if (!ok)
            break;
    }
    return ok;
}

static bool read_specials(struct tokenizer *t, const char *path, const json_t *added,
                          GError **error)
{
    size_t i;
    uint32_t token;
    json_t *entry;
    json_array_foreach (added, i, entry) {
        const char *text = json_string_value(json_object_get(entry, "content"));
        if (!text || !*text)
            return refuse(path, error, "added_tokens must have a content each");
        if (!find(t, text, &token) && !add_name(t, path, text, json_object_get(entry, "id"), error))
            return false;
        find(t, text, &token);
        add_special(t, text, token);
    }
    return true;
}

static bool read_whole(struct tokenizer *t, const char *path, GError **error)
{
    json_t *root = load(path, error), *model = json_object_get(root, "model");
    bool ok = root && check_kind(path, root, error) &&
              read_names(t, path, json_object_get(model, "vocab"), error) &&
              read_merges(t, path, json_object_get(model, "merges"), error) &&
              read_specials(t, path, json_object_get(root, "added_tokens"), error);
    json_decref(root);
    return ok;
}

static bool read_merge_file(struct tokenizer *t, const char *path, GError **error)
{
    g_autofree char *text = NULL;
    bool ok = input_text_check(path, INPUT_SMALL, error) &&
              g_file_get_contents(path, &text, NULL, error);
    g_auto(GStrv) lines = ok ? g_strsplit(text, "\n", -1) : NULL;
    for (char **line = lines; ok && *line; line++) {
        g_strchomp(*line);
        if (**line && !g_str_has_prefix(*line, "#version"))
            ok = add_merge_line(t, path, *line, error);
    }
    return ok;
}

static bool read_parts(struct tokenizer *t, const char *vocabulary, const char *merges,
                       GError **error)
{
    static const char end[] = "<|endoftext|>";
    json_t *names = load(vocabulary, error);
    uint32_t token;
    bool ok = names && read_names(t, vocabulary, names, error) && read_merge_file(t, merges, error);
    json_decref(names);
    if (ok && find(t, end, &token))
        add_special(t, end, token);
    return ok;
}

static void clear_special(gpointer special)
{
    g_free(((struct special_token *)special)->text);
}

struct tokenizer *tokenizer_read(const char *path, GError **error)
{
    g_autofree char *folder = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? g_path_get_dirname(path)
                                                                        : g_strdup(path);
    g_autofree char *whole = g_build_filename(folder, "tokenizer.json", NULL);
    g_autofree char *vocabulary = g_build_filename(folder, "vocab.json", NULL);
    g_autofree char *merges = g_build_filename(folder, "merges.txt", NULL);
    bool is_whole = g_file_test(whole, G_FILE_TEST_EXISTS);
    if (!is_whole && !g_file_test(vocabulary, G_FILE_TEST_EXISTS)) {
        g_set_error(error, TOKENIZER_ERROR, TOKENIZER_ERROR_MISSING,
                    "%s: has neither tokenizer.json nor vocab.json and merges.txt", folder);
        return NULL;
    }
    struct tokenizer *t = g_new0(struct tokenizer, 1);
    t->texts = g_ptr_array_new_with_free_func(g_free);
    t->names = g_hash_table_new(g_str_hash, g_str_equal);
    t->merges = g_hash_table_new(g_direct_hash, g_direct_equal);
    t->specials = g_array_new(FALSE, FALSE, sizeof(struct special_token));
    g_array_set_clear_func(t->specials, clear_special);
    t->words = g_regex_new(PATTERN, G_REGEX_OPTIMIZE, 0, NULL);
    g_assert(t->words);
    if (is_whole ? read_whole(t, whole, error) : read_parts(t, vocabulary, merges, error))
        return t;
    tokenizer_free(t);
    return NULL;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    g_hash_table_unref(t->names);
    g_hash_table_unref(t->merges);
    g_ptr_array_unref(t->texts);
    g_array_unref(t->specials);
    g_regex_unref(t->words);
    g_free(t);
}

uint32_t tokenizer_vocabulary(const struct tokenizer *t)
{
    return t->texts->len;
}

/* ---- encoding ---- */

/* Returns the rank and the token of the merge of two neighbours (packed), or UINT64_MAX. */
static uint64_t merge_of(const struct tokenizer *t, uint32_t left, uint32_t right)
{
    gpointer value, key = GSIZE_TO_POINTER(key_of(left, right));
    return g_hash_table_lookup_extended(t->merges, key, NULL, &value) ? GPOINTER_TO_SIZE(value)
                                                                      : UINT64_MAX;
}

/* Returns the place of the neighbours whose merge comes first, and sets *best to it; or -1. */
static int find_merge(const struct tokenizer *t, const uint32_t *tokens, int count, uint64_t *best)
{
    int place = -1;
    *best = UINT64_MAX;
    for (int i = 0; i + 1 < count; i++) {
        uint64_t merge = merge_of(t, tokens[i], tokens[i + 1]);
        if (merge >= *best)
            continue;
        *best = merge;
        place = i;
    }
    return place;
}

/* Merges these neighbours, and the same ones after them until a merge makes neighbours whose own
 * merge comes before. One pass for all keeps words of megabytes from taking hours. Returns how many
 * tokens are left. */
static int merge_from(const struct tokenizer *t, uint32_t *tokens, int count, int place,
                      uint64_t merge)
{
    const uint32_t left = tokens[place], right = tokens[place + 1], merged = (uint32_t)merge;
    bool more = true;
    int to = place;
    for (int from = place; from < count; to++) {
        if (!more || from + 1 == count || tokens[from] != left || tokens[from + 1] != right) {
            tokens[to] = tokens[from++];
            continue;
        }
        tokens[to] = merged;
        from += 2;
        more = (to == 0 || merge_of(t, tokens[to - 1], merged) > merge) &&
               (from == count || merge_of(t, merged, tokens[from]) > merge);
    }
    return to;
}

static void encode_word(const struct tokenizer *t, const char *word, int bytes, GArray *tokens)
{
    guint first = tokens->len;
    int count = bytes, place;
    uint64_t merge;
    g_array_set_size(tokens, first + (guint)bytes);
    uint32_t *at = &g_array_index(tokens, uint32_t, first);
    for (int i = 0; i < bytes; i++)
        at[i] = t->of_byte[(unsigned char)word[i]];
    while ((place = find_merge(t, at, count, &merge)) >= 0)
        count = merge_from(t, at, count, place, merge);
    g_array_set_size(tokens, first + (guint)count);
}

static void encode_plain(const struct tokenizer *t, const char *text, gsize bytes, GArray *tokens)
{
    g_autoptr(GMatchInfo) match = NULL;
    g_regex_match_full(t->words, text, (gssize)bytes, 0, 0, &match, NULL);
    while (g_match_info_matches(match)) {
        int start, end;
        g_match_info_fetch_pos(match, 0, &start, &end);
        encode_word(t, text + start, end - start, tokens);
        g_match_info_next(match, NULL);
    }
}

/* Returns the first special token in the text, or NULL, and sets *place to its place or the end. */
static const struct special_token *find_special(const struct tokenizer *t, const char *text,
                                                gsize bytes, gsize *place)
{
    const struct special_token *found = NULL;
    *place = bytes;
    for (guint i = 0; i < t->specials->len; i++) {
        const struct special_token *special = &g_array_index(t->specials, struct special_token, i);
        const char *at = memmem(text, *place, special->text, strlen(special->text));
        if (!at)
            continue;
        *place = (gsize)(at - text);
        found = special;
    }
    return found;
}

bool tokenizer_encode(const struct tokenizer *t, const char *text, gsize bytes, GArray *tokens,
                      GError **error)
{
    enum { PIECE = 1 << 20 }; /* so that a place in a piece fits into an int */
    const char *end = text + bytes, *wrong;
    if (!g_utf8_validate_len(text, bytes, &wrong)) {
        g_set_error(error, TOKENIZER_ERROR, TOKENIZER_ERROR_TEXT, "byte %zu is not UTF-8",
                    (size_t)(wrong - text));
        return false;
    }
    while (text < end) {
        gsize piece = (gsize)(end - text), place;
        /* A word ends between a letter and a space, whatever follows. */
        if (piece > PIECE)
            for (piece = PIECE; piece < (gsize)(end - text); piece++)
                if (g_ascii_isspace(text[piece]) && g_ascii_isalpha(text[piece - 1]))
                    break;
        const struct special_token *special = find_special(t, text, piece, &place);
        encode_plain(t, text, place, tokens);
        text += place;
        if (special) {
            g_array_append_val(tokens, special->token);
            text += strlen(special->text);
        }
    }
    return true;
}

/* ---- decoding ---- */

static void append_name(GString *text, const char *name)
{
    for (const char *at = name; *at; at = g_utf8_next_char(at)) {
        int byte = byte_of(g_utf8_get_char(at));
        if (byte >= 0)
            g_string_append_c(text, (char)byte);
    }
}

static const struct special_token *special_of(const struct tokenizer *t, uint32_t token)
{
    for (guint i = 0; i < t->specials->len; i++)
        if (g_array_index(t->specials, struct special_token, i).token == token)
            return &g_array_index(t->specials, struct special_token, i);
    return NULL;
}

char *tokenizer_decode(const struct tokenizer *t, const uint32_t *tokens, gsize count,
                       GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (gsize i = 0; i < count; i++) {
        const char *name = tokens[i] < t->texts->len ? t->texts->pdata[tokens[i]] : NULL;
        const struct special_token *special = special_of(t, tokens[i]);
        if (!name) {
            g_set_error(error, TOKENIZER_ERROR, TOKENIZER_ERROR_TEXT, "token %u is unknown",
                        tokens[i]);
            return NULL;
        }
        if (special)
            g_string_append(text, special->text);
        else
            append_name(text, name);
    }
    return g_strdup(text->str);
}
