#include "cli/budgets.h"

#include "base/size.h"
#include "cli/options.h"
#include "sim/costs.h"
#include "sim/sizes.h"

#include <string.h>

/* One of the platform's two memories. */
struct platform_memory {
    const char *name; /* "device" */
    const char *reserved_for;
    uint64_t capacity, room;
    uint32_t ranks; /* that share it */
};

static struct platform_memory device_of(const struct budget_request *request)
{
    const struct platform *platform = request->platform;
    uint64_t library_bytes = request->trace ? request->trace->library_bytes : 0;
    return (struct platform_memory){"device", "the driver's context and libraries",
                                    platform->device_capacity,
                                    platform_device_room(platform, library_bytes), 1};
}

static struct platform_memory host_of(const struct budget_request *request)
{
    const struct platform *platform = request->platform;
    return (struct platform_memory){"host", "the system", platform->host_capacity,
                                    platform_host_room(platform), platform_host_ranks(platform)};
}

/* Notes that the platform's memory is the budget, and how it comes about. */
static void note_default(const struct budget_request *request, const struct platform_memory *memory)
{
    g_autofree char *room = size_format(memory->room), *capacity = size_format(memory->capacity);
    g_autoptr(GString) how = g_string_new(NULL);
    uint64_t reserved = memory->capacity - memory->room * memory->ranks;
    if (reserved >= memory->ranks) { /* more than the division left over */
        g_autofree char *less = size_format(reserved);
        g_string_append_printf(how, ", less %s for %s", less, memory->reserved_for);
    }
    if (memory->ranks > 1)
        g_string_append_printf(how, ", for %u ranks", memory->ranks);
    console_note(request->console, "budget of %s memory: %s. %s has %s%s", memory->name, room,
                 request->platform->name, capacity, how->str);
}

static void warn_of_excess(const struct budget_request *request,
                           const struct platform_memory *memory, uint64_t budget)
{
    if (budget <= memory->room)
        return;
    g_autofree char *room = size_format(memory->room);
    g_autofree char *asked = budget == UINT64_MAX ? g_strdup("unlimited") : size_format(budget);
    console_warn(request->console, "--%s-memory %s is more than the %s that %s has for a step",
                 memory->name, asked, room, request->platform->name);
}

static GArray *parse_device(const struct budget_request *request, GError **error)
{
    GArray *budgets;
    uint64_t bytes;
    if (request->trace) {
        budgets = sizes_parse_budgets(request->device_memory, request->trace, error);
        if (!budgets)
            g_prefix_error(error, "--device-memory: ");
        return budgets;
    }
    if (g_str_has_suffix(request->device_memory, "%")) {
        options_refuse(error,
                       "--device-memory %s: is a share of a TRACE's model data, which is "
                       "not given",
                       request->device_memory);
        return NULL;
    }
    if (!size_parse(request->device_memory, &bytes, error)) {
        g_prefix_error(error, "--device-memory: ");
        return NULL;
    }
    budgets = g_array_new(FALSE, FALSE, sizeof bytes);
    return g_array_append_val(budgets, bytes);
}

static GArray *read_device(const struct budget_request *request, GError **error)
{
    if (!request->device_memory && !request->platform) {
        options_refuse(error, "--device-memory or --platform is needed");
        return NULL;
    }
    if (!request->device_memory) {
        const struct platform_memory memory = device_of(request);
        GArray *budgets = g_array_new(FALSE, FALSE, sizeof memory.room);
        note_default(request, &memory);
        return g_array_append_val(budgets, memory.room);
    }
    GArray *budgets = parse_device(request, error);
    uint64_t most = 0;
    for (guint i = 0; budgets && i < budgets->len; i++)
        most = MAX(most, g_array_index(budgets, uint64_t, i));
    if (budgets && request->platform) {
        const struct platform_memory memory = device_of(request);
        warn_of_excess(request, &memory, most);
    }
    return budgets;
}

static bool read_host(const struct budget_request *request, uint64_t *budget, GError **error)
{
    const struct platform_memory memory = request->platform
                                              ? host_of(request)
                                              : (struct platform_memory){.room = UINT64_MAX};
    *budget = memory.room;
    if (!request->host_memory) {
        if (request->platform)
            note_default(request, &memory);
        return true;
    }
    if (strcmp(request->host_memory, "unlimited") == 0) {
        *budget = UINT64_MAX;
    } else if (!size_parse(request->host_memory, budget, error)) {
        g_prefix_error(error, "--host-memory: ");
        return false;
    }
    if (request->platform)
        warn_of_excess(request, &memory, *budget);
    return true;
}

/* Says what is assumed of a disk that nothing is known of (sim/costs.h). */
static void note_disk(const struct budget_request *request)
{
    const double giga = 1e9;
    const struct platform *platform = request->platform;
    struct platform_disk_way way;
    if (request->nvme_memory && !(platform && platform_disk_best(&platform->disk, &way)))
        console_note(request->console,
                     "%s what a disk gives (nvme): %g GB/s are assumed for reading and for writing",
                     platform ? "the platform does not say" : "no platform says",
                     COSTS_DEFAULT_NVME_RATE / giga);
}

GArray *budgets_read(const struct budget_request *request, uint64_t *host_budget, GError **error)
{
    GArray *budgets = read_device(request, error);
    if (budgets && !read_host(request, host_budget, error))
        g_clear_pointer(&budgets, g_array_unref);
    if (budgets)
        note_disk(request);
    return budgets;
}
