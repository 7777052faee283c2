/* Configurations from a text, by way of a file. */
#ifndef PSTAR_TESTS_MODELS_CONFIG_TEXT_H
#define PSTAR_TESTS_MODELS_CONFIG_TEXT_H

#include "models/config.h"

#include <glib/gstdio.h>

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

#endif
