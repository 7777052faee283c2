#include "planner/answers/script_step.h"

#include "base/failure.h"
#include "base/files.h"
#include "models/retime.h"

#include <string.h>

#define INTERPRETER "python3"

/* Returns the variables of this process with the folder of the Python package first in its path. */
static char **environment(GError **error)
{
    g_autofree char *package = library_file_find("pstar_torch/__init__.py", error);
    if (!package)
        return NULL;
    g_autofree char *inner = g_path_get_dirname(package);
    g_autofree char *folder = g_path_get_dirname(inner);
    const char *old = g_getenv("PYTHONPATH");
    g_autofree char *path = g_strconcat(folder, old ? ":" : NULL, old, NULL);
    return g_environ_setenv(g_get_environ(), "PYTHONPATH", path, TRUE);
}

/* Returns "train.pstar" for "../train.py". */
static char *trace_path(const char *script)
{
    g_autofree char *name = g_path_get_basename(script);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    return g_strconcat(name, ".pstar", NULL);
}

static char **command_of(char *const *words, const char *output)
{
    GPtrArray *command = g_ptr_array_new();
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self ? g_path_get_dirname(self) : NULL;
    g_ptr_array_add(command, folder ? g_build_filename(folder, "pstar-collect", NULL)
                                    : g_strdup("pstar-collect"));
    const char *const before[] = {"-o", output, "--", INTERPRETER, "-m", "pstar_torch", "--meta"};
    for (size_t i = 0; i < G_N_ELEMENTS(before); i++)
        g_ptr_array_add(command, g_strdup(before[i]));
    for (; *words; words++)
        g_ptr_array_add(command, g_strdup(*words));
    g_ptr_array_add(command, NULL);
    return (char **)(void *)g_ptr_array_free(command, FALSE);
}

/* Returns the reason in what the command said, to be freed: the line of ours, before which a
 * progress bar may stand, or else the last lines. */
static char *reason_in(const char *text)
{
    enum { MOST_BYTES = 2000 };
    const char *ours = g_strrstr(text, "pstar_torch: ");
    size_t length = strlen(text);
    if (ours)
        return g_strndup(ours, strcspn(ours, "\r\n"));
    return g_strchomp(g_strdup(length > MOST_BYTES ? text + length - MOST_BYTES : text));
}

/* Returns what the package said of a step that it recorded, a line each, to be freed. */
static char **remarks_in(const char *text)
{
    const char *prefix = "pstar_torch: ";
    GPtrArray *remarks = g_ptr_array_new();
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++)
        if (g_str_has_prefix(*line, prefix))
            g_ptr_array_add(remarks, g_strdup(*line + strlen(prefix)));
    g_ptr_array_add(remarks, NULL);
    return (char **)(void *)g_ptr_array_free(remarks, FALSE);
}

/* Runs the script until a step is recorded. */
static bool run_script(char *const *words, const char *output, char ***remarks, GError **error)
{
    g_auto(GStrv) command = command_of(words, output);
    g_auto(GStrv) variables = environment(error);
    g_autofree char *said = NULL;
    int status = 0;
    GSpawnFlags flags = G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL;
    if (!variables ||
        !g_spawn_sync(NULL, command, variables, flags, NULL, NULL, NULL, &said, &status, error))
        return failure_mark(error, FAILURE_RUNNING);
    if (g_spawn_check_wait_status(status, NULL)) {
        *remarks = remarks_in(said);
        return true;
    }
    g_autofree char *reason = reason_in(said);
    g_set_error(error, FAILURE, FAILURE_RUNNING,
                "%s: no step could be recorded on the meta device:\n%s", words[0], reason);
    return false;
}

char *script_step_record(const char *script, const struct platform *platform,
                         const enum model_precision *precision, char ***remarks, GError **error)
{
    g_auto(GStrv) words = NULL;
    *remarks = NULL;
    double seconds;
    if (!g_shell_parse_argv(script, NULL, &words, error)) {
        g_prefix_error(error, "--torch: ");
        return NULL;
    }
    if (!g_file_test(words[0], G_FILE_TEST_IS_REGULAR)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT, "--torch %s: there is no such script",
                    words[0]);
        return NULL;
    }
    g_autofree char *output = trace_path(words[0]);
    if (!run_script(words, output, remarks, error) ||
        !trace_retime_file(output, platform, precision, output, &seconds, error))
        return NULL;
    return g_steal_pointer(&output);
}
