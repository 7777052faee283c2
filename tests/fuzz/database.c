#include "tests/fuzz/readers.h"

#include <sqlite3.h>
#include <string.h>

enum { MOST_STEPS = 100000 }; /* of SQLite's machine, for one statement */

/* Nothing but tables and rows of this file: no other files, no functions, no triggers. */
static int allow(void *data, int action, const char *first, const char *second,
                 const char *database, const char *trigger)
{
    static const int allowed[] = {SQLITE_CREATE_TABLE, SQLITE_DROP_TABLE, SQLITE_INSERT,
                                  SQLITE_UPDATE,       SQLITE_DELETE,     SQLITE_READ,
                                  SQLITE_CREATE_INDEX, SQLITE_REINDEX};
    (void)data, (void)second, (void)database, (void)trigger;
    for (size_t i = 0; i < G_N_ELEMENTS(allowed); i++)
        if (action == allowed[i])
            return SQLITE_OK;
    bool marks = action == SQLITE_PRAGMA &&
                 (g_str_equal(first, "application_id") || g_str_equal(first, "user_version"));
    return marks ? SQLITE_OK : SQLITE_DENY;
}

static int stop(void *data)
{
    (void)data;
    return 1;
}

static void execute(sqlite3 *database, const char *sql)
{
    while (*sql) {
        sqlite3_stmt *statement = NULL;
        const char *rest = NULL;
        sqlite3_prepare_v2(database, sql, -1, &statement, &rest);
        for (int row = statement ? SQLITE_ROW : SQLITE_DONE; row == SQLITE_ROW;)
            row = sqlite3_step(statement);
        sqlite3_finalize(statement);
        const char *line = strchr(sql, '\n');
        if (rest && rest > sql)
            sql = rest;
        else
            sql = line ? line + 1 : ""; /* it could not be parsed */
    }
}

static void write_rows(const char *path, const char *sql)
{
    sqlite3 *database;
    g_assert_cmpint(sqlite3_open(path, &database), ==, SQLITE_OK);
    sqlite3_exec(database, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN", NULL,
                 NULL, NULL);
    sqlite3_set_authorizer(database, allow, NULL);
    sqlite3_progress_handler(database, MOST_STEPS, stop, NULL);
    execute(database, sql);
    sqlite3_set_authorizer(database, NULL, NULL);
    sqlite3_progress_handler(database, 0, NULL, NULL);
    sqlite3_exec(database, "COMMIT", NULL, NULL, NULL);
    g_assert_cmpint(sqlite3_close(database), ==, SQLITE_OK);
}

void fuzz_write_database(const char *path, const uint8_t *input, size_t bytes)
{
    static const char magic[] = "SQLite format 3";
    if (bytes >= sizeof magic && memcmp(input, magic, sizeof magic) == 0) {
        g_assert_true(g_file_set_contents(path, (const char *)input, (gssize)bytes, NULL));
        return;
    }
    g_autofree char *sql = g_strndup((const char *)input, bytes);
    write_rows(path, sql);
}
