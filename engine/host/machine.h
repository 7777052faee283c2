/* Describes this machine, and finds how much of its memory a program may take. */
#ifndef PSTAR_ENGINE_HOST_MACHINE_H
#define PSTAR_ENGINE_HOST_MACHINE_H

#include <glib.h>
#include <stdbool.h>
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

/* Memory of this machine that a run is about to take. */
struct machine_need {
    uint64_t arena_bytes;     /* of a device whose memory is the host's; else 0 */
    uint64_t host_pool_bytes; /* the host pool */
    uint64_t address_bytes;   /* address space for both, which may be mapped twice */
    uint32_t threads;         /* that compute, on the device and on the host */
    bool pool_is_file;        /* the host pool is a file in memory, so limits of files apply */
};

/* What a run takes beside arena and host pool: programs, libraries, their buffers and threads. It
 * was 20 to 37 MiB in runs whose models had 400 to 700 MiB (docs/faults.md). */
#define MACHINE_BESIDE_BYTES (UINT64_C(28) << 20)

/* Checks a need against what is there, before any of it is taken: the control groups' limits, the
 * memory that is available without swapping, and this process's limits of address space
 * (RLIMIT_AS), of data (RLIMIT_DATA) and of files (RLIMIT_FSIZE). Fails with DEVICE_ERROR_MEMORY:
 * which of them, by how many bytes, and what would fit. */
bool machine_check(const struct machine_need *need, GError **error);

/* Returns a description like "CPU, 2 cores, AMD EPYC 7543P"; free with g_free. Sets *bytes to what
 * counts as the device's memory, which is half of the machine's. */
char *cpu_describe(uint64_t *bytes);

#endif
