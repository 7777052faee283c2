/* The file without a name in which a running pstar-run keeps chunks that are at home in NVMe. */
#ifndef PSTAR_TESTS_ENGINE_RUN_NVME_FILE_H
#define PSTAR_TESTS_ENGINE_RUN_NVME_FILE_H

#include <glib.h>
#include <stdbool.h>

/* Opens the file of a process, which lies in the folder, through the process's descriptors. Returns
 * -1 if there is none yet, or if the file system has no files without names. */
int nvme_file_open(GPid process, const char *folder);

/* Overwrites its first 16 KiB. Returns whether that went well. */
bool nvme_file_damage(int file);

#endif
