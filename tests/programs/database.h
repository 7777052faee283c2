/* Changes to traces, which are SQLite databases. */
#ifndef PSTAR_TESTS_PROGRAMS_DATABASE_H
#define PSTAR_TESTS_PROGRAMS_DATABASE_H

#include "workshop.h"

/* Executes SQL on a file of the folder, which is made if it is missing. */
void workshop_alter(const struct workshop *workshop, const char *name, const char *sql);

#endif
