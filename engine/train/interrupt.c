#include "engine/train/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t only_interrupt(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

void interrupt_open(struct interrupt *interrupt)
{
    sigset_t set = only_interrupt();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    interrupt->file = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

bool interrupt_arrived(struct interrupt *interrupt)
{
    struct signalfd_siginfo info;
    if (interrupt->file < 0 || read(interrupt->file, &info, sizeof info) != sizeof info)
        return false;
    interrupt_close(interrupt);
    return true;
}

void interrupt_close(struct interrupt *interrupt)
{
    sigset_t set = only_interrupt();
    if (interrupt->file < 0)
        return;
    close(interrupt->file);
    interrupt->file = -1;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
