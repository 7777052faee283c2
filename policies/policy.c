#include "policies/policy.h"

#include <string.h>

const struct pstar_policy_ops *const policy_all[] = {
    &policy_fifo,        &policy_lru,    &policy_lfu,       &policy_clock,
    &policy_arc,         &policy_s3fifo, &policy_sieve,     &policy_random,
    &policy_patrickstar, &policy_opt,    &policy_opt_dirty, NULL};

const struct pstar_policy_ops *policy_find(const char *name)
{
    for (int i = 0; policy_all[i]; i++)
        if (!strcmp(policy_all[i]->name, name))
            return policy_all[i];
    return NULL;
}
