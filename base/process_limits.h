/* Limits that the system sets to this process (setrlimit), and threads, which some of them refuse.
 */
#ifndef PSTAR_BASE_PROCESS_LIMITS_H
#define PSTAR_BASE_PROCESS_LIMITS_H

#include <glib.h>
#include <stdint.h>

/* Returns RLIMIT_AS, RLIMIT_DATA or the like; UINT64_MAX if there is none. */
uint64_t process_limit(int resource);

/* What the kernel counts for a process. */
enum process_size { PROCESS_ADDRESSES, PROCESS_RESIDENT, PROCESS_PRIVATE, PROCESS_SIZES };

/* Returns a size of this process in bytes, or 0 if it is not known. */
uint64_t process_bytes(enum process_size size);

/* Returns how many addresses the stack of a thread takes. */
uint64_t process_stack_bytes(void);

/* Returns at least how many addresses so many threads take, with their stacks and the memory that
 * libraries keep for each. UINT64_MAX if that has no number. */
uint64_t process_thread_bytes(uint64_t threads);

/* Starts a thread. Fails with FAILURE_DOES_NOT_FIT if the system refuses it, and names the limits
 * that may be why. */
GThread *process_thread_new(const char *name, GThreadFunc run, void *data, GError **error);

#endif
