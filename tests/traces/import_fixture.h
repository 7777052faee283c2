/* A folder with a file to import and the resulting trace. */
#ifndef PSTAR_TESTS_TRACES_IMPORT_FIXTURE_H
#define PSTAR_TESTS_TRACES_IMPORT_FIXTURE_H

#include "traces/import/import.h"

struct import_fixture {
    char *folder, *from, *to;
    GPtrArray *unknown;
    GError *error;
};

void import_set_up(struct import_fixture *f, gconstpointer data);

/* Checks that only these two files are left. */
void import_tear_down(struct import_fixture *f, gconstpointer data);

/* Checks that the file is refused, naming it and the reason, and that no trace is written. */
void import_check_refused(struct import_fixture *f, importer *read, const char *reason);

#define IMPORT_TEST(name, function) \
    g_test_add(name, struct import_fixture, NULL, import_set_up, function, import_tear_down)

#endif
