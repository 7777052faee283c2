#include "collect/declarations.h"

static const struct {
    const char *text;
    uint64_t payload;
} good[] = {
    {"meta model gpt2 1x8", 0},
    {"meta precision fp32", 0},
    {"meta batch", 2},
    {"meta sequence", 8},
    {"meta micro_batches", 2},
    {"meta library_bytes", 0},
    {"meta element_bytes_param", 4},
    {"tensor 64 wte", 0},
    {"tensor 8 h.0.ln_1.weight", 1},
    {"operator forward host -1 0 10 20 30 40 forward wte", 0},
    {"access 0 param read", 0},
    {"operator backward device 0 0 11 21 0 0 backward h.0.ln_1", 1},
    {"access 1 param update", 1},
    {"exchange 1 reduce 50", 60},
    {"buffer 512 0 1 1 77 h.0.x", 0},
    {"fused 0", 2},
    {"meta unknown FLOPs", 0},
    {"meta unknown of some", 0},
    {"meta ranks", 2},
    {"meta shared_parameters", 0},
    {"meta whole_gradients", 1},
    {"meta whole_states", 1},
    {"use 0 use", 0},
    {"declared 2 2 2 1", 0},
};

/* Makes the valid declarations, with `text` and `payload` instead of number `replaced`. */
static struct trace *declare(size_t replaced, const char *text, uint64_t payload, GError **error)
{
    struct declarations *declarations = declarations_new();
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        if (i != replaced)
            declarations_add(declarations, good[i].text, good[i].payload);
        else if (text)
            declarations_add(declarations, text, payload);
    struct declared declared;
    struct trace *trace = declarations_take(declarations, &declared, error);
    g_assert_true(trace || (!declared.fused && !declared.unknown));
    declared_clear(&declared);
    declarations_free(declarations);
    return trace;
}

static void test_good(void)
{
    GError *error = NULL;
    struct trace *trace = declare(SIZE_MAX, NULL, 0, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(trace->model, ==, "gpt2 1x8");
    g_assert_cmpuint(trace->batch, ==, 2);
    g_assert_cmpuint(trace->list_element_bytes[TRACE_PARAM], ==, 4);
    g_assert_cmpuint(trace->tensor_count, ==, 2);
    g_assert_cmpstr(trace->tensors[1].name, ==, "h.0.ln_1.weight");
    g_assert_cmpuint(trace->operators[0].place, ==, TRACE_ON_HOST);
    g_assert_cmpint(trace->operators[0].layer, ==, -1);
    g_assert_cmpuint(trace->operators[0].h2d_bytes, ==, 30);
    g_assert_cmpuint(trace->operators[0].d2h_bytes, ==, 40);
    g_assert_cmpstr(trace->operators[0].name, ==, "forward wte");
    g_assert_cmpuint(trace->operators[1].phase, ==, TRACE_BACKWARD);
    g_assert_cmpuint(trace->accesses[1].tensor, ==, 1);
    g_assert_cmpuint(trace->ranks, ==, 2);
    g_assert_true(!trace->shared_parameters && trace->whole_gradients && trace->whole_states);
    g_assert_cmpuint(trace->operators[1].exchange[TRACE_REDUCE].sent_bytes, ==, 50);
    g_assert_cmpuint(trace->operators[1].exchange[TRACE_REDUCE].received_bytes, ==, 60);
    g_assert_cmpuint(trace->accesses[1].mode, ==, TRACE_UPDATE);
    g_assert_cmpuint(trace->buffers[0].recompute_flops, ==, 77);
    g_assert_true(trace->buffers[0].saved);
    g_assert_cmpuint(trace->non_model_bytes[1], ==, 512);
    g_assert_cmpuint(trace->use_count, ==, 1);
    g_assert_cmpuint(trace->uses[0].moment, ==, 0);
    g_assert_cmpuint(trace->uses[0].kind, ==, TRACE_USES);
    trace_free(trace);
}

static void test_each_is_needed(void)
{
    static const size_t optional[] = {0, 1, 5, 13, 15, 16, 17, 19, 21, 22};
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        bool needed = true;
        for (size_t j = 0; j < G_N_ELEMENTS(optional); j++)
            needed = needed && optional[j] != i;
        struct trace *trace = declare(i, NULL, 0, NULL);
        g_assert_true((trace == NULL) == needed);
        trace_free(trace);
    }
}

static void test_bad(void)
{
    static const struct {
        size_t replaced;
        const char *text;
        uint64_t payload;
    } bad[] = {
        {0, "meta colour blue", 0},
        {0, "meta model", 0},
        {0, "meta", 0},
        {0, "", 0},
        {0, "metal model x", 0},
        {2, "meta batch", UINT64_C(1) << 32},
        {6, "meta element_bytes_param", 256},
        {6, "meta element_bytes_weights", 4},
        {7, "tensor 64 wte", 1},
        {7, "tensor 64", 0},
        {7, "tensor -64 wte", 0},
        {7, "tensor 64x wte", 0},
        {7, "tensor 0 wte", 0},
        {7, "tensor 64 h.0.ln_1.weight", 0},
        {9, "operator sideways host -1 0 10 20 30 40 forward wte", 0},
        {9, "operator forward here -1 0 10 20 30 40 forward wte", 0},
        {9, "operator forward host -2 0 10 20 30 40 forward wte", 0},
        {9, "operator forward device -1 0 10 20 30 40 forward wte", 0},
        {9, "operator forward host -1 2 10 20 30 40 forward wte", 0},
        {9, "operator forward host -1 0 10 20 30 40", 0},
        {9, "operator forward host -1 0 10 20 30 40 forward wte", 1},
        {10, "access 1 param read", 0},
        {10, "access 0 weights read", 0},
        {10, "access 0 grad read", 0},
        {10, "access 0 param write", 0},
        {10, "access 0 param read", 2},
        {10, "access 0 param", 0},
        {13, "exchange 0 reduce 50", 60},
        {13, "exchange 1 send 50", 60},
        {13, "exchange 1 reduce", 60},
        {13, "exchange 1 reduce 50", UINT64_MAX},
        {14, "buffer 0 0 1 1 77 h.0.x", 0},
        {14, "buffer 512 1 0 1 77 h.0.x", 0},
        {14, "buffer 512 0 2 1 77 h.0.x", 0},
        {14, "buffer 512 0 4294967295 1 77 h.0.x", 0},
        {14, "buffer 512 0 1 2 77 h.0.x", 0},
        {15, "fused 0", 0},
        {15, "fused 0", 3},
        {15, "fused 1", 2},
        {15, "fused 2", 1},
        {15, "fused 0", UINT64_C(1) << 32},
        {15, "fused", 2},
        {16, "meta unknown", 0},
        {18, "meta ranks", 1},
        {18, "meta ranks", 3},
        {18, "meta ranks", UINT64_C(1) << 32},
        {19, "meta shared_parameters", 2},
        {19, "meta shared_parameters", 1}, /* of ranks with all gradients */
        {20, "meta whole_gradients", 2},
        {21, "meta whole_states", 2},
        {22, "use 0 use", 1},
        {22, "use 1 use", 0}, /* nothing restored it */
        {22, "use 2 use", 0},
        {22, "use 1 eat", 0},
        {22, "use 1", 0},
        {22, "use 1 save", 0},    /* in backward */
        {22, "use 1 restore", 0}, /* nothing saved it */
        {23, "declared 2 2 3 1", 0},
        {23, "declared 2 2 2", 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        struct trace *trace = declare(bad[i].replaced, bad[i].text, bad[i].payload, &error);
        if (trace)
            g_error("'%s' was accepted", bad[i].text);
        g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
        g_error_free(error);
    }
}

/* Programs may send anything; it must not crash the collector. */
static void test_garbage(void)
{
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    for (int round = 0; round < 3000; round++) {
        size_t replaced = (size_t)g_rand_int_range(random, 0, G_N_ELEMENTS(good));
        char *text = g_strdup(good[replaced].text);
        size_t length = strlen(text);
        for (int i = g_rand_int_range(random, 1, 4); i > 0; i--)
            text[g_rand_int_range(random, 0, (gint32)length)] = (char)g_rand_int_range(random, 0,
                                                                                       256);
        uint64_t payload = g_rand_boolean(random) ? good[replaced].payload : g_rand_int(random);
        struct trace *trace = declare(replaced, text, payload, NULL);
        if (trace)
            g_assert_true(trace_check(trace, "", NULL));
        trace_free(trace);
        g_free(text);
    }
    g_rand_free(random);
}

/* A program may declare another iteration. The last one counts. */
static void test_again(void)
{
    struct declarations *declarations = declarations_new();
    for (int times = 0; times < 2; times++)
        for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
            declarations_add(declarations, good[i].text, good[i].payload);
    struct declared declared, empty;
    struct trace *trace = declarations_take(declarations, &declared, NULL);
    g_assert_nonnull(trace);
    g_assert_cmpuint(trace->operator_count, ==, 2);
    g_assert_cmpstr(declared.unknown, ==, "FLOPs\nof some");
    g_assert_null(declarations_take(declarations, &empty, NULL));
    declared_clear(&declared);
    trace_free(trace);
    declarations_free(declarations);
}

/* Declares the valid iteration, on a device that is queued if `queued`. */
static struct declared declare_next(struct declarations *declarations, bool queued)
{
    struct declared declared;
    if (queued)
        declarations_add(declarations, "queued", 1);
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        declarations_add(declarations, good[i].text, good[i].payload);
    trace_free(declarations_take(declarations, &declared, NULL));
    return declared;
}

/* Nothing of an iteration's declarations holds for the next. */
static void test_next(void)
{
    struct declarations *declarations = declarations_new();
    struct declared first = declare_next(declarations, true);
    struct declared second = declare_next(declarations, false);
    g_assert_true(first.queued && first.resident);
    g_assert_false(second.queued || second.resident);
    declared_clear(&first);
    declared_clear(&second);
    declarations_free(declarations);
}

/* The operators of the valid declarations have 20 and 21 bytes. */
static void test_fused(void)
{
    struct declarations *declarations = declarations_new();
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        declarations_add(declarations, good[i].text, good[i].payload);
    struct declared declared;
    struct trace *trace = declarations_take(declarations, &declared, NULL);
    uint64_t durations_ns[] = {410, 0};
    fused_divide(declared.fused, durations_ns);
    g_assert_cmpuint(durations_ns[0], ==, 200);
    g_assert_cmpuint(durations_ns[1], ==, 210);
    declared_clear(&declared);
    trace_free(trace);
    declarations_free(declarations);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/declarations/good", test_good);
    g_test_add_func("/declarations/each-is-needed", test_each_is_needed);
    g_test_add_func("/declarations/bad", test_bad);
    g_test_add_func("/declarations/garbage", test_garbage);
    g_test_add_func("/declarations/again", test_again);
    g_test_add_func("/declarations/next", test_next);
    g_test_add_func("/declarations/fused", test_fused);
    return g_test_run();
}
