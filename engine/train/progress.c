#include "engine/train/progress.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

bool progress_wanted(void)
{
    return isatty(STDERR_FILENO);
}

static void print_time(double seconds)
{
    unsigned long long s = (unsigned long long)(seconds + 0.5);
    if (s >= 3600)
        fprintf(stderr, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        fprintf(stderr, "%llu:%02llu", s / 60, s % 60);
}

void progress_step(struct progress *progress, uint64_t step, double seconds, double loss,
                   double tokens_per_second)
{
    if (!progress->shown)
        return;
    progress->seconds = progress->seconds > 0 ? 0.9 * progress->seconds + 0.1 * seconds : seconds;
    fprintf(stderr, "\r\033[Kstep %llu/%llu  loss %.4f  %.0f tokens/s", (unsigned long long)step,
            (unsigned long long)progress->steps, loss, tokens_per_second);
    if (progress->peak_flops > 0) {
        double rate = progress->step_flops / seconds;
        progress->peak_flops = fmax(progress->peak_flops, rate);
        fprintf(stderr, "  %.0f %% of peak", 100 * rate / progress->peak_flops);
    }
    fprintf(stderr, "  ");
    print_time((double)(progress->steps - step) * progress->seconds);
    fprintf(stderr, " left");
    fflush(stderr);
}

void progress_end(const struct progress *progress)
{
    if (progress->shown)
        fputc('\n', stderr);
}
