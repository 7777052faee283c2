/* A folder with a small model of bytes (config.json) and text.txt, in which pstar-run runs. */
#ifndef PSTAR_TESTS_ENGINE_RUN_RUN_FOLDER_H
#define PSTAR_TESTS_ENGINE_RUN_RUN_FOLDER_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

struct run_folder {
    char *path;
};

/* For g_test_add. */
void run_folder_set_up(struct run_folder *folder, gconstpointer data);
void run_folder_tear_down(struct run_folder *folder, gconstpointer data);

/* Returns the path of a file in the folder; free with g_free. */
char *run_folder_path(const struct run_folder *folder, const char *name);
void run_folder_write(const struct run_folder *folder, const char *name, const char *text);
/* Returns whether the folder has such a file or folder. */
bool run_folder_has(const struct run_folder *folder, const char *name);

/* Returns the command line of pstar-run with config.json, text.txt and a small batch, and these
 * options, which may repeat them; free with g_strfreev. */
char **run_folder_command(const char *options);

/* Runs it and returns its exit status, or -1 if a signal ended it. `out` and `err` receive what it
 * printed, to be freed with g_free; either may be NULL. */
int run_folder_run(const struct run_folder *folder, const char *options, char **out, char **err);

/* The same for a whole command line. `setup`, which may be NULL, is called with `data` in the new
 * process. */
int run_folder_spawn(const struct run_folder *folder, char **command, GSpawnChildSetupFunc setup,
                     void *data, char **out, char **err);

/* Reads what the process prints to `err`, which it closes, until its end. Returns the text, to be
 * freed with g_free, and the status. */
char *run_folder_await_end(GPid child, int err, int *status);

/* Fails the test, with the text, unless `part` is in the text. */
void run_folder_expect(const char *text, const char *part);

/* Returns one key (double) of every object of a log, in order; free with g_array_unref. */
GArray *run_folder_log(const struct run_folder *folder, const char *name, const char *key);
/* Fails the test unless both logs have the same values of the key, at least one. */
void run_folder_same_log(const struct run_folder *folder, const char *a, const char *b,
                         const char *key);
/* Fails the test unless both files have the same bytes. */
void run_folder_same_file(const struct run_folder *folder, const char *a, const char *b);
/* Reads a JSON file; free with json_decref. */
json_t *run_folder_json(const struct run_folder *folder, const char *name);

#endif
