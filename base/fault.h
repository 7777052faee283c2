/* Faults that tests inject: one switchboard, which the environment variable PSTAR_FAULT sets.
 *
 * PSTAR_FAULT=NAME:N[+][,NAME:N[+]...] lets the N-th event of that name go wrong, counted from 1 in
 * each process; with + all later events go wrong, too. Without the variable an event costs one load
 * and one branch. docs/faults.md says what each name does and how the programs end then.
 *
 * The counts are the only mutable state of the product that is not an argument. They belong to the
 * process, as its environment does. */
#ifndef PSTAR_BASE_FAULT_H
#define PSTAR_BASE_FAULT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define FAULT_VARIABLE "PSTAR_FAULT"

enum fault {
    FAULT_DEVICE_MEMORY, /* "device-memory": an allocation of the device's memory is refused */
    FAULT_PINNED_MEMORY, /* "pinned-memory": an allocation of the host pool is refused */
    FAULT_COPY,          /* "copy": a copy over the link fails */
    FAULT_SLOW_COPY,     /* "slow-copy": a copy over the link takes 100 times as long */
    FAULT_GRADIENT,      /* "gradient": backward of a micro-batch begins with a NaN */
    FAULT_DEVICE_LOST,   /* "device-lost": the device fails instead of running an operator */
    FAULTS
};

enum fault_error { FAULT_ERROR_SYNTAX };
#define FAULT_ERROR fault_error_quark()
GQuark fault_error_quark(void);

/* Sets the faults from a text as above, and all counts to 0. NULL or "" sets none. Fails with
 * FAULT_ERROR_SYNTAX, and then sets none. Accepts the names that only the library of
 * tests/faults knows. Must not be called while other threads count. */
bool fault_set(const char *text, GError **error);

/* The same with the environment variable's text. */
bool fault_set_from_environment(GError **error);

/* Counts an event, and returns whether it must go wrong. Any thread may call it. The first call in
 * a process that has not set the faults reads the environment variable, and takes a text that is
 * wrong as none. */
bool fault_strikes(enum fault fault);

#endif
