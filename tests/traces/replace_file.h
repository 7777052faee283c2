/* Writes damaged files. */
#ifndef PSTAR_TESTS_TRACES_REPLACE_FILE_H
#define PSTAR_TESTS_TRACES_REPLACE_FILE_H

#include <stddef.h>

/* Replaces the contents of the file at `path`, without waiting for the disk. */
void replace_file(const char *path, const char *contents, size_t length);

#endif
