/* Ctrl-C, asked for between steps instead of acting at once. */
#ifndef PSTAR_ENGINE_TRAIN_INTERRUPT_H
#define PSTAR_ENGINE_TRAIN_INTERRUPT_H

#include <stdbool.h>

struct interrupt {
    int file; /* of signals that have arrived */
};

/* From here on SIGINT waits; call before any thread is created. */
void interrupt_open(struct interrupt *interrupt);
/* Whether one has arrived; after that a second one ends the program as usual. */
bool interrupt_arrived(struct interrupt *interrupt);
void interrupt_close(struct interrupt *interrupt);

#endif
