#include "engine/train/run_options.h"

#include "engine/devices.h"

struct run_options run_options_default(void)
{
    return (struct run_options){
        .device = &device_cpu,
        .device_budget = RUN_UNLIMITED,
        .host_budget = RUN_UNLIMITED,
        .steps = 100,
        .warm_up_steps = 10,
        .learning_rate = 6e-4,
        .least_learning_rate = -1,
        .weight_decay = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .clip = 1,
    };
}

static bool refuse(GError **error, const char *option, const char *value, const char *why)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s %s: %s", option, value, why);
    return false;
}

static bool is_missing(GError **error, const char *option)
{
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s is missing", option);
    return false;
}

bool run_options_complete(struct run_options *o, GError **error)
{
    if (!o->schedule_steps)
        o->schedule_steps = o->steps;
    o->warm_up_steps = MIN(o->warm_up_steps, o->schedule_steps);
    if (o->least_learning_rate < 0)
        o->least_learning_rate = o->learning_rate / 10;
    if (!o->model)
        o->model = g_strdup(o->resume);

    if (!o->model)
        return is_missing(error, "--model");
    if (!o->data && !o->dry_run)
        return is_missing(error, "--data");
    if (o->least_learning_rate > o->learning_rate) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--min-lr %g must not exceed --lr %g", o->least_learning_rate,
                    o->learning_rate);
        return false;
    }
    if (o->plan && (o->policy || o->sized || o->layout || o->look_ahead))
        return refuse(error, "--plan", o->plan,
                      "already sets the policy, the chunks and the look-ahead; leave out the "
                      "options for them");
    if (o->prompt && !o->sample)
        return refuse(error, "--prompt", o->prompt,
                      "needs --sample, the number of tokens to write");
    if (o->layout && o->sized)
        return refuse(error, "--layout", o->layout,
                      "already sets the chunks; leave out --chunk-size");
    if ((o->h2d_rate > 0 || o->d2h_rate > 0) && o->device != &device_cpu)
        return refuse(error, "--device", o->device->name,
                      "has its own link; --link is for the CPU device only");
    return true;
}
