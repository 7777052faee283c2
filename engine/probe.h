/* Measures this machine, as the CPU device uses it, and writes a platform file. */
#ifndef PSTAR_ENGINE_PROBE_H
#define PSTAR_ENGINE_PROBE_H

#include <glib.h>

/* Takes less than a minute, and 0.4 GB; says on a terminal what it does. Returns the exit status:
 * 0, 2 where the path cannot be written, 1 where writing fails, 3 where the machine has not the
 * memory. */
int probe_run(const char *path, GError **error);

#endif
