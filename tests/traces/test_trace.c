#include "tests/traces/random_trace.h"

/* Two tensors in bf16 with master copies, four operators, two buffers: small enough to reason
 * about. */
static struct trace *small_trace(void)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->precision = g_strdup("bf16");
    trace->batch = 2;
    trace->sequence = 8;
    trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = 2;
    trace->list_element_bytes[TRACE_MASTER] = 4;
    trace->tensor_count = 2;
    trace->tensors = g_new0(struct trace_tensor, 2);
    trace->tensors[0] = (struct trace_tensor){.name = g_strdup("wte"), .elements = 100};
    trace->tensors[1] = (struct trace_tensor){.name = g_strdup("w"), .elements = 10};
    trace->operator_count = 4;
    trace->operators = g_new0(struct trace_operator, 4);
    static const char *const names[] = {"forward wte", "forward w", "backward w", "update w"};
    for (uint32_t m = 0; m < 4; m++)
        trace->operators[m] = (struct trace_operator){
            .name = g_strdup(names[m]), .layer = -1, .first_access = m, .access_count = 1};
    trace->access_count = 4;
    trace->accesses = g_new0(struct trace_access, 4);
    trace->accesses[0] = (struct trace_access){.tensor = 0};
    trace->accesses[1] = (struct trace_access){.tensor = 1};
    trace->accesses[2] = (struct trace_access){.tensor = 1, .mode = TRACE_OVERWRITE};
    trace->accesses[3] =
        (struct trace_access){.tensor = 1, .list = TRACE_MASTER, .mode = TRACE_UPDATE};
    trace->buffer_count = 2;
    trace->buffers = g_new0(struct trace_buffer, 2);
    trace->buffers[0] =
        (struct trace_buffer){.name = g_strdup("x"), .bytes = 64, .first = 0, .last = 2};
    trace->buffers[1] =
        (struct trace_buffer){.name = g_strdup("y"), .bytes = 7, .first = 1, .last = 1};
    trace_sum_buffers(trace);
    return trace;
}

static void test_sums(void)
{
    struct trace *trace = small_trace();
    g_assert_cmpuint(trace->non_model_bytes[0], ==, 64);
    g_assert_cmpuint(trace->non_model_bytes[1], ==, 71);
    g_assert_cmpuint(trace->non_model_bytes[2], ==, 64);
    g_assert_cmpuint(trace->non_model_bytes[3], ==, 0);
    g_assert_cmpuint(trace_model_bytes(trace), ==, 660);
    trace_free(trace);
}

static void test_random_traces_are_valid(void)
{
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    for (int i = 0; i < 300; i++) {
        struct trace *trace = random_trace(random, 50);
        GError *error = NULL;
        trace_check(trace, "random", &error);
        g_assert_no_error(error);
        g_autofree uint8_t *held = trace_held_buffers(trace);
        for (uint32_t m = 0; trace->buffer_count > 0 && m < trace->operator_count; m++) {
            uint64_t alive = 0;
            for (uint32_t b = 0; b < trace->buffer_count; b++)
                if (trace->buffers[b].first <= m && m <= trace->buffers[b].last &&
                    !(held && held[b]))
                    alive += trace->buffers[b].bytes;
            g_assert_cmpuint(trace->non_model_bytes[m], ==, alive);
        }
        trace_free(trace);
    }
    g_rand_free(random);
}

/* Takes ownership of the trace. */
static void assert_refused(struct trace *trace, const char *where)
{
    GError *error = NULL;
    g_assert_false(trace_check(trace, "file.pstar", &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, "file.pstar: "));
    if (!strstr(error->message, where))
        g_error("'%s' does not name '%s'", error->message, where);
    g_error_free(error);
    trace_free(trace);
}

#define REFUSED(where, ...)              \
    do {                                 \
        struct trace *t = small_trace(); \
        __VA_ARGS__;                     \
        assert_refused(t, where);        \
    } while (0)

/* Makes the moment's access one of a buffer. */
static void hold(struct trace *trace, uint32_t moment, uint32_t buffer, enum trace_mode mode)
{
    trace->accesses[moment] = (struct trace_access){buffer, TRACE_ACTIVATION, (uint8_t)mode, 0};
}

static void test_refusals(void)
{
    struct trace *ok = small_trace();
    g_assert_true(trace_check(ok, "", NULL));
    hold(ok, 0, 0, TRACE_OVERWRITE);
    hold(ok, 2, 0, TRACE_READ);
    trace_sum_buffers(ok);
    g_assert_cmpuint(ok->non_model_bytes[1], ==, 7);
    g_assert_true(trace_check(ok, "", NULL));
    trace_free(ok);

    REFUSED("batch", t->batch = 0);
    REFUSED("sequence", t->sequence = 0);
    REFUSED("micro_batches", t->micro_batches = 0);
    REFUSED("ranks", t->ranks = 2);
    REFUSED("ranks", t->ranks = UINT32_MAX, t->micro_batches = UINT32_MAX);
    REFUSED("shared_parameters", t->shared_parameters = true);
    REFUSED("operators: row 2", t->operators[2].exchange[TRACE_REDUCE].sent_bytes = 1);
    REFUSED("operators: row 2", t->ranks = t->micro_batches = 2,
            t->operators[2].exchange[TRACE_GATHER].received_bytes = UINT64_C(1) << 60);
    REFUSED("list exp_avg", t->list_element_bytes[TRACE_EXP_AVG] = 9);
    REFUSED("library_bytes", t->library_bytes = UINT64_MAX);
    REFUSED("tensors: row 1", t->tensors[1].elements = 0);
    REFUSED("tensors: row 1", t->tensors[1].elements = UINT64_MAX / 2);
    REFUSED("tensors: row 1", g_free(t->tensors[1].name), t->tensors[1].name = NULL);
    REFUSED("tensors: row 1", g_free(t->tensors[1].name), t->tensors[1].name = g_strdup("wte"));
    REFUSED("operators: row 2", t->operators[2].name[0] = '\0');
    REFUSED("operators: row 2", t->operators[2].phase = 3);
    REFUSED("operators: row 2", t->operators[2].place = 2);
    REFUSED("operators: row 2", t->operators[2].layer = -2);
    REFUSED("operators: row 2", t->operators[2].micro_batch = 1);
    REFUSED("operators: row 2", t->operators[2].first_access = 1);
    REFUSED("operators: row 2", t->operators[2].access_count = UINT32_MAX);
    REFUSED("operators: row 2", t->operators[2].h2d_bytes = 1);
    REFUSED("operators: row 2", t->operators[2].duration_ns = UINT64_MAX);
    REFUSED("accesses: row 3", t->operators[3].access_count = 0);
    REFUSED("accesses: row 1", t->accesses[1].tensor = 2);
    REFUSED("accesses: row 1", t->accesses[1].list = TRACE_LISTS);
    REFUSED("accesses: row 1", t->accesses[1].list = TRACE_GRAD);
    REFUSED("accesses: row 1", t->accesses[1].mode = 3);
    REFUSED("accesses: row 1", hold(t, 1, 2, TRACE_OVERWRITE));
    REFUSED("accesses: row 1", hold(t, 1, 1, TRACE_READ));
    REFUSED("accesses: row 1", hold(t, 1, 1, TRACE_OVERWRITE),
            t->operators[1].place = TRACE_ON_HOST);
    REFUSED("accesses: row 2", hold(t, 1, 1, TRACE_OVERWRITE), hold(t, 2, 1, TRACE_READ));
    REFUSED("accesses: row 2", hold(t, 0, 0, TRACE_OVERWRITE), hold(t, 2, 0, TRACE_OVERWRITE));
    REFUSED("buffers: row 0", hold(t, 0, 0, TRACE_OVERWRITE), hold(t, 1, 0, TRACE_READ));
    REFUSED("buffers: row 0", hold(t, 2, 0, TRACE_READ));
    REFUSED("moments: row 0", hold(t, 0, 0, TRACE_OVERWRITE), hold(t, 2, 0, TRACE_READ));
    REFUSED("accesses: row 1", t->operators[0].access_count = 2, t->operators[1].first_access = 2,
            t->operators[1].access_count = 0, t->accesses[1].tensor = 0);
    REFUSED("state_block cuts no tensor", t->state_block = 1024);
    REFUSED("state_block", t->state_block = 1000, t->tensors[0].elements = 1 << 20);
    REFUSED("more than 4096 blocks", t->state_block = 1024, t->tensors[0].elements = 1 << 23);
    REFUSED("ranks", t->state_block = 1024, t->tensors[0].elements = 1 << 20,
            t->ranks = t->micro_batches = 2);
    REFUSED("accesses: row 0", t->state_block = 1024, t->tensors[0].elements = 1 << 20,
            t->accesses[0].block = 1); /* a parameter is whole */
    REFUSED("accesses: row 3", t->state_block = 1024, t->tensors[1].elements = 5 << 10,
            t->accesses[3].block = 5);
    REFUSED("accesses: row 3", t->accesses[3].block = 1);
    REFUSED("buffers: row 0", t->buffers[0].bytes = 0);
    REFUSED("buffers: row 0", t->buffers[0].bytes = UINT64_MAX);
    REFUSED("buffers: row 0", t->buffers[0].first = 3);
    REFUSED("buffers: row 0", t->buffers[0].last = 4);
    REFUSED("moments: row 1", t->non_model_bytes[1] = 70);
    REFUSED("moments", g_clear_pointer(&t->non_model_bytes, g_free));
}

static void assert_digest(struct trace *trace, const char *digest, bool equal)
{
    char *own = trace_digest(trace);
    if (equal)
        g_assert_cmpstr(own, ==, digest);
    else
        g_assert_cmpstr(own, !=, digest);
    g_free(own);
    trace_free(trace);
}

#define DIGEST(equal, ...)               \
    do {                                 \
        struct trace *t = small_trace(); \
        __VA_ARGS__;                     \
        assert_digest(t, digest, equal); \
    } while (0)

static void test_digest(void)
{
    struct trace *trace = small_trace();
    char *digest = trace_digest(trace);
    trace_free(trace);
    /* Computed by digest.py, an independent implementation. */
    g_assert_cmpstr(digest, ==, "bf5265292c448bed3d12a4d5e5d287ada40d29be165beb959e3a82340989474e");

    DIGEST(true, t->operators[1].duration_ns = 5);
    DIGEST(true, t->operators[1].flops = 5);
    DIGEST(true, t->machine = g_strdup("other"), t->producer = g_strdup("other"));
    DIGEST(true, t->estimated = true, t->partial = true, t->library_bytes = 1);
    DIGEST(false, t->precision[0] = 'c');
    DIGEST(false, t->batch = 3);
    DIGEST(false, t->sequence = 9);
    DIGEST(false, t->micro_batches = 2);
    DIGEST(false, t->list_element_bytes[TRACE_GRAD] = 4);
    DIGEST(false, t->tensors[0].elements = 101);
    DIGEST(false, t->tensors[0].name[0] = 'v');
    DIGEST(false, t->operators[3].name[0] = 'U');
    DIGEST(false, t->operators[3].place = TRACE_ON_HOST);
    DIGEST(false, t->accesses[3].mode = TRACE_READ);
    DIGEST(false, t->accesses[1].tensor = 0);
    DIGEST(false, t->state_block = 1024);
    DIGEST(false, t->buffers[1].bytes = 8);
    DIGEST(false, t->buffers[0].last = 3);
    g_free(digest);
}

static void test_names(void)
{
    g_assert_cmpstr(trace_list_name(TRACE_EXP_AVG_SQ), ==, "exp_avg_sq");
    g_assert_cmpstr(trace_mode_name(TRACE_OVERWRITE), ==, "overwrite");
    g_assert_cmpstr(trace_phase_name(TRACE_UPDATE_PHASE), ==, "update");
    g_assert_cmpstr(trace_place_name(TRACE_ON_HOST), ==, "host");
    uint8_t number = 9;
    for (uint8_t list = 0; list < TRACE_LISTS; list++) {
        g_assert_true(trace_list_parse(trace_list_name((enum trace_list)list), &number));
        g_assert_cmpuint(number, ==, list);
    }
    g_assert_false(trace_list_parse("weights", &number));
    g_assert_cmpuint(number, ==, TRACE_LISTS - 1);
    g_assert_true(trace_mode_parse("update", &number) && number == TRACE_UPDATE);
    g_assert_true(trace_phase_parse("update", &number) && number == TRACE_UPDATE_PHASE);
    g_assert_true(trace_place_parse("host", &number) && number == TRACE_ON_HOST);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace/sums", test_sums);
    g_test_add_func("/trace/random-are-valid", test_random_traces_are_valid);
    g_test_add_func("/trace/refusals", test_refusals);
    g_test_add_func("/trace/digest", test_digest);
    g_test_add_func("/trace/names", test_names);
    return g_test_run();
}
