#include "tests/collect/device_fixture.h"

#include <string.h>

void set_up_fakes(struct fixture *fixture, gconstpointer data)
{
    g_setenv("LD_LIBRARY_PATH", FAKES, TRUE);
    g_setenv("FAKE", !data ? "" : (const char *)data, TRUE);
    set_up(fixture, data);
}

struct traced read_traced(const struct fixture *fixture)
{
    GError *error = NULL;
    struct traced traced = {.records = records_read(fixture->path, &error)};
    g_assert_no_error(error);
    traced.activity = activity_read(fixture->path, ACTIVITY_ALL, &error);
    g_assert_no_error(error);
    return traced;
}

void free_traced(struct traced *traced)
{
    records_free(traced->records);
    activity_free(traced->activity);
}

void assert_checked(struct fixture *fixture, const char *info_says)
{
    run_line(fixture, PROGRAM_DIR "/pstar-trace check %s", fixture->path);
    assert_exit(fixture, 0);
    run_line(fixture, PROGRAM_DIR "/pstar-trace info %s", fixture->path);
    assert_exit(fixture, 0);
    if (!strstr(fixture->output, info_says))
        g_error("'%s' does not say '%s'", fixture->output, info_says);
}

uint32_t count_kernels(const struct traced *traced, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < traced->activity->kernel_count; i++)
        count += strcmp(records_text(traced->records, traced->activity->kernels[i].short_name),
                        name) == 0;
    return count;
}
