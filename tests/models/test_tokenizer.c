/* Tokens are those of Hugging Face's tokenizers, as tokenizer/record.py recorded them. */
#include "models/tokenizer.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

#define RECORDED TEST_SOURCE_DIR "/tokenizer"

/* A folder with some of the recorded files, and changes. */
struct tokenizer_folder {
    char *path;
};

static void copy(const struct tokenizer_folder *folder, const char *name, const char *from,
                 const char *to)
{
    g_autofree char *source = g_build_filename(RECORDED, name, NULL), *text = NULL;
    g_autofree char *target = g_build_filename(folder->path, name, NULL);
    g_assert_true(g_file_get_contents(source, &text, NULL, NULL));
    GString *changed = g_string_new(text);
    if (from)
        g_assert_cmpuint(g_string_replace(changed, from, to, 1), ==, 1);
    g_assert_true(g_file_set_contents(target, changed->str, -1, NULL));
    g_string_free(changed, TRUE);
}

static void set_up(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)data;
    folder->path = g_dir_make_tmp("tokenizer-XXXXXX", NULL);
}

static void tear_down(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)data;
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(folder->path, names[i], NULL);
        g_unlink(path);
    }
    g_rmdir(folder->path);
    g_free(folder->path);
}

static void check_text(const struct tokenizer *tokenizer, const json_t *expected)
{
    const char *text = json_string_value(json_object_get(expected, "text"));
    const json_t *wanted = json_object_get(expected, "tokens");
    GError *error = NULL;
    GArray *tokens = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_assert_true(tokenizer_encode(tokenizer, text, strlen(text), tokens, &error));
    g_assert_cmpuint(tokens->len, ==, json_array_size(wanted));
    for (guint i = 0; i < tokens->len; i++)
        g_assert_cmpint(g_array_index(tokens, uint32_t, i), ==,
                        json_integer_value(json_array_get(wanted, i)));
    g_autofree char *again = tokenizer_decode(tokenizer, &g_array_index(tokens, uint32_t, 0),
                                              tokens->len, &error);
    const json_t *decoded = json_object_get(expected, "decoded"); /* NULL for the text */
    g_assert_cmpstr(again, ==, decoded ? json_string_value(decoded) : text);
    g_array_unref(tokens);
}

static void check_folder(const char *folder, const char *recorded, uint32_t vocabulary)
{
    g_autofree char *path = g_build_filename(recorded, "expected.json", NULL);
    GError *error = NULL;
    struct tokenizer *tokenizer = tokenizer_read(folder, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(tokenizer_vocabulary(tokenizer), ==, vocabulary);
    json_t *expected = json_load_file(path, 0, NULL);
    g_assert_cmpuint(json_array_size(expected), >, 60);
    for (size_t i = 0; i < json_array_size(expected); i++)
        check_text(tokenizer, json_array_get(expected, i));
    json_decref(expected);
    tokenizer_free(tokenizer);
}

static void test_recorded(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)data;
    check_folder(RECORDED, RECORDED, 320);
    copy(folder, "vocab.json", NULL, NULL);
    copy(folder, "merges.txt", NULL, NULL);
    check_folder(folder->path, RECORDED, 320);
}

/* Tokenizers of characters, of which LLaMA, later files and Gemma put spaces before texts in other
 * ways. */
static void test_characters(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)folder;
    (void)data;
    static const char *const forms[] = {"prepend", "first", "replace"};
    for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
        g_autofree char *path = g_build_filename(RECORDED, forms[i], NULL);
        check_folder(path, path, 440);
    }
}

static void expect_refused(const char *folder, const char *reason)
{
    GError *error = NULL;
    g_assert_null(tokenizer_read(folder, &error));
    g_assert_nonnull(error);
    if (!strstr(error->message, reason))
        g_error("\"%s\" does not say \"%s\"", error->message, reason);
    g_error_free(error);
}

/* Copies the file of a form with a change, and expects that it is refused. */
static void expect_form_refused(const struct tokenizer_folder *folder, const char *form,
                                const char *from, const char *to, const char *reason)
{
    g_autofree char *source = g_build_filename(RECORDED, form, "tokenizer.json", NULL);
    g_autofree char *target = g_build_filename(folder->path, "tokenizer.json", NULL), *text = NULL;
    g_assert_true(g_file_get_contents(source, &text, NULL, NULL));
    GString *changed = g_string_new(text);
    g_assert_cmpuint(g_string_replace(changed, from, to, 1), ==, 1);
    g_assert_true(g_file_set_contents(target, changed->str, -1, NULL));
    g_string_free(changed, TRUE);
    expect_refused(folder->path, reason);
}

static void test_characters_refused(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)data;
    static const char spaces[] = "must replace spaces as LLaMA's do";
    expect_form_refused(folder, "prepend", "\"Prepend\"", "\"Strip\"", spaces);
    expect_form_refused(folder, "first", "\"first\"", "\"last\"", spaces);
    expect_form_refused(folder, "first", "\"split\":false", "\"split\":true", spaces);
    expect_form_refused(folder, "replace", "\"type\":\"Replace\"", "\"type\":\"NFC\"", spaces);
    expect_form_refused(folder, "replace", "\"type\":\"Split\"", "\"type\":\"Digits\"", spaces);
    expect_form_refused(folder, "replace", "\"<0x41>\"", "\"<0x4I>\"", "byte 65 has no token");
}

/* A long text is cut into pieces, between words. */
static void test_long(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)folder;
    (void)data;
    enum { TIMES = 300000 };
    static const char text[] = "and  the 12 <|endoftext|>words\n\n";
    GError *error = NULL;
    struct tokenizer *tokenizer = tokenizer_read(RECORDED, &error);
    GArray *one = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    GArray *many = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    GString *repeated = g_string_new(NULL);
    for (int i = 0; i < TIMES; i++)
        g_string_append(repeated, text);
    g_assert_true(tokenizer_encode(tokenizer, text, strlen(text), one, &error));
    g_assert_true(tokenizer_encode(tokenizer, repeated->str, repeated->len, many, &error));
    g_autofree char *again = tokenizer_decode(tokenizer, &g_array_index(many, uint32_t, 0),
                                              many->len, &error);
    g_assert_cmpstr(again, ==, repeated->str);
    g_assert_cmpmem(many->data, (one->len - 3) * sizeof(uint32_t), one->data,
                    (one->len - 3) * sizeof(uint32_t));
    g_string_free(repeated, TRUE);
    g_array_unref(one);
    g_array_unref(many);
    tokenizer_free(tokenizer);
}

/* A word of a million letters takes as long as a text of as many, not hours. */
static void test_long_word(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)data;
    enum { LETTERS = 1000000 };
    copy(folder, "tokenizer.json", NULL, NULL);
    GError *error = NULL;
    struct tokenizer *tokenizer = tokenizer_read(folder->path, &error);
    g_assert_no_error(error);
    g_autofree char *word = g_malloc(LETTERS + 1);
    for (int i = 0; i < LETTERS; i++)
        word[i] = "the"[g_test_rand_int_range(0, 3)];
    word[LETTERS] = '\0';
    GArray *tokens = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_assert_true(tokenizer_encode(tokenizer, word, LETTERS, tokens, &error));
    g_assert_cmpuint(tokens->len, <, LETTERS);
    g_autofree char *again = tokenizer_decode(tokenizer, &g_array_index(tokens, uint32_t, 0),
                                              tokens->len, &error);
    g_assert_cmpstr(again, ==, word);
    g_array_unref(tokens);
    tokenizer_free(tokenizer);
}

static void test_refused(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)data;
    static const struct {
        const char *from, *to, *reason;
    } changes[] = {
        {"\"type\": \"ByteLevel\"", "\"type\": \"Split\"", "pre_tokenizer must be GPT-2's"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true", "pre_tokenizer must be"},
        {"\"normalizer\": null", "\"normalizer\": {}", "normalizer is not implemented"},
        {"\"ignore_merges\": false", "\"ignore_merges\": true", "model.ignore_merges"},
        {"\"type\": \"BPE\"", "\"type\": \"WordPiece\"", "model.type must be \"BPE\""},
        {"\"!\": 1", "\"!!\": 1", "byte 33 has no token"},
        {"\"!\": 1", "\"!\": 2", "two tokens have the number 2"},
        {"\"!\": 1", "\"!\": -1", "has no number below"},
        {"{", "", "line 2"},
    };
    expect_refused(folder->path, "has neither tokenizer.json nor vocab.json");
    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
        copy(folder, "tokenizer.json", changes[i].from, changes[i].to);
        expect_refused(folder->path, changes[i].reason);
    }
}

static void test_bad_text(struct tokenizer_folder *folder, gconstpointer data)
{
    (void)folder;
    (void)data;
    const uint32_t unknown = 320;
    g_autoptr(GError) text = NULL, token = NULL;
    struct tokenizer *tokenizer = tokenizer_read(RECORDED, NULL);
    GArray *tokens = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_assert_false(tokenizer_encode(tokenizer,
                                    "ab\xff"
                                    "c",
                                    4, tokens, &text));
    g_assert_cmpstr(text->message, ==, "byte 2 is not UTF-8");
    g_assert_null(tokenizer_decode(tokenizer, &unknown, 1, &token));
    g_assert_cmpstr(token->message, ==, "token 320 is unknown");
    g_array_unref(tokens);
    tokenizer_free(tokenizer);
}

#define ADD(path, function) \
    g_test_add("/tokenizer/" path, struct tokenizer_folder, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("recorded", test_recorded);
    ADD("long", test_long);
    ADD("long-word", test_long_word);
    ADD("refused", test_refused);
    ADD("characters", test_characters);
    ADD("characters-refused", test_characters_refused);
    ADD("bad-text", test_bad_text);
    return g_test_run();
}
