/* Policies by name, or from a shared object that a user wrote: docs/policies.md. */
#ifndef PSTAR_POLICIES_PLUGIN_H
#define PSTAR_POLICIES_PLUGIN_H

#include "policies/policy.h"

#include <glib.h>

typedef enum {
    POLICY_ERROR_UNKNOWN,   /* no policy of that name */
    POLICY_ERROR_PARAMETER, /* a parameter or its value */
    POLICY_ERROR_PLUGIN, /* the shared object cannot be opened, or is no policy for this version */
} PolicyError;

#define POLICY_ERROR policy_error_quark()
GQuark policy_error_quark(void);

/* As in --policy: the name of a policy in policy_all, or, where it has a slash or ends in `.so`,
 * the path of a shared object with a policy, which stays loaded until the process ends. Values of
 * parameters may follow: "s3fifo:small=0.2:ghosts=0.5"; the result has this text as its name. NULL
 * with an error that says what is wrong.
 *
 * Once a shared object is loaded, a crash within it (a signal such as SIGSEGV) is reported on
 * standard error with its path, before the process dies of the signal. Signals for which the
 * program has a handler are left to it. */
const struct pstar_policy_ops *policy_open(const char *name_or_path, GError **error);

/* Called before a policy runs in a thread. If shared objects are loaded, the thread gets a second
 * stack, on which it can report that a policy used up the first. */
void policy_enter_thread(void);

#endif
