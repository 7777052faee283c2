#include "traces/records.h"

#include "tests/traces/random_trace.h"
#include "tests/traces/replace_file.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>

enum { EVENTS = 200, STRINGS = 20, SAMPLES = 30 };

struct fixture {
    char *folder, *path;
    GRand *random;
    struct record events[EVENTS];
    struct record_string strings[STRINGS];
    struct record_sample samples[SAMPLES];
    struct records records;
};

static uint64_t some(GRand *random, uint64_t below)
{
    return (((uint64_t)g_rand_int(random) << 32) | g_rand_int(random)) % below;
}

/* Makes any bits except those of NaN, which SQLite does not keep. */
static void add_payload(struct record *event, GRand *random)
{
    static const uint8_t bytes[] = {0, 8, 8, 8, 4, 4, 4};
    double real = g_rand_double(random);
    float single = (float)real;
    event->payload_type = (uint8_t)some(random, RECORD_FLOAT + 1);
    event->payload = some(random, UINT64_MAX);
    if (event->payload_type == RECORD_DOUBLE)
        memcpy(&event->payload, &real, sizeof real);
    if (event->payload_type == RECORD_FLOAT)
        memcpy(&event->payload, &single, sizeof single);
    if (bytes[event->payload_type] < 8)
        event->payload &= (UINT64_C(1) << (8 * bytes[event->payload_type])) - 1;
}

static void set_up(struct fixture *fixture, gconstpointer data)
{
    static const uint8_t types[] = {RECORD_CATEGORY, RECORD_MARK, RECORD_PUSH_POP, RECORD_START_END,
                                    RECORD_DOMAIN};
    (void)data;
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    fixture->folder = g_dir_make_tmp("pstar-records-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, "run.pstar", NULL);
    fixture->random = random;
    for (uint32_t i = 0; i < STRINGS; i++)
        fixture->strings[i] = (struct record_string){.id = 2 * i + 1,
                                                     .text = g_strdup_printf("Größe '%u'", i)};
    for (uint32_t i = 0; i < SAMPLES; i++)
        fixture->samples[i] = (struct record_sample){i, "resident_bytes", some(random, 1 << 30)};
    for (uint32_t i = 0; i < EVENTS; i++) {
        struct record *event = &fixture->events[i];
        *event = (struct record){
            .start_ns = 1000 + 10 * (uint64_t)i,
            .end_ns = some(random, 2) * (2000 + 10 * (uint64_t)i),
            .range_id = some(random, 100),
            .process = (uint32_t)some(random, 1 << 24),
            .thread = (uint32_t)some(random, 1 << 24),
            .domain = (uint32_t)some(random, 3),
            .category = (uint32_t)some(random, 5),
            .text = (uint32_t)some(random, 2 * STRINGS),
            .type = types[some(random, G_N_ELEMENTS(types))],
        };
        add_payload(event, random);
    }
    fixture->records = (struct records){
        .events = fixture->events,
        .event_count = EVENTS,
        .strings = fixture->strings,
        .string_count = STRINGS,
        .samples = fixture->samples,
        .sample_count = SAMPLES,
    };
}

static void tear_down(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (uint32_t i = 0; i < STRINGS; i++)
        g_free(fixture->strings[i].text);
    g_unlink(fixture->path);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->folder);
    g_free(fixture->path);
    g_rand_free(fixture->random);
}

static void write_all(const struct fixture *fixture, const struct trace *trace)
{
    GError *error = NULL;
    struct record_file *file = record_file_new(fixture->path, trace, &error);
    g_assert_no_error(error);
    record_file_add(file, &fixture->records, &error);
    g_assert_no_error(error);
    record_file_free(file);
}

static void assert_events_equal(const struct record *a, const struct record *b)
{
    g_assert_cmpuint(a->start_ns, ==, b->start_ns);
    g_assert_cmpuint(a->end_ns, ==, b->end_ns);
    g_assert_cmpuint(a->range_id, ==, b->range_id);
    g_assert_cmpuint(a->process, ==, b->process);
    g_assert_cmpuint(a->thread, ==, b->thread);
    g_assert_cmpuint(a->domain, ==, b->domain);
    g_assert_cmpuint(a->category, ==, b->category);
    g_assert_cmpuint(a->text, ==, b->text);
    g_assert_cmpuint(a->type, ==, b->type);
    g_assert_cmpuint(a->payload_type, ==, b->payload_type);
    if (a->payload_type != RECORD_NO_PAYLOAD)
        g_assert_cmpuint(a->payload, ==, b->payload);
}

static void test_round_trip(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    write_all(fixture, NULL);
    GError *error = NULL;
    struct records *back = records_read(fixture->path, &error);
    g_assert_no_error(error);
    g_assert_false(back->has_iteration);
    g_assert_cmpuint(back->event_count, ==, EVENTS);
    g_assert_cmpuint(back->string_count, ==, STRINGS);
    g_assert_cmpuint(back->sample_count, ==, SAMPLES);
    for (uint32_t i = 0; i < EVENTS; i++)
        assert_events_equal(&back->events[i], &fixture->events[i]);
    for (uint32_t i = 0; i < STRINGS; i++) {
        g_assert_cmpstr(records_text(back, 2 * i), ==, "");
        g_assert_cmpstr(records_text(back, 2 * i + 1), ==, fixture->strings[i].text);
    }
    g_assert_cmpstr(records_text(back, UINT32_MAX), ==, "");
    for (uint32_t i = 0; i < SAMPLES; i++) {
        g_assert_cmpuint(back->samples[i].time_ns, ==, fixture->samples[i].time_ns);
        g_assert_cmpstr(back->samples[i].counter, ==, fixture->samples[i].counter);
        g_assert_cmpuint(back->samples[i].value, ==, fixture->samples[i].value);
    }
    records_free(back);
}

static void test_complete(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 30);
    trace->partial = false;
    struct record_file *file = record_file_new(fixture->path, trace, NULL);
    struct trace *back = trace_read(fixture->path, NULL);
    g_assert_true(back->partial);
    trace_free(back);

    uint64_t *durations = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        durations[m] = trace->operators[m].duration_ns = some(fixture->random, 3);
    g_assert_true(record_file_complete(file, durations, trace->operator_count, false, NULL));
    record_file_free(file);
    back = trace_read(fixture->path, NULL);
    assert_traces_equal(trace, back);
    trace_free(back);
    g_free(durations);
    trace_free(trace);
}

/* Damaged files never crash the reader and are refused by name. */
static void test_damage(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 10);
    write_all(fixture, trace);
    trace_free(trace);
    char *whole;
    gsize length;
    g_assert_true(g_file_get_contents(fixture->path, &whole, &length, NULL));
    int refused = 0;
    for (int round = 0; round < 600; round++) {
        char *damaged = g_memdup2(whole, length);
        for (int i = g_rand_int_range(fixture->random, 1, 20); i > 0; i--)
            damaged[g_rand_int_range(fixture->random, 100, (gint32)length)] ^=
                (char)(1 << g_rand_int_range(fixture->random, 0, 8));
        replace_file(fixture->path, damaged, length);
        GError *error = NULL;
        struct records *records = records_read(fixture->path, &error);
        g_assert_true((records == NULL) == (error != NULL));
        if (error)
            g_assert_true(g_str_has_prefix(error->message, fixture->path));
        for (uint32_t i = 0; records && i < records->event_count; i++)
            g_assert_nonnull(records_text(records, records->events[i].text));
        refused += error != NULL;
        g_clear_error(&error);
        trace_verify(fixture->path, NULL);
        records_free(records);
        g_free(damaged);
    }
    g_test_message("%d of 600 damaged files refused", refused);
    g_assert_cmpint(refused, >, 0);
    g_free(whole);
}

static void test_verify(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = random_trace(fixture->random, 10);
    for (uint32_t i = 0; i < EVENTS; i++)
        fixture->events[i].end_ns = 0;
    write_all(fixture, trace);
    GError *error = NULL;
    trace_verify(fixture->path, &error);
    g_assert_no_error(error);
    fixture->events[7].end_ns = fixture->events[7].start_ns - 1;
    write_all(fixture, trace);
    g_assert_false(trace_verify(fixture->path, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "NVTX_EVENTS"));
    g_clear_error(&error);
    trace_free(trace);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/records/round-trip", test_round_trip);
    ADD("/records/complete", test_complete);
    ADD("/records/damage", test_damage);
    ADD("/records/verify", test_verify);
    return g_test_run();
}
