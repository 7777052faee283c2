#include "models/tokenizer.h"

#include "base/files.h"
#include "models/config.h"

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

/* When a text begins with a space that it does not have: never, at its start, and at the start of
 * each part between special tokens, if no space is there or always. */
enum prefix { PREFIX_NONE, PREFIX_FIRST, PREFIX_MISSING, PREFIX_EACH };

struct tokenizer {
    bool falls_back; /* characters are tokens, and bytes only those of characters that are not */
    enum prefix prefix;
    bool strips;        /* decoding drops the space before the text */
    GHashTable *names;  /* of tokens, in the letters of the file, to their numbers */
    GPtrArray *texts;   /* [token] the name, or NULL */
    GHashTable *merges; /* two tokens (key_of) to rank and merged token (packed) */
    GArray *specials;   /* struct special_token */
    uint32_t of_byte[BYTES];
    GRegex *words;
};

#define SPACE      "\u2581" /* for spaces in names of tokens that fall back */
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

/* Sets the name of the token for a byte: its letter, or <0x41>. */
static void name_of_byte(const struct tokenizer *t, unsigned byte, char name[8])
{
    memset(name, 0, 8);
    if (t->falls_back)
        g_snprintf(name, 8, "<0x%02X>", byte);
    else
        g_unichar_to_utf8(letter_of(byte), name);
}

static bool read_names(struct tokenizer *t, const char *path, json_t *vocabulary, GError **error)
{
    const char *name;
    json_t *number;
    json_object_foreach (vocabulary, name, number)
        if (!add_name(t, path, name, number, error))
            return false;
    for (unsigned byte = 0; byte < BYTES; byte++) {
        char letter[8];
        name_of_byte(t, byte, letter);
        if (!find(t, letter, &t->of_byte[byte]))
            return refuse(path, error, "byte %u has no token" OTHER_KIND, byte);
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
    if (t->falls_back && g_str_has_prefix(right, SPACE) && !g_str_has_suffix(left, SPACE))
        return refuse(path, error, "the merge \"%s %s\" is of two words" OTHER_KIND, left, right);
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
    json_t *root = input_text_check(path, INPUT_SMALL, error) ? input_json_load(path, 0, &problem)
                                                              : NULL;
    g_autofree char *why = root || !error || *error ? NULL : input_json_problem(&problem);
    if (why)
        refuse(path, error, "%s", why);
    return root;
}

static bool is_empty(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* ---- BPE of characters, which falls back to bytes: LLaMA 2, Mistral, Gemma, Phi 3 ---- */

static bool is_type(const json_t *object, const char *type)
{
    return !g_strcmp0(json_string_value(json_object_get(object, "type")), type);
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
    return !g_strcmp0(json_string_value(json_object_get(object, key)), text);
}

static bool replaces_spaces(const json_t *step)
{
    return is_type(step, "Replace") && is_text(step, "content", SPACE) &&
           is_text(json_object_get(step, "pattern"), "String", " ");
}

/* Returns whether the normalizer only replaces spaces, and sets whether it puts one before. */
static bool read_normalizer(struct tokenizer *t, const json_t *normalizer)
{
    const json_t *steps = json_object_get(normalizer, "normalizers");
    const json_t *first = json_array_get(steps, 0);
    if (!is_type(normalizer, "Sequence"))
        return replaces_spaces(normalizer);
    t->prefix = PREFIX_EACH;
    return json_array_size(steps) == 2 && is_type(first, "Prepend") &&
           is_text(first, "prepend", SPACE) && replaces_spaces(json_array_get(steps, 1));
}

/* The same of a pre-tokenizer that replaces spaces and cuts nothing. */
static bool read_metaspace(struct tokenizer *t, const json_t *before)
{
    static const char *const schemes[] = {
        [PREFIX_NONE] = "never", [PREFIX_FIRST] = "first", [PREFIX_MISSING] = "always"};
    for (size_t i = 0; i < G_N_ELEMENTS(schemes); i++)
        if (is_text(before, "prepend_scheme", schemes[i])) {
            t->prefix = (enum prefix)i;
            return is_type(before, "Metaspace") && is_text(before, "replacement", SPACE) &&
                   json_is_false(json_object_get(before, "split"));
        }
    return false;
}

/* Once spaces are replaced, cutting at spaces cuts nothing. */
static bool cuts_nothing(const json_t *before)
{
    return is_empty(before) ||
           (is_type(before, "Split") && is_text(json_object_get(before, "pattern"), "String", " "));
}

static bool read_fallback(struct tokenizer *t, const char *path, const json_t *root, GError **error)
{
    const json_t *before = json_object_get(root, "pre_tokenizer");
    const json_t *normalizer = json_object_get(root, "normalizer");
    bool known = is_empty(normalizer) ? read_metaspace(t, before)
                                      : read_normalizer(t, normalizer) && cuts_nothing(before);
    t->falls_back = true;
    t->strips = t->prefix != PREFIX_NONE;
    return known || refuse(path, error,
                           "normalizer and pre_tokenizer must replace spaces as LLaMA's "
                           "do" OTHER_KIND);
}

/* Refuses what would change the tokens in a way that is not implemented. */
static bool check_kind(struct tokenizer *t, const char *path, json_t *root, GError **error)
{
    const json_t *model = json_object_get(root, "model"), *type = json_object_get(model, "type");
    const json_t *before = json_object_get(root, "pre_tokenizer");
    const char *kind = json_string_value(json_object_get(before, "type"));
    const char *const keys[] = {"ignore_merges", "dropout", "continuing_subword_prefix",
                                "end_of_word_suffix"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        if (!is_empty(json_object_get(model, keys[i])))
            return refuse(path, error, "model.%s is not implemented" OTHER_KIND, keys[i]);
    if (type && g_strcmp0(json_string_value(type), "BPE") != 0)
        return refuse(path, error, "model.type must be \"BPE\"" OTHER_KIND);
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return read_fallback(t, path, root, error);
    if (!is_empty(json_object_get(root, "normalizer")))
        return refuse(path, error, "normalizer is not implemented" OTHER_KIND);
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
    bool ok = root && check_kind(t, path, root, error) &&
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
    g_autofree char *folder = model_config_folder(path);
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

/* Appends the tokens of bytes. */
static void append_bytes(const struct tokenizer *t, const char *text, gsize bytes, GArray *tokens)
{
    for (gsize i = 0; i < bytes; i++)
        g_array_append_val(tokens, t->of_byte[(unsigned char)text[i]]);
}

/* Merges the tokens from `first`, which are those of a word. */
static void merge_word(const struct tokenizer *t, guint first, GArray *tokens)
{
    int count = (int)(tokens->len - first), place;
    uint64_t merge;
    uint32_t *at = &g_array_index(tokens, uint32_t, first);
    while ((place = find_merge(t, at, count, &merge)) >= 0)
        count = merge_from(t, at, count, place, merge);
    g_array_set_size(tokens, first + (guint)count);
}

/* Appends the token of each character, or those of its bytes. A word begins with its spaces. */
static void encode_characters(const struct tokenizer *t, const char *text, gsize bytes,
                              bool prefixed, GArray *tokens)
{
    const char *end = text + bytes;
    guint first = tokens->len;
    bool in_space = true;
    uint32_t space = 0, token;
    bool has_space = find(t, SPACE, &space);
    if (prefixed && has_space)
        g_array_append_val(tokens, space);
    for (const char *next; text < end; text = next) {
        next = g_utf8_next_char(text);
        g_autofree char *name = *text == ' ' ? g_strdup(SPACE)
                                             : g_strndup(text, (gsize)(next - text));
        bool is_space = !strcmp(name, SPACE);
        if (is_space && !in_space) {
            merge_word(t, first, tokens);
            first = tokens->len;
        }
        in_space = is_space;
        if (find(t, name, &token))
            g_array_append_val(tokens, token);
        else
            append_bytes(t, name, strlen(name), tokens);
    }
    merge_word(t, first, tokens);
}

/* Returns whether a space goes before a part of a text, which may follow a special token. */
static bool is_prefixed(const struct tokenizer *t, const char *part, bool first)
{
    bool has_space = *part == ' ' || g_str_has_prefix(part, SPACE);
    switch (t->prefix) {
    case PREFIX_NONE:
        return false;
    case PREFIX_FIRST:
        return first && !has_space;
    case PREFIX_MISSING:
        return !has_space;
    case PREFIX_EACH:
        return true;
    }
    g_assert_not_reached();
}

static void encode_plain(const struct tokenizer *t, const char *text, gsize bytes, GArray *tokens)
{
    g_autoptr(GMatchInfo) match = NULL;
    g_regex_match_full(t->words, text, (gssize)bytes, 0, 0, &match, NULL);
    while (g_match_info_matches(match)) {
        int start, end;
        g_match_info_fetch_pos(match, 0, &start, &end);
        guint first = tokens->len;
        append_bytes(t, text + start, (gsize)(end - start), tokens);
        merge_word(t, first, tokens);
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
    const char *begin = text, *end = text + bytes, *wrong;
    bool opens = true; /* a part of the text begins here */
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
                if ((t->falls_back ? text[piece] == ' ' : g_ascii_isspace(text[piece])) &&
                    g_ascii_isalpha(text[piece - 1]))
                    break;
        const struct special_token *special = find_special(t, text, piece, &place);
        if (!t->falls_back)
            encode_plain(t, text, place, tokens);
        else if (place > 0)
            encode_characters(t, text, place, opens && is_prefixed(t, text, text == begin), tokens);
        text += place;
        opens = special != NULL;
        if (special) {
            g_array_append_val(tokens, special->token);
            text += strlen(special->text);
        }
    }
    return true;
}

/* ---- decoding ---- */

static void append_fallback(GString *text, const char *name)
{
    bool is_byte = strlen(name) == 6 && g_str_has_prefix(name, "<0x");
    if (is_byte)
        g_string_append_c(text, (char)g_ascii_strtoull(name + 1, NULL, 16));
    g_autoptr(GString) spaced = g_string_new(is_byte ? "" : name);
    g_string_replace(spaced, SPACE, " ", 0);
    g_string_append(text, spaced->str);
}

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
            (t->falls_back ? append_fallback : append_name)(text, name);
    }
    if (t->strips && text->str[0] == ' ')
        g_string_erase(text, 0, 1);
    return g_strdup(text->str);
}
