#include "database.h"

#include <sqlite3.h>

void workshop_alter(const struct workshop *workshop, const char *name, const char *sql)
{
    char *path = workshop_path(workshop, name), *problem = NULL;
    sqlite3 *database = NULL;
    g_assert_cmpint(sqlite3_open(path, &database), ==, SQLITE_OK);
    sqlite3_exec(database, sql, NULL, NULL, &problem);
    g_assert_cmpstr(problem, ==, NULL);
    g_assert_cmpint(sqlite3_close(database), ==, SQLITE_OK);
    g_free(path);
}
