/* A CUDA driver without a device, and a profiler that watches it: enough of both to play whole runs
 * back through the collector's real way in.
 *
 * A call takes no time; what it asks for runs after what was asked for before, for as long as the
 * call says. FAKE holds words, with commas, for what goes wrong:
 *
 *   busy         another tool, "the other tool", has subscribed
 *   no-version   the profiler refuses every call with error 999, as without a driver
 *   odd-records  the library's records of kernels have a size of no version
 *   cannot-copy  records of copies cannot be turned on
 *   drop         every seventh record finds no room
 *   mixed        a buffer holds few records, and they are handed back last first
 *   no-sync      synchronisations are not recorded
 *   forgetful    at its exit, the profiler forgets what it has not handed back
 *   silent       external correlations are never recorded
 *   silent-if-chosen  they are recorded only if all calls are
 *   takes-memory recording kernels takes FAKE_TAKEN_BYTES of the device's memory
 */
#ifndef PSTAR_TESTS_COLLECT_FAKE_FAKE_H
#define PSTAR_TESTS_COLLECT_FAKE_FAKE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

enum fake_kind { FAKE_KERNEL, FAKE_COPY, FAKE_SET, FAKE_SYNC, FAKE_ALLOCATION, FAKE_RELEASE };

struct fake_event {
    enum fake_kind kind;
    uint64_t start_ns, end_ns; /* CLOCK_REALTIME */
    uint64_t address, bytes;
    const char *name;     /* of a kernel */
    uint32_t correlation; /* of the call */
    uint32_t stream;
    bool pinned; /* host memory */
};

/* What the driver reports to the profiler. */
struct fake_tool {
    void (*context)(CUcontext context, bool created);
    void (*enter)(uint32_t callback, uint32_t correlation, const char *symbol);
    void (*leave)(uint32_t callback, uint32_t correlation, const char *symbol, uint64_t entered_ns);
    void (*event)(const struct fake_event *event);
};

/* Implemented by the driver. */
void fake_watch(const struct fake_tool *tool);
void fake_take(size_t bytes); /* takes device memory for the profiler */

enum { FAKE_TAKEN_BYTES = 64 << 20 };

/* Returns whether FAKE contains the word. */
bool fake_is(const char *word);

uint64_t fake_now(void);

#endif
