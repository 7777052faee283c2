#include "engine/train/schedule.h"

#include <glib.h>
#include <math.h>

double schedule_learning_rate(const struct schedule *schedule, uint64_t step)
{
    if (step < schedule->warm_up)
        return schedule->peak * (double)(step + 1) / (double)schedule->warm_up;
    if (step >= schedule->steps)
        return schedule->floor;
    double progress = (double)(step - schedule->warm_up) /
                      (double)(schedule->steps - schedule->warm_up);
    return schedule->floor +
           0.5 * (1.0 + cos(G_PI * progress)) * (schedule->peak - schedule->floor);
}
