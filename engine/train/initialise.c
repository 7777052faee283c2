#include "engine/train/initialise.h"

#include "engine/random.h"

#include <math.h>
#include <string.h>

static void fill(float value, uint64_t count, float *values)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = value;
}

void initialise_values(const struct model_config *config, uint64_t seed, uint32_t tensor,
                       const char *name, uint64_t first, uint64_t count, float *values)
{
    if (g_str_has_suffix(name, ".bias")) {
        fill(0.0f, count, values);
    } else if (strstr(name, "ln_")) {
        fill(1.0f, count, values);
    } else {
        double deviation = config->initializer_range;
        if (g_str_has_suffix(name, ".c_proj.weight"))
            deviation /= sqrt(2.0 * config->layers);
        struct random_stream stream = {.seed = seed, .pass = 0, .site = tensor};
        random_normal(&stream, first, count, deviation, values);
    }
}
