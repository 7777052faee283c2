/* Describes this machine, and finds how much of its memory a program may take. */
#ifndef PSTAR_ENGINE_HOST_MACHINE_H
#define PSTAR_ENGINE_HOST_MACHINE_H

#include <stdint.h>

/* Returns the bytes that the system would give without swapping, at most what is left in the
 * control groups of this process: those of containers, of batch systems and of users, of either
 * version. A program that touches more is not refused: the kernel kills some process. Returns
 * UINT64_MAX if nothing is known. */
uint64_t available_bytes(void);

/* Returns the bytes that are left in the control groups of `membership`, which has the form of
 * /proc/self/cgroup, and in those above them. `mount` is where their files are, /sys/fs/cgroup.
 * Returns UINT64_MAX if no group has a limit. */
uint64_t machine_group_bytes(const char *membership, const char *mount);

/* Returns a description like "CPU, 2 cores, AMD EPYC 7543P"; free with g_free. Sets *bytes to what
 * counts as the device's memory, which is half of the machine's. */
char *cpu_describe(uint64_t *bytes);

#endif
