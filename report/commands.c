#include "report/commands.h"

#include "report/text.h"

char *command_trace(const struct inputs *inputs)
{
    if (inputs->traces->len)
        return text_shell(((const struct input_trace *)g_ptr_array_index(inputs->traces, 0))->path);
    for (guint s = 0; s < inputs->sweeps->len; s++) {
        const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, s);
        if (sweep->trace)
            return text_shell(sweep->trace);
    }
    return g_strdup("run.pstar");
}

char *command_platform(const struct inputs *inputs)
{
    return inputs->platform_path ? text_shell(inputs->platform_path) : g_strdup("machine.json");
}

char *command_plan(const struct inputs *inputs)
{
    if (!inputs->plans->len)
        return g_strdup("plan.json");
    return text_shell(((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))->path);
}

/* 0: not said, or unlimited. */
static uint64_t limited(uint64_t bytes)
{
    return bytes == UINT64_MAX ? 0 : bytes;
}

static uint64_t memory_of(const struct inputs *inputs)
{
    if (inputs->plans->len)
        return limited(((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))
                           ->configuration.device_bytes);
    for (guint i = 0; i < inputs->strips->len; i++) {
        const struct strips *strips = g_ptr_array_index(inputs->strips, i);
        if (!strips->measured)
            return limited(strips->configuration.device_bytes);
    }
    return 0;
}

char *command_memory(const struct inputs *inputs)
{
    uint64_t bytes = memory_of(inputs);
    return bytes ? g_strdup_printf("%" G_GUINT64_FORMAT, bytes) : g_strdup("SIZE");
}
