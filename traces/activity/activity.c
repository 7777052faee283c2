#include "traces/activity/activity.h"

#include <string.h>

bool kernel_is_collective(const char *short_name)
{
    return g_str_has_prefix(short_name, "nccl") && strstr(short_name, "Kernel");
}
