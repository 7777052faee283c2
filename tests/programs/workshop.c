#include "workshop.h"

#include <glib/gstdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char config[] =
    "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 256,\n"
    " \"n_positions\": 64, \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4,\n"
    " \"activation_function\": \"gelu_new\", \"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0,\n"
    " \"attn_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02}\n";

enum { TEXT_WORDS = 4000 };

/* Words in a fixed order that no short cycle repeats: enough for a model to learn from. */
static char *make_text(void)
{
    static const char *const words[] = {"int ",    "char *", "size_t ",  "const ", "struct ",
                                        "return ", "void ",  "#define ", "if (",   ");\n"};
    GString *text = g_string_new(NULL);
    uint32_t state = 1;
    for (int i = 0; i < TEXT_WORDS; i++) {
        state = state * 1664525u + 1013904223u;
        g_string_append(text, words[(state >> 24) % G_N_ELEMENTS(words)]);
    }
    return g_string_free(text, FALSE);
}

struct workshop *workshop_new(void)
{
    GError *error = NULL;
    struct workshop *workshop = g_new0(struct workshop, 1);
    workshop->folder = g_dir_make_tmp("pstar-programs-XXXXXX", &error);
    g_assert_no_error(error);
    char *model = workshop_path(workshop, "model");
    g_assert_cmpint(g_mkdir(model, 0755), ==, 0);
    g_free(model);
    workshop_write(workshop, "model/config.json", config);
    char *text = make_text();
    workshop_write(workshop, "text.txt", text);
    g_free(text);
    return workshop;
}

static void remove_tree(const char *path)
{
    GDir *folder = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
    for (const char *name = NULL; folder && (name = g_dir_read_name(folder));) {
        char *child = g_build_filename(path, name, NULL);
        remove_tree(child);
        g_free(child);
    }
    if (folder)
        g_dir_close(folder);
    g_remove(path);
}

void workshop_free(struct workshop *workshop)
{
    remove_tree(workshop->folder);
    g_free(workshop->folder);
    g_free(workshop);
}

struct outcome workshop_run(const struct workshop *workshop, const char *command_line)
{
    GError *error = NULL;
    char **arguments = NULL;
    g_shell_parse_argv(command_line, NULL, &arguments, &error);
    g_assert_no_error(error);
    char *path = g_strconcat(PROGRAM_DIR, ":", g_getenv("PATH"), NULL);
    char **environment = g_environ_setenv(g_get_environ(), "PATH", path, TRUE);

    struct outcome outcome;
    int status = 0;
    g_spawn_sync(workshop->folder, arguments, environment,
                 G_SPAWN_SEARCH_PATH | G_SPAWN_SEARCH_PATH_FROM_ENVP, NULL, NULL, &outcome.out,
                 &outcome.err, &status, &error);
    g_assert_no_error(error);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    g_strfreev(environment);
    g_free(path);
    g_strfreev(arguments);
    return outcome;
}

void outcome_clear(struct outcome *outcome)
{
    g_free(outcome->out);
    g_free(outcome->err);
}

struct outcome workshop_run_well(const struct workshop *workshop, const char *command_line)
{
    struct outcome outcome = workshop_run(workshop, command_line);
    if (outcome.status != 0)
        g_error("%s: status %d\n%s%s", command_line, outcome.status, outcome.out, outcome.err);
    return outcome;
}

void workshop_must_run(const struct workshop *workshop, const char *command_line)
{
    struct outcome outcome = workshop_run_well(workshop, command_line);
    outcome_clear(&outcome);
}

void workshop_must_run_format(const struct workshop *workshop, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *command_line = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    workshop_must_run(workshop, command_line);
}

void workshop_must_end(const struct workshop *workshop, const char *command_line, int status,
                       const char *out, const char *err)
{
    struct outcome outcome = workshop_run(workshop, command_line);
    if (outcome.status != status || !strstr(outcome.out, out) || !strstr(outcome.err, err))
        g_error("%s\nstatus %d instead of %d, or without '%s' and '%s'\n%s%s", command_line,
                outcome.status, status, out, err, outcome.out, outcome.err);
    outcome_clear(&outcome);
}

char *workshop_must_print(const struct workshop *workshop, const char *command_line)
{
    struct outcome outcome = workshop_run_well(workshop, command_line);
    g_free(outcome.err);
    return outcome.out;
}

json_t *workshop_must_print_json(const struct workshop *workshop, const char *command_line)
{
    struct outcome outcome = workshop_run_well(workshop, command_line);
    json_error_t problem;
    json_t *value = json_loads(outcome.out, 0, &problem);
    if (!value)
        g_error("%s: not JSON, line %d: %s\n%s", command_line, problem.line, problem.text,
                outcome.out);
    outcome_clear(&outcome);
    return value;
}

char *workshop_path(const struct workshop *workshop, const char *name)
{
    return g_build_filename(workshop->folder, name, NULL);
}

void workshop_write(const struct workshop *workshop, const char *name, const char *text)
{
    GError *error = NULL;
    char *path = workshop_path(workshop, name);
    g_file_set_contents(path, text, -1, &error);
    g_assert_no_error(error);
    g_free(path);
}

static gint compare_paths(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_tree(const char *path, GString *listing)
{
    struct stat status;
    g_assert_cmpint(lstat(path, &status), ==, 0);
    if (!S_ISDIR(status.st_mode)) {
        g_string_append_printf(listing, "%s %lld %lld.%09ld\n", path, (long long)status.st_size,
                               (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
        return;
    }
    g_string_append_printf(listing, "%s/\n", path);
    GDir *folder = g_dir_open(path, 0, NULL);
    g_assert_nonnull(folder);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    for (const char *name; (name = g_dir_read_name(folder)) != NULL;)
        g_ptr_array_add(names, g_build_filename(path, name, NULL));
    g_dir_close(folder);
    g_ptr_array_sort(names, compare_paths);
    for (guint i = 0; i < names->len; i++)
        list_tree(names->pdata[i], listing);
    g_ptr_array_unref(names);
}

char *workshop_listing(const struct workshop *workshop)
{
    GString *listing = g_string_new(NULL);
    list_tree(workshop->folder, listing);
    return g_string_free(listing, FALSE);
}

json_t *workshop_read_json(const struct workshop *workshop, const char *name)
{
    char *path = workshop_path(workshop, name);
    json_error_t problem;
    json_t *value = json_load_file(path, 0, &problem);
    if (!value)
        g_error("%s, line %d: %s", path, problem.line, problem.text);
    g_free(path);
    return value;
}

json_t *workshop_read_json_lines(const struct workshop *workshop, const char *name)
{
    GError *error = NULL;
    char *path = workshop_path(workshop, name);
    char *text = NULL;
    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    char **lines = g_strsplit(text, "\n", -1);
    json_t *objects = json_array();
    for (char **line = lines; *line; line++) {
        if (**line == '\0')
            continue;
        json_t *object = json_loads(*line, 0, NULL);
        if (!object)
            g_error("%s: not a line of JSON: %s", path, *line);
        json_array_append_new(objects, object);
    }
    g_strfreev(lines);
    g_free(text);
    g_free(path);
    return objects;
}
