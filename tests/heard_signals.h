/* Signals that a test sends to its programs must be heard, also where whoever started the test lets
 * it ignore them: a shell without job control ignores SIGINT in the background, and nohup SIGHUP.
 */
#ifndef PSTAR_TESTS_HEARD_SIGNALS_H
#define PSTAR_TESTS_HEARD_SIGNALS_H

#include <signal.h>

static inline void hear_signals(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

#endif
