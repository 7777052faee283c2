/* Files that are damaged on purpose. */
#ifndef PSTAR_TESTS_TRACES_REPLACE_FILE_H
#define PSTAR_TESTS_TRACES_REPLACE_FILE_H

#include <stddef.h>

/* The file at `path` holds these bytes and nothing else; without waiting for the disk. */
void replace_file(const char *path, const char *contents, size_t length);

#endif
