/* Runs pstar-collect in a folder of its own. */
#ifndef PSTAR_TESTS_COLLECT_PROCESS_H
#define PSTAR_TESTS_COLLECT_PROCESS_H

#include <glib.h>

#define COLLECT PROGRAM_DIR "/pstar-collect"

struct fixture {
    char *folder, *path;   /* the folder's "run.pstar" */
    char *output, *errors; /* of the last run */
    int status;            /* waitpid's status of the last run */
    GSpawnChildSetupFunc before_exec;
};

void set_up(struct fixture *fixture, gconstpointer data);

/* Checks that the folder contains nothing but the trace. */
void tear_down(struct fixture *fixture, gconstpointer data);

/* Runs `pstar-collect ARGUMENTS` in the fixture's folder. */
void collect(struct fixture *fixture, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Runs any other command line. */
void run_line(struct fixture *fixture, const char *format, ...) G_GNUC_PRINTF(2, 3);

void assert_exit(const struct fixture *fixture, int code);
void assert_says(const struct fixture *fixture, const char *text);
int count_lines(const char *text);

#endif
