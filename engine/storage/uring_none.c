/* Stands in for uring.c where liburing is not installed. */
#include "engine/storage/blocks.h"

#include <errno.h>

struct uring *uring_start(struct store *storage, int *failure)
{
    (void)storage;
    *failure = ENOSYS;
    return NULL;
}

void uring_wake(struct uring *uring)
{
    (void)uring;
}

bool uring_is_registered(const struct uring *uring)
{
    (void)uring;
    return false;
}

void uring_stop(struct uring *uring)
{
    (void)uring;
}
