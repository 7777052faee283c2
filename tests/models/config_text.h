/* Configurations from a text, by way of a file. */
#ifndef PSTAR_TESTS_MODELS_CONFIG_TEXT_H
#define PSTAR_TESTS_MODELS_CONFIG_TEXT_H

#include "models/config.h"

#include <glib/gstdio.h>
#include <string.h>

/* Returns the path of a new file with the text. Free with g_free, and remove it. */
static inline char *write_text(const char *text)
{
    char *path;
    int descriptor = g_file_open_tmp("config-XXXXXX.json", &path, NULL);
    g_assert_cmpint(descriptor, >=, 0);
    g_close(descriptor, NULL);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return path;
}

/* As model_config_read. */
static inline struct model_config *read_text(const char *text, GError **error)
{
    char *path = write_text(text);
    struct model_config *config = model_config_read(path, error);
    g_unlink(path);
    g_free(path);
    return config;
}

/* A text that is refused, and what the message must have. */
struct refused_config {
    const char *text;
    enum model_error code;
    const char *named[2];
};

/* The message is one line, and names the file. */
static inline void assert_refused(const char *text, const struct refused_config *refused)
{
    GError *error = NULL;
    g_assert_null(read_text(text, &error));
    g_assert_error(error, MODEL_ERROR, (int)refused->code);
    g_assert_nonnull(strstr(error->message, "config-"));
    for (size_t n = 0; n < G_N_ELEMENTS(refused->named); n++)
        if (!strstr(error->message, refused->named[n]))
            g_error("'%s' is not in: %s", refused->named[n], error->message);
    g_assert_null(strchr(error->message, '\n'));
    g_error_free(error);
}

#endif
