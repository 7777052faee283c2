#include "run_program.h"

#include <string.h>
#include <sys/wait.h>

void add_argument(GPtrArray *arguments, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    g_ptr_array_add(arguments, g_strdup_vprintf(format, values));
    va_end(values);
}

void run_program(const GPtrArray *arguments)
{
    GPtrArray *argv = g_ptr_array_new();
    g_ptr_array_add(argv, (char *)PROGRAM_DIR "/pstar-run");
    for (guint i = 0; i < arguments->len; i++)
        g_ptr_array_add(argv, arguments->pdata[i]);
    g_ptr_array_add(argv, NULL);
    char *output = NULL, *errors = NULL;
    int status = 0;
    GError *error = NULL;
    g_spawn_sync(NULL, (char **)argv->pdata, NULL, G_SPAWN_DEFAULT, NULL, NULL, &output, &errors,
                 &status, &error);
    g_assert_no_error(error);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        g_error("pstar-run fails: %s", errors);
    g_free(output);
    g_free(errors);
    g_ptr_array_free(argv, TRUE);
}

json_t *read_log(const char *path)
{
    char *text = NULL;
    GError *error = NULL;
    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    char **lines = g_strsplit(g_strchomp(text), "\n", -1);
    json_t *log = json_array();
    for (char **line = lines; *line; line++) {
        json_t *object = json_loads(*line, 0, NULL);
        g_assert_nonnull(object);
        json_array_append_new(log, object);
    }
    g_strfreev(lines);
    g_free(text);
    return log;
}

double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        g_error("no number %s", key);
    return json_number_value(value);
}
