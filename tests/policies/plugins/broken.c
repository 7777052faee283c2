/* A plug-in that is wrong in the way that it is compiled for. */
#include "policies/policy.h"

#include <signal.h>
#include <stdlib.h>

#ifndef BROKEN_ABI
#define BROKEN_ABI PSTAR_POLICY_ABI
#endif
#ifndef BROKEN_NAME
#define BROKEN_NAME "broken"
#endif

#ifdef BROKEN_LOAD
__attribute__((constructor)) static void crash(void)
{
    raise(SIGSEGV);
}
#endif

#ifdef BROKEN_OVERFLOW
/* Uses up the stack. The addition after the call keeps it from becoming a jump. */
static uint32_t fall(volatile uint32_t *above) // NOLINT(misc-no-recursion)
{
    volatile uint32_t room[256] = {*above};
    return *above == UINT32_MAX ? 0 : fall(room) + room[1];
}
#endif

static void *broken_open(const struct pstar_policy_view *view)
{
#ifdef BROKEN_CRASH
    (void)view;
    return NULL;
#else
    return (void *)view;
#endif
}

static void broken_close(void *state)
{
    (void)state;
}

static void broken_admit(void *state, uint32_t chunk)
{
    (void)state;
    (void)chunk;
}

#ifndef BROKEN_NO_VICTIM
static uint32_t broken_victim(void *state)
{
#ifdef BROKEN_CRASH
    *(volatile uint32_t *)state = 0; /* NULL */
#endif
#ifdef BROKEN_OVERFLOW
    volatile uint32_t top = 0;
    return fall(&top);
#endif
#ifdef BROKEN_EXIT
    exit(EXIT_SUCCESS);
#endif
    (void)state;
    return NO_INDEX - 1;
}
#endif

#ifndef BROKEN_NO_VERSION
const uint32_t pstar_policy_abi = BROKEN_ABI;
#endif
#ifndef BROKEN_NO_POLICY
const struct pstar_policy_ops pstar_policy = {
#else
const struct pstar_policy_ops some_policy = {
#endif
    .name = BROKEN_NAME,
    .summary = "not to be used",
    .open = broken_open,
    .close = broken_close,
    .admit = broken_admit,
    .remove = broken_admit,
#ifndef BROKEN_NO_VICTIM
    .victim = broken_victim,
#endif
};
