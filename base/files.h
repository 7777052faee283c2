/* Checks files before they are read, and finds our own libraries. */
#ifndef PSTAR_BASE_FILES_H
#define PSTAR_BASE_FILES_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Fails with G_FILE_ERROR_INVAL if `path` is not a regular file, because a device or a pipe may
 * never end. Accepts missing files and folders: opening them fails with a better message. */
bool input_file_check(const char *path, GError **error);

/* The most bytes of a text that is read whole: of a configuration, and of a plan or a timeline. */
#define INPUT_SMALL (UINT64_C(64) << 20)
#define INPUT_LARGE (UINT64_C(1) << 30)

/* The same for such a text: also fails if it is a folder, or has more than `most_bytes`. */
bool input_text_check(const char *path, uint64_t most_bytes, GError **error);

/* Reads a file from its beginning to its end, and hands over one piece after the other. It is not
 * mapped: a disk that cannot read it would end the program by a signal. Fails with a G_FILE_ERROR
 * that names the file. */
bool input_file_read(const char *path, void (*take)(void *data, const void *piece, size_t bytes),
                     void *data, GError **error);

/* Does what json_load_file does, but says so if the file cannot be read: to Jansson that is the end
 * of the text. Then `where->line` is -1. */
json_t *input_json_load(const char *path, size_t flags, json_error_t *where);
/* Returns why that has failed, as "line 3: ..." if the text is no JSON. Free with g_free. */
char *input_json_problem(const json_error_t *where);

/* Returns the path of one of our libraries that are loaded at run time: beside this program in a
 * build folder, or in the installed folder. Free with g_free. Returns NULL with a G_FILE_ERROR that
 * names the installed path if it is in neither. */
char *library_file_find(const char *name, GError **error);

/* Returns why the file must not be loaded as a shared object, or NULL: opening a pipe would wait
 * for ever, and the loader crashes on a file whose end is missing. */
const char *library_file_refusal(const char *path);

#endif
