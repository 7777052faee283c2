/* A thread that does a little work again and again while a window is open, and on demand. It takes
 * none of the program's signals. */
#ifndef PSTAR_COLLECT_SAMPLER_H
#define PSTAR_COLLECT_SAMPLER_H

#include <stdbool.h>

struct sampler;

/* `work` is called 20 times a second while sampling is on, and after sampler_wake. NULL: no thread
 * can be started. */
struct sampler *sampler_new(void (*work)(void *data), void *data);

void sampler_turn(struct sampler *sampler, bool on);
void sampler_wake(struct sampler *sampler);

/* Waits until a call of `work` that is under way has ended; there is none later. NULL is allowed.
 */
void sampler_stop(struct sampler *sampler);

#endif
