#include "tests/traces/random_activity.h"

static uint32_t below(GRand *random, uint32_t most)
{
    return (uint32_t)g_rand_int_range(random, 0, (gint32)most);
}

static uint64_t wide(GRand *random)
{
    return ((uint64_t)g_rand_int(random) << 31) ^ g_rand_int(random);
}

/* Returns growing times, large enough to need 64 bits. */
static uint64_t later(GRand *random, uint64_t *now)
{
    return *now += below(random, 3) == 0 ? 0 : below(random, 5000);
}

static uint32_t string(GRand *random)
{
    return 1 + below(random, RANDOM_ACTIVITY_STRINGS);
}

#define NEW(count, type) (type *)g_new0(type, count)
#define IN_STREAM(record)                            \
    (record)->start_ns = later(random, &now);        \
    (record)->end_ns = now + below(random, 10000);   \
    (record)->device = below(random, 2);             \
    (record)->context = below(random, 3);            \
    (record)->stream = g_rand_int(random);           \
    (record)->process = 1 + below(random, 0xffffff); \
    (record)->correlation = below(random, calls) + 1

/* Sets the fields one by one, so that padding stays 0 and records can be compared as bytes. */
static void add_kernels(struct activity *activity, uint32_t calls, GRand *random, uint64_t now)
{
    activity->kernels = NEW(activity->kernel_count, struct kernel_record);
    activity->launches = NEW(activity->kernel_count, struct launch_record);
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        struct kernel_record *kernel = &activity->kernels[i];
        struct launch_record *launch = &activity->launches[i];
        IN_STREAM(kernel);
        kernel->name = string(random);
        kernel->short_name = string(random);
        launch->grid_id = wide(random);
        launch->graph_node = below(random, 2) * wide(random);
        launch->local_bytes = wide(random);
        launch->mangled_name = below(random, 2) * string(random);
        launch->registers = below(random, 256);
        launch->static_shared_bytes = below(random, 1 << 16);
        launch->dynamic_shared_bytes = g_rand_int(random);
        launch->thread_local_bytes = below(random, 1 << 10);

        for (int d = 0; d < 3; d++) {
            launch->grid[d] = g_rand_int(random);
            launch->block[d] = 1 + below(random, 1024);
        }
    }
}

static void add_copies(struct activity *activity, uint32_t calls, GRand *random, uint64_t now)
{
    activity->copies = NEW(activity->copy_count, struct copy_record);
    for (uint32_t i = 0; i < activity->copy_count; i++) {
        struct copy_record *copy = &activity->copies[i];
        IN_STREAM(copy);
        copy->bytes = below(random, 1 << 30);
        copy->graph_node = below(random, 2) * wide(random);
        copy->kind = below(random, COPY_KINDS);
        copy->source = below(random, MEMORY_KINDS);
        copy->destination = below(random, MEMORY_KINDS);
        copy->source_device = below(random, 2);
        copy->target_device = below(random, 2);
        copy->source_context = below(random, 2);
        copy->target_context = below(random, 2);
    }
}

static void add_sets(struct activity *activity, uint32_t calls, GRand *random, uint64_t now)
{
    activity->sets = NEW(activity->set_count, struct set_record);
    for (uint32_t i = 0; i < activity->set_count; i++) {
        struct set_record *set = &activity->sets[i];
        IN_STREAM(set);
        set->bytes = below(random, 1 << 30);
        set->value = g_rand_int(random);
        set->memory = below(random, MEMORY_KINDS);
        set->graph_node = below(random, 2) * wide(random);
    }
}

static void add_syncs(struct activity *activity, uint32_t calls, GRand *random, uint64_t now)
{
    activity->syncs = NEW(activity->sync_count, struct sync_record);
    for (uint32_t i = 0; i < activity->sync_count; i++) {
        struct sync_record *sync = &activity->syncs[i];
        IN_STREAM(sync);
        sync->type = below(random, SYNC_TYPES);
        sync->event = g_rand_int(random);
    }
}

static void add_calls(struct activity *activity, GRand *random, uint64_t now)
{
    activity->calls = NEW(activity->call_count, struct call_record);
    for (uint32_t i = 0; i < activity->call_count; i++)
        activity->calls[i] = (struct call_record){.start_ns = later(random, &now),
                                                  .end_ns = now + below(random, 1000),
                                                  .process = below(random, 1 << 24),
                                                  .thread = below(random, 1 << 24),
                                                  .correlation = i + 1,
                                                  .call_class = below(random, CALL_CLASSES),
                                                  .name = string(random),
                                                  .result = below(random, 1000)};
    activity->overheads = NEW(activity->overhead_count, struct overhead_record);
    for (uint32_t i = 0; i < activity->overhead_count; i++) {
        struct overhead_record *overhead = &activity->overheads[i];
        overhead->start_ns = later(random, &now);
        overhead->end_ns = now + below(random, 1000);
        overhead->process = below(random, 1 << 24);
        overhead->thread = below(random, 1 << 24);
        overhead->correlation = below(random, 3);
        overhead->type = below(random, 5);
        overhead->name = below(random, 2) * string(random);
    }
}

/* Uses each address once, so that an allocation is freed by the event that names it. */
static void add_memory(struct activity *activity, uint32_t calls, GRand *random, uint64_t now)
{
    activity->memory = NEW(activity->memory_count, struct memory_record);
    for (uint32_t i = 0; i < activity->memory_count; i++) {
        struct memory_record *memory = &activity->memory[i];
        memory->start_ns = later(random, &now);
        memory->address = UINT64_C(0x7f0000000000) + ((uint64_t)i << 9);
        memory->bytes = below(random, 1 << 30);
        memory->caller = wide(random);
        memory->pool_address = below(random, 2) * wide(random);
        memory->pool_bytes = below(random, 2) * wide(random);
        memory->pool_used_bytes = below(random, 2) * wide(random);
        memory->pool_release_bytes = below(random, 2) * wide(random);
        memory->device = below(random, 2);
        memory->context = below(random, 3);
        memory->stream = g_rand_int(random);
        memory->process = below(random, 1 << 24);
        memory->correlation = 1 + below(random, calls);
        memory->kind = below(random, MEMORY_KINDS);
        memory->operation = below(random, MEMORY_OPERATIONS);
    }
}

static void add_pools(struct activity *activity, uint32_t calls, GRand *random, uint64_t now)
{
    activity->pools = NEW(activity->pool_count, struct pool_record);
    for (uint32_t i = 0; i < activity->pool_count; i++)
        activity->pools[i] = (struct pool_record){.start_ns = later(random, &now),
                                                  .address = wide(random),
                                                  .kept_bytes = below(random, 2) * wide(random),
                                                  .release_bytes = below(random, 2) * wide(random),
                                                  .bytes = below(random, 2) * wide(random),
                                                  .used_bytes = below(random, 2) * wide(random),
                                                  .device = below(random, 2),
                                                  .process = below(random, 1 << 24),
                                                  .correlation = 1 + below(random, calls),
                                                  .operation = below(random, POOL_OPERATIONS),
                                                  .type = below(random, POOL_TYPES)};
}

static void add_correlations(struct activity *activity, uint32_t calls, GRand *random)
{
    activity->correlations = NEW(activity->correlation_count, struct correlation_record);
    for (uint32_t i = 0; i < activity->correlation_count; i++)
        activity->correlations[i] =
            (struct correlation_record){.range = wide(random),
                                        .correlation = 1 + below(random, calls),
                                        .kind = below(random, 6)};
}

struct activity *random_activity(GRand *random, uint32_t most)
{
    struct activity *activity = g_new0(struct activity, 1);
    uint32_t *counts[] = {
        &activity->kernel_count, &activity->copy_count, &activity->set_count,
        &activity->sync_count,   &activity->call_count, &activity->overhead_count,
        &activity->memory_count, &activity->pool_count, &activity->correlation_count};
    uint64_t now = UINT64_C(1700000000000000000);
    for (size_t i = 0; i < G_N_ELEMENTS(counts); i++)
        *counts[i] = 1 + below(random, most);
    activity->gpu_count = 2;
    activity->gpus = NEW(activity->gpu_count, struct gpu_record);
    for (uint32_t i = 0; i < activity->gpu_count; i++)
        activity->gpus[i] = (struct gpu_record){.id = i,
                                                .multiprocessors = below(random, 200),
                                                .memory_bytes = wide(random),
                                                .name = g_strdup_printf("Gerät '%u'", i),
                                                .uuid = i == 0 ? g_strdup("GPU-1") : NULL};
    add_calls(activity, random, now);
    add_kernels(activity, activity->call_count, random, now);
    add_copies(activity, activity->call_count, random, now);
    add_sets(activity, activity->call_count, random, now);
    add_syncs(activity, activity->call_count, random, now);
    add_memory(activity, activity->call_count, random, now);
    add_pools(activity, activity->call_count, random, now);
    add_correlations(activity, activity->call_count, random);
    activity->dropped = below(random, 2) * wide(random);
    activity->unfinished = below(random, 2) * wide(random);
    activity->untimed = below(random, 2) * wide(random);
    activity->unreadable = below(random, 2) * wide(random);
    activity->chosen_calls = below(random, 2) == 1;
    return activity;
}

struct record_string *random_activity_strings(void)
{
    struct record_string *strings = g_new(struct record_string, RANDOM_ACTIVITY_STRINGS);
    for (uint32_t i = 0; i < RANDOM_ACTIVITY_STRINGS; i++)
        strings[i] = (struct record_string){i + 1, g_strdup_printf("void k%u<float>(int*)", i)};
    return strings;
}

void random_activity_strings_free(struct record_string *strings)
{
    for (uint32_t i = 0; i < RANDOM_ACTIVITY_STRINGS; i++)
        g_free(strings[i].text);
    g_free(strings);
}
