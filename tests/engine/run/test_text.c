/* Text and tokens as a user has them: a model of other tokens does not train on bytes unawares,
 * pstar-tokens makes what it trains on, and samples are text. */
#include "run_folder.h"

#include <glib/gstdio.h>
#include <string.h>

#define TOKENIZER PROJECT_DIR "/tests/models/tokenizer"
#define WIDE                                                                                      \
    "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 32, \"n_head\": 2, \"n_positions\": " \
    "32, \"vocab_size\": 320}"

/* A folder of a model whose tokens are not bytes, with its tokenizer. */
static void write_model(const struct run_folder *folder)
{
    static const char *const names[] = {"vocab.json", "merges.txt"};
    g_autofree char *path = run_folder_path(folder, "wide model");
    g_assert_cmpint(g_mkdir(path, 0777), ==, 0);
    run_folder_write(folder, "wide model/config.json", WIDE);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *from = g_build_filename(TOKENIZER, names[i], NULL), *text = NULL;
        g_autofree char *to = g_build_filename("wide model", names[i], NULL);
        g_assert_true(g_file_get_contents(from, &text, NULL, NULL));
        run_folder_write(folder, to, text);
    }
}

/* A prompt is a text where samples are: the tokenizer beside the model encodes it. Without one, the
 * refusal says which file is missing. */
static void test_prompt(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *vocabulary = run_folder_path(folder, "wide model/vocab.json");
    static const char options[] = " --data other.npy --seq 8 --steps 1 --sample 3 "
                                  "--prompt 'beer on' --json";
    static const char *const models[] = {"'wide model'", "'wide model/config.json'"};
    static const char array[] =
        "\x93NUMPY\1\0\x46\0{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }"
        "           \nabcdefghijklmnopqrst";
    g_autofree char *path = run_folder_path(folder, "other.npy");
    write_model(folder);
    g_assert_true(g_file_set_contents(path, array, sizeof array - 1, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(models); i++) {
        g_autofree char *line = g_strconcat("--model ", models[i], options, NULL), *out = NULL;
        g_assert_cmpint(run_folder_run(folder, line, &out, NULL), ==, 0);
        json_t *summary = json_loads(out, 0, NULL);
        const char *text = json_string_value(json_object_get(summary, "sample_text"));
        g_assert_true(g_str_has_prefix(text, "beer on"));
        json_decref(summary);
    }
    g_assert_cmpint(g_unlink(vocabulary), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(models); i++) {
        g_autofree char *line = g_strconcat("--model ", models[i], options, NULL), *errors = NULL;
        g_assert_cmpint(run_folder_run(folder, line, NULL, &errors), ==, 2);
        run_folder_expect(errors, "--prompt beer on: ");
        run_folder_expect(errors, "vocab.json");
        run_folder_expect(errors, "numbers in [0, 319] are taken as tokens");
    }
}

/* The refusal names a command, which works as it is printed, and its file trains. */
static void test_named_command(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL, *made = NULL, *first = NULL, *eval = NULL, *prompt = NULL;
    write_model(folder);
    g_assert_cmpint(run_folder_run(folder, "--model 'wide model' --steps 1", NULL, &errors), ==, 2);
    run_folder_expect(errors, "is text, but the model's vocabulary of 320 is not bytes");
    const char *command = strstr(errors, "pstar-tokens "), *end = strstr(errors, " makes a token");
    g_assert_true(command && end && command < end);
    g_autofree char *line = g_strndup(command, (gsize)(end - command));
    g_autofree char *named = g_strconcat(PROGRAM_DIR "/", line, NULL);
    g_auto(GStrv) arguments = NULL;
    g_assert_true(g_shell_parse_argv(named, NULL, &arguments, NULL));
    g_assert_cmpint(run_folder_spawn(folder, arguments, NULL, NULL, &made, NULL), ==, 0);
    run_folder_expect(made, "tokens.bin: ");

    g_assert_cmpint(run_folder_run(folder,
                                   "--model 'wide model' --data tokens.bin --steps 2 --sample 3 "
                                   "--prompt '40, 41' --json",
                                   &first, NULL),
                    ==, 0);
    json_t *summary = json_loads(first, 0, NULL);
    const json_t *sample = json_object_get(summary, "sample");
    g_assert_cmpuint(json_array_size(sample), ==, 2 + 3);
    g_assert_cmpint(json_integer_value(json_array_get(sample, 0)), ==, 40);
    /* The tokenizer that lies beside the model reads what it wrote. */
    g_assert_true(
        g_str_has_prefix(json_string_value(json_object_get(summary, "sample_text")), "HI"));
    json_decref(summary);
    g_assert_cmpint(run_folder_run(folder,
                                   "--model 'wide model' --data tokens.bin --steps 1 --sample 3 "
                                   "--prompt 7,320",
                                   NULL, &prompt),
                    ==, 2);
    run_folder_expect(prompt, "--prompt 7,320: has a number that is not a token of the model");
    /* What is evaluated on is looked at as well. */
    g_assert_cmpint(run_folder_run(folder, "--model 'wide model' --data tokens.bin --eval text.txt",
                                   NULL, &eval),
                    ==, 2);
    run_folder_expect(eval, "text.txt: is text");
}

static void test_bytes_on_demand(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *out = NULL;
    write_model(folder);
    g_assert_cmpint(run_folder_run(folder,
                                   "--model 'wide model' --tokens bytes --steps 2 --sample 20 "
                                   "--prompt 'beer on'",
                                   &out, NULL),
                    ==, 0);
    run_folder_expect(out, "\nbeer on");
}

/* A sample is a text that a terminal can show. */
static void test_sample(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *out = NULL, *errors = NULL, *table = NULL, *empty = NULL;
    g_assert_cmpint(
        run_folder_run(folder, "--steps 2 --sample 200 --prompt 'two bottles' --json", &out, NULL),
        ==, 0);
    json_t *summary = json_loads(out, 0, NULL);
    const char *text = json_string_value(json_object_get(summary, "sample_text"));
    g_assert_true(g_str_has_prefix(text, "two bottles"));
    g_assert_cmpuint(json_array_size(json_object_get(summary, "sample")), ==, 11 + 200);
    json_decref(summary);
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --sample 300", &table, NULL), ==, 0);
    g_assert_true(g_utf8_validate(table, -1, NULL));
    for (const char *at = table; *at; at++)
        g_assert_true((unsigned char)*at >= ' ' || *at == '\n' || *at == '\t');
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --prompt x", NULL, &errors), ==, 2);
    run_folder_expect(errors, "--prompt x: needs --sample");
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --sample 1 --prompt ''", NULL, &empty), ==,
                    2);
    run_folder_expect(empty, "--prompt '': is empty");
}

/* A prompt of a model of bytes may be any bytes, whatever the locale is. Other options name
 * themselves. */
static void test_any_bytes(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *out = NULL, *errors = NULL, *tokens = NULL;
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --sample 1 --json --prompt 'gr\xfc\xc3\xbc'",
                                   &out, &errors),
                    ==, 0);
    json_t *summary = json_loads(out, 0, NULL);
    const json_t *sample = json_object_get(summary, "sample");
    g_assert_cmpuint(json_array_size(sample), ==, 5 + 1);
    g_assert_cmpint(json_integer_value(json_array_get(sample, 2)), ==, 0xfc);
    g_assert_true(g_str_has_prefix(json_string_value(json_object_get(summary, "sample_text")),
                                   "gr\357\277\275\303\274"));
    json_decref(summary);
    write_model(folder);
    g_assert_cmpint(run_folder_run(folder,
                                   "--model 'wide model' --tokens bytes --steps 1 --sample 1 "
                                   "--policy gr\xfc",
                                   NULL, &tokens),
                    ==, 2);
    run_folder_expect(tokens, "--policy gr\357\277\275: must be text in UTF-8");
}

#define ADD(path, function)                                                         \
    g_test_add("/text/" path, struct run_folder, NULL, run_folder_set_up, function, \
               run_folder_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("prompt", test_prompt);
    ADD("named-command", test_named_command);
    ADD("bytes-on-demand", test_bytes_on_demand);
    ADD("sample", test_sample);
    ADD("any-bytes", test_any_bytes);
    return g_test_run();
}
