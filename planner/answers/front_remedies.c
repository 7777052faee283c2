#include "base/size.h"
#include "planner/answers/front.h"
#include "platforms/shipped.h"

#include <string.h>

enum { MOST_PLATFORMS = 5, LEAST_SEQUENCE = 128, MOST_GPUS = 1024 };

/* Takes ownership of the texts. */
static void add(struct front *front, char *option, char *gain)
{
    struct front_remedy *remedy = g_new(struct front_remedy, 1);
    *remedy = (struct front_remedy){option, gain};
    g_ptr_array_add(front->remedies, remedy);
}

/* ---- a smaller step ---- */

/* Halves one of the step's numbers until the step fits. */
static bool halve(struct front_step *step, uint32_t *number, uint32_t least)
{
    while (*number / 2 >= least) {
        *number /= 2;
        if (front_fits(step))
            return true;
    }
    return false;
}

static void shrink_step(struct front *front)
{
    struct front_step smaller = front->step;
    if (halve(&smaller, &smaller.batch, 1)) {
        add(front, g_strdup_printf("--batch %u", smaller.batch), NULL);
        return;
    }
    smaller = front->step;
    smaller.batch = 1;
    if (halve(&smaller, &smaller.sequence, LEAST_SEQUENCE))
        add(front, g_strdup_printf("--batch 1 --seq %u", smaller.sequence), NULL);
}

/* ---- more memory ---- */

/* Returns GiB, or MiB for less than one. */
static uint64_t unit_of(uint64_t bytes)
{
    return bytes >> 30 ? UINT64_C(1) << 30 : UINT64_C(1) << 20;
}

static uint64_t round_to_unit(uint64_t bytes)
{
    uint64_t unit = unit_of(bytes);
    return (bytes + unit - 1) / unit * unit;
}

/* Returns the least host memory, in whole GiB (or MiB below one), with which the step fits on this
 * device, or UINT64_MAX. */
static uint64_t least_host(const struct front_step *step)
{
    const uint64_t most = UINT64_C(1) << 46;
    struct search_options search = *step->search;
    struct front_step on_host = *step;
    on_host.search = &search;
    search.host_budget = UINT64_MAX;
    if (!front_fits(&on_host))
        return UINT64_MAX;
    uint64_t low = step->search->host_budget, high = most;
    uint64_t unit = unit_of(low);
    while (high - low > unit) {
        search.host_budget = low + (high - low) / 2;
        if (front_fits(&on_host))
            high = search.host_budget;
        else
            low = search.host_budget;
    }
    return (high + unit - 1) / unit * unit;
}

static void extend_host(struct front *front)
{
    uint64_t bytes = least_host(&front->step);
    if (bytes == UINT64_MAX)
        return;
    g_autofree char *size = size_exact(bytes);
    g_autofree char *more = size_format(bytes - front->step.search->host_budget);
    add(front, g_strdup_printf("--host-memory %s", size),
        g_strdup_printf("%s more%s", more, front->step.ranks > 1 ? " for each GPU" : ""));
}

/* Offers NVMe, or more of it, if a strategy or a policy trains with it. */
static void extend_nvme(struct front *front)
{
    const double giga = 1e9;
    const struct search_options *search = front->step.search;
    struct platform_disk_way disk;
    struct front_way way;
    if (!platform_disk_best(&search->platform->disk, &disk) || search->host_budget == UINT64_MAX)
        return;
    front_find_tiered(front, &way);
    uint64_t bytes = round_to_unit(way.figures.peak_nvme_bytes);
    if (way.fits && bytes > front->step.nvme_bytes) {
        g_autofree char *size = size_exact(bytes);
        add(front, g_strdup_printf("--nvme-memory %s", size),
            g_strdup_printf("a step then takes at most %.3g s, with a disk of %.3g and %.3g GB/s",
                            way.figures.iteration_seconds, disk.bytes_per_second[0] / giga,
                            disk.bytes_per_second[1] / giga));
    }
}

/* Rounds to whole GiB, or MiB or KiB where that would be much more. */
static uint64_t round_up(uint64_t bytes)
{
    enum { MANY = 100 };
    uint64_t unit = UINT64_C(1) << 30;
    while (unit > 1024 && bytes < MANY * unit)
        unit /= 1024;
    return (bytes + unit - 1) / unit * unit;
}

static void extend_device(struct front *front)
{
    struct search_options search = *front->step.search;
    struct front_step step = front->step;
    step.search = &search;
    uint64_t bytes = front_least_bytes(&step);
    if (bytes == UINT64_MAX || bytes <= search.device_budget)
        return;
    bytes = round_up(bytes);
    g_autofree char *size = size_exact(bytes);
    g_autofree char *more = size_format(bytes - search.device_budget);
    add(front, g_strdup_printf("--device-memory %s", size), g_strdup_printf("%s more", more));
}

/* ---- other machines ---- */

static bool fits_on(const struct front_step *step, const struct platform *platform,
                    const struct costs *costs, uint64_t host_budget)
{
    struct search_options search = *step->search;
    struct front_step there = *step;
    there.search = &search;
    search.platform = platform;
    search.costs = costs;
    search.device_budget = platform_device_room(platform, 0);
    search.host_budget = host_budget;
    return front_fits(&there);
}

static void add_gpus(struct front *front, const struct question *question)
{
    for (uint32_t gpus = 2 * front->step.ranks; gpus <= MOST_GPUS; gpus *= 2) {
        struct platform *platform;
        struct costs *costs;
        struct front_step step = front->step;
        if (!question_read_machine(question, gpus, 0, &platform, &costs, NULL))
            return;
        step.ranks = gpus;
        step.stage = 3;
        bool enough = platform_knows_exchanges(platform) &&
                      fits_on(&step, platform, costs,
                              question->host_given ? front->step.search->host_budget
                                                   : platform_host_room(platform));
        platform_free(platform);
        costs_free(costs);
        if (enough) {
            add(front, g_strdup_printf("--gpus %u", gpus), NULL);
            return;
        }
    }
}

struct machine {
    char *name;
    struct platform *platform;
    struct costs *costs;
};

static void machine_free(void *data)
{
    struct machine *machine = data;
    g_free(machine->name);
    platform_free(machine->platform);
    costs_free(machine->costs);
    g_free(machine);
}

static int by_device(const void *left, const void *right)
{
    const struct machine *a = *(struct machine *const *)left, *b = *(struct machine *const *)right;
    uint64_t l = a->platform->device_capacity, r = b->platform->device_capacity;
    return l != r ? (l > r) - (l < r) : strcmp(a->name, b->name);
}

/* Returns the shipped platforms that have so many GPUs, by their device memory. */
static GPtrArray *list_machines(uint32_t ranks)
{
    GPtrArray *machines = g_ptr_array_new_with_free_func(machine_free);
    g_auto(GStrv) names = platform_shipped_names();
    for (char **name = names; *name; name++) {
        g_autofree char *path = platform_shipped_path(*name);
        struct machine *machine = g_new0(struct machine, 1);
        machine->name = g_strdup(*name);
        machine->platform = platform_read(path, NULL);
        bool serves = machine->platform &&
                      (ranks == 1 || (machine->platform->node.gpus >= ranks &&
                                      platform_spread_ranks(machine->platform, ranks, 0, NULL))) &&
                      (machine->costs = costs_new(machine->platform, NULL, NULL));
        if (serves)
            g_ptr_array_add(machines, machine);
        else
            machine_free(machine);
    }
    g_ptr_array_sort(machines, by_device);
    return machines;
}

/* Returns what must be left out for a platform's own memory to count, or NULL. Static text. */
static const char *given_budgets(const struct question *question)
{
    if (question->device_given && question->host_given)
        return "without --device-memory and --host-memory";
    if (question->device_given)
        return "without --device-memory";
    return question->host_given ? "without --host-memory" : NULL;
}

/* Returns whether the machine has no more memory than the step was refused with. */
static bool offers_no_more(const struct front_step *step, const struct platform *platform)
{
    return platform_device_room(platform, 0) <= step->search->device_budget &&
           platform_host_room(platform) <= step->search->host_budget;
}

static void add_platforms(struct front *front, const struct question *question)
{
    g_autoptr(GPtrArray) machines = list_machines(front->step.ranks);
    g_autoptr(GString) names = g_string_new(NULL);
    guint found = 0;
    for (guint i = 0; i < machines->len && found < MOST_PLATFORMS; i++) {
        const struct machine *machine = g_ptr_array_index(machines, i);
        if (offers_no_more(&front->step, machine->platform) ||
            !fits_on(&front->step, machine->platform, machine->costs,
                     platform_host_room(machine->platform)))
            continue;
        g_string_append_printf(names, "%s%s", found ? ", " : "", machine->name);
        found++;
    }
    if (found)
        add(front, g_strdup_printf("--platform %s", names->str), g_strdup(given_budgets(question)));
}

void front_find_remedies(struct front *front, const struct question *question)
{
    if (front->step.given)
        add(front, g_strdup("in the script"),
            g_strdup(front->step.choices & RUN_RECOMPUTE
                         ? "a smaller batch"
                         : "a smaller batch, or checkpointing (torch.utils.checkpoint)"));
    else
        shrink_step(front);
    extend_host(front);
    extend_nvme(front);
    extend_device(front);
    add_gpus(front, question);
    add_platforms(front, question);
}
