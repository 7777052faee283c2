/* Imports JSON of PyTorch's profiler: a real recording, synthetic ones with known results, and
 * damaged ones. */
#include "tests/traces/import_fixture.h"
#include "traces/activity/activity_summary.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>
#include <zlib.h>

#define REAL   PROJECT_DIR "/tests/data/kineto/gpt.json.gz"
#define SHAPES PROJECT_DIR "/tests/data/kineto/gpt.txt"

static bool is_unknown(const struct import_fixture *f, const char *what)
{
    for (guint i = 0; i < f->unknown->len; i++)
        if (strstr((char *)g_ptr_array_index(f->unknown, i), what))
            return true;
    return false;
}

static struct trace *import(struct import_fixture *f, const char *from)
{
    g_assert_true(import_kineto(from, f->to, f->unknown, &f->error));
    g_assert_no_error(f->error);
    struct trace *trace = trace_read(f->to, &f->error);
    g_assert_no_error(f->error);
    g_assert_true(trace_verify(f->to, &f->error));
    return trace;
}

/* Adds an event; times are in microseconds. */
G_GNUC_PRINTF(6, 7)
static void add(GString *json, const char *category, const char *name, double start, double us,
                const char *format, ...)
{
    va_list list;
    va_start(list, format);
    g_autofree char *args = g_strdup_vprintf(format, list);
    va_end(list);
    g_string_append_printf(json,
                           "%s{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 7, "
                           "\"tid\": 7, \"ts\": %.3f, \"dur\": %.3f, \"args\": {%s}}",
                           json->len > 0 ? ",\n" : "", category, name, start, us, args);
}

static void add_memory(GString *json, double at, uint64_t address, int64_t bytes)
{
    g_string_append_printf(json,
                           "%s{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"name\": "
                           "\"[memory]\", \"pid\": 7, \"tid\": 7, \"ts\": %.3f, \"args\": {"
                           "\"Device Type\": 1, \"Device Id\": 0, \"Addr\": %" G_GUINT64_FORMAT
                           ", \"Bytes\": %" G_GINT64_FORMAT "}}",
                           json->len > 0 ? ",\n" : "", at, address, bytes);
}

/* Adds a call at `start` and the kernel that it launches. */
static void add_kernel(GString *json, unsigned correlation, double start, double runs, double us)
{
    add(json, "cuda_runtime", "cudaLaunchKernel", start, 1, "\"correlation\": %u", correlation);
    const char *name = (correlation - 1) % 5 == 4 ? "void ours::step<float>(float*)"
                                                  : "void ours::scale<float>(float*)";
    add(json, "kernel", name, runs, us,
        "\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": %u, \"grid\": [4, 1, 1], "
        "\"block\": [128, 1, 1]",
        correlation);
}

static void write_events(const struct import_fixture *f, const GString *events, bool packed)
{
    g_autofree char *text = g_strdup_printf("{\"schemaVersion\": 1, \"traceEvents\": [%s], "
                                            "\"deviceProperties\": [{\"id\": 0, \"name\": "
                                            "\"Card\", \"totalGlobalMem\": 1000000, \"numSms\": "
                                            "8}]}",
                                            events->str);
    if (!packed) {
        g_assert_true(g_file_set_contents(f->from, text, -1, NULL));
        return;
    }
    gzFile file = gzopen(f->from, "wb");
    g_assert_cmpint(gzwrite(file, text, (unsigned)strlen(text)), ==, (int)strlen(text));
    gzclose(file);
}

/* Adds micro-batches of one layer with two parameters: the forward operator makes node 10, the loss
 * node 11. The device lags behind the host. Times are relative to the start of the step. */
static double add_passes(GString *json, double at, unsigned passes, unsigned *correlation)
{
    for (unsigned p = 0; p < passes; p++, at += 100) {
        unsigned number = 10 + 2 * p;
        add(json, "cpu_op", "aten::linear", at + 10, 8, "\"Sequence number\": %u", number);
        add(json, "cpu_op", "aten::addmm", at + 11, 6, "\"Sequence number\": %u", number);
        add_kernel(json, ++*correlation, at + 12, at + 20, 10);
        add_memory(json, at + 12.5, 0x1000, 4096);
        add(json, "cpu_op", "aten::view", at + 18, 1, "\"Sequence number\": %u", number + 1);
        add(json, "cpu_op", "aten::mse_loss", at + 20, 5, "\"Sequence number\": %u", number + 1);
        add_kernel(json, ++*correlation, at + 21, at + 30, 5);
        add(json, "cpu_op", "autograd::engine::evaluate_function: MseLossBackward0", at + 30, 5,
            "\"Sequence number\": %u, \"Fwd thread id\": 1", number + 1);
        add_kernel(json, ++*correlation, at + 31, at + 35, 5);
        add(json, "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", at + 40, 8,
            "\"Sequence number\": %u, \"Fwd thread id\": 1", number);
        add_kernel(json, ++*correlation, at + 41, at + 45, 15);
        if (p == 0)
            add_memory(json, at + 41.5, 0x8000, 64 * 32 * 4);
        add_memory(json, at + 42, 0x2000, 1024);
        add_memory(json, at + 43, 0x2000, -1024);
        add_memory(json, at + 44, 0x1000, -4096);
        for (int i = 0; i < 2; i++) {
            add(json, "cpu_op",
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", at + 50 + i,
                0.9, "\"Ev Idx\": 1");
            add(json, "cpu_op", "torch::autograd::AccumulateGrad", at + 50.1 + i, 0.5,
                "\"Input Dims\": [[%s]], \"Input type\": [\"float\"]", i == 0 ? "64" : "64, 32");
        }
    }
    return at;
}

/* Makes the events of a training run. */
static GString *make_run(unsigned steps, unsigned passes)
{
    GString *json = g_string_new(NULL);
    unsigned correlation = 0;
    for (unsigned s = 0; s < steps; s++) {
        double at = 1669783687000000.0 + 1000 * s, end;
        if (s > 0)
            add_memory(json, at + 1, 0x8000, -64 * 32 * 4); /* the last step's gradient */
        end = add_passes(json, at, passes, &correlation);
        add(json, "user_annotation", "Optimizer.step#AdamW.step", end, 50, "\"Ev Idx\": 1");
        add(json, "cpu_op", "aten::_foreach_add_", end + 1, 10, "\"Ev Idx\": 1");
        add_kernel(json, ++correlation, end + 2, end + 10, 66);
        add_memory(json, end + 3, 0x3000, 2112);
        add_memory(json, end + 9, 0x3000, -2112);
        g_autofree char *name = g_strdup_printf("ProfilerStep#%u", s);
        add(json, "user_annotation", name, at, end + 60 - at, "\"Ev Idx\": 1");
    }
    return json;
}

static const struct trace_operator *operator_named(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (strcmp(trace->operators[m].name, name) == 0)
            return &trace->operators[m];
    g_error("no operator '%s'", name);
}

static bool accesses(const struct trace *trace, const char *name, uint32_t tensor,
                     enum trace_list list, enum trace_mode mode)
{
    const struct trace_operator *op = operator_named(trace, name);
    for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++)
        if (trace->accesses[i].tensor == tensor && trace->accesses[i].list == list &&
            trace->accesses[i].mode == mode)
            return true;
    return false;
}

static void test_device_times(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(3, 1);
    (void)data;
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    /* The device finishes them at 30, 35, 40 and 60, and the update at 176. The operator without a
     * kernel is part of the one before it. */
    g_assert_cmpuint(trace->operator_count, ==, 6);
    g_assert_cmpuint(operator_named(trace, "forward aten::linear")->duration_ns, ==, 20000);
    g_assert_cmpuint(operator_named(trace, "forward aten::mse_loss")->duration_ns, ==, 5000);
    g_assert_cmpuint(operator_named(trace, "backward MseLossBackward0")->duration_ns, ==, 5000);
    g_assert_cmpuint(operator_named(trace, "backward AddmmBackward0")->duration_ns, ==, 20000);
    uint64_t first = operator_named(trace, "update parameter 0 [64, 32]")->duration_ns;
    uint64_t second = operator_named(trace, "update parameter 1 [64]")->duration_ns;
    g_assert_cmpuint(first + second, ==, 116000);
    g_assert_cmpuint(first, ==, UINT64_C(116000) * 2048 / 2112);
    g_assert_cmpstr(trace->machine, ==, "Card");
    g_assert_cmpstr(trace->precision, ==, "fp32");
    trace_free(trace);
}

/* The optimizer's name and operators tell its states. One whose name tells nothing of them, or that
 * they are narrower than AdamW's, is taken for AdamW, and that is said with its name. */
static void test_optimizers(struct import_fixture *f, gconstpointer data)
{
    static const struct {
        const char *name, *calls; /* the first operator of its step */
        unsigned states;
        const char *said; /* or NULL */
    } optimizers[] = {
        {"AdamW", "aten::_foreach_lerp_", 2, NULL},
        {"AdamW", "aten::_foreach_maximum_", 3, NULL},
        {"Adam", "aten::maximum", 3, NULL},
        {"Adamax", "aten::maximum", 2, NULL},
        {"FusedAdam", "aten::add_", 2, NULL},
        {"Adagrad", "aten::addcmul_", 1, NULL},
        {"RMSprop", "aten::addcmul_", 1, NULL},
        {"RMSprop", "aten::_foreach_lerp_", 2, NULL},
        {"RMSprop", "aten::mul_", 2, NULL},
        {"SGD", "aten::add_", 0, NULL},
        {"SGD", "aten::_foreach_mul_", 1, NULL},
        {"SGD", "aten::_fused_sgd_", 1, "whether the fused SGD has momentum"},
        {"Lion", "aten::lerp_", 1, NULL},
        {"Muon", "aten::lerp_", 1, NULL},
        {"Adafactor", "aten::lerp_", 0, "the states of Adafactor: they are not counted"},
        {"AdamW8bit", "aten::add_", 2, "the optimizer AdamW8bit: those of AdamW are assumed"},
        {"AdamWFp8", "aten::add_", 2, "the optimizer AdamWFp8: those of AdamW are assumed"},
        {"Sophia", "aten::add_", 2, "the optimizer Sophia: those of AdamW are assumed"},
    };
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(optimizers); i++) {
        g_autoptr(GString) events = make_run(2, 1);
        g_autofree char *mark = g_strdup_printf("Optimizer.step#%s.step", optimizers[i].name);
        g_string_replace(events, "Optimizer.step#AdamW.step", mark, 0);
        g_string_replace(events, "aten::_foreach_add_", optimizers[i].calls, 0);
        write_events(f, events, false);
        g_ptr_array_set_size(f->unknown, 0);
        struct trace *trace = import(f, f->from);
        const uint8_t *bytes = trace->list_element_bytes;
        g_assert_cmpuint((bytes[TRACE_EXP_AVG] + bytes[TRACE_EXP_AVG_SQ] + bytes[TRACE_MASTER]) / 4,
                         ==, optimizers[i].states);
        g_assert_true(!optimizers[i].said || is_unknown(f, optimizers[i].said));
        g_assert_true(optimizers[i].said ||
                      (!is_unknown(f, "of AdamW are assumed") && !is_unknown(f, "states")));
        trace_free(trace);
    }
}

/* Adds a collective to the steps of a run. Backward asks for it; it begins beside backward's last
 * kernel and ends beside the update's first. Times are relative to the start of the step. `more` is
 * what PyTorch says of it, or "". */
static void add_collectives(GString *json, unsigned steps, const char *more)
{
    for (unsigned s = 0; s < steps; s++) {
        double at = 1669783687000000.0 + 1000 * s;
        add(json, "cuda_runtime", "cudaLaunchKernelExC", at + 46, 1, "\"correlation\": %u",
            900 + s);
        add(json, "kernel",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", at + 55,
            57, "\"device\": 0, \"context\": 1, \"stream\": 20, \"correlation\": %u%s", 900 + s,
            more);
    }
}

/* Operators' times are without collectives, also where they wait for them. */
static void test_collectives(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(3, 1);
    (void)data;
    add_collectives(events, 3, "");
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    g_assert_cmpuint(trace->operator_count, ==, 6);
    g_assert_cmpuint(operator_named(trace, "backward AddmmBackward0")->duration_ns, ==, 20000);
    uint64_t first = operator_named(trace, "update parameter 0 [64, 32]")->duration_ns;
    uint64_t second = operator_named(trace, "update parameter 1 [64]")->duration_ns;
    g_assert_cmpuint(first + second, ==, 116000 - 50000);
    g_assert_true(is_unknown(f, "1 collectives of a step, which run for 0.057 ms, 0.050 ms of it"));
    trace_free(trace);
}

/* Sums of gradients among ranks become operators of one rank's trace. Those of which not everything
 * is known, or which are of another kind, do not. */
static void test_sums(struct import_fixture *f, gconstpointer data)
{
    static const char *const unknown[] = {
        ", \"Collective name\": \"allreduce\", \"In msg nelems\": 2112, \"dtype\": \"Float\"",
        ", \"Collective name\": \"allreduce\", \"In msg nelems\": 2112, \"dtype\": \"Colour\", "
        "\"Group size\": 4",
        ", \"Collective name\": \"_allgather_base\", \"In msg nelems\": 2112, \"dtype\": "
        "\"Float\", \"Group size\": 4"};
    g_autoptr(GString) events = make_run(3, 1);
    (void)data;
    add_collectives(events, 3,
                    ", \"Collective name\": \"allreduce\", \"In msg nelems\": 2112, \"dtype\": "
                    "\"Float\", \"Group size\": 4");
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    const struct trace_operator *sum = operator_named(trace, "reduce bucket 0");
    g_assert_cmpuint(trace->ranks, ==, 4);
    g_assert_cmpuint(trace->micro_batches, ==, 4);
    g_assert_true(trace->whole_gradients && trace->whole_states && !trace->shared_parameters);
    g_assert_cmpuint(trace->operator_count, ==, 7);
    g_assert_cmpstr(sum[-1].name, ==, "backward MseLossBackward0");
    g_assert_cmpstr(sum[1].name, ==, "backward AddmmBackward0");
    g_assert_cmpuint(sum->exchange[TRACE_REDUCE].sent_bytes, ==, 2112 * 4 / 4 * 3);
    g_assert_cmpuint(sum->exchange[TRACE_GATHER].received_bytes, ==, 2112 * 4 / 4 * 3);
    g_assert_cmpuint(sum->duration_ns, ==, 57000);
    g_assert_cmpuint(trace->buffers[0].last, ==, 4);
    trace_free(trace);
    for (size_t i = 0; i < G_N_ELEMENTS(unknown); i++) {
        g_autoptr(GString) other = make_run(3, 1);
        add_collectives(other, 3, unknown[i]);
        write_events(f, other, false);
        trace = import(f, f->from);
        g_assert_cmpuint(trace->ranks, <=, 1);
        g_assert_cmpuint(trace->operator_count, ==, 6);
        trace_free(trace);
    }
}

/* Adds a collective of a step: what it is called by NCCL and by PyTorch, its elements in fp32 among
 * four ranks, when it is asked for and when it runs. */
static void add_shards(GString *json, unsigned step, unsigned correlation, const char *kernel,
                       const char *name, unsigned in, unsigned out, double asked, double runs)
{
    double at = 1669783687000000.0 + 1000 * step;
    add(json, "cuda_runtime", "cudaLaunchKernelExC", at + asked, 1, "\"correlation\": %u",
        correlation);
    add(json, "kernel", kernel, at + runs, 7,
        "\"device\": 0, \"context\": 1, \"stream\": 20, \"correlation\": %u, "
        "\"Collective name\": \"%s\", \"In msg nelems\": %u, \"Out msg nelems\": %u, \"dtype\": "
        "\"Float\", \"Group size\": 4, \"Process Group Name\": \"0\"",
        correlation, name, in, out);
}

/* Makes the events of four ranks that share everything (FSDP): parameters are gathered before
 * forward and before backward, whose gradients end when they have been summed in parts of `part`
 * elements. */
static GString *make_shared_run(unsigned steps, unsigned part)
{
    static const char gather[] =
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    static const char reduce[] =
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    GString *events = make_run(steps, 1);
    for (unsigned s = 0; s < steps; s++) {
        double at = 1669783687000000.0 + 1000 * s;
        add_shards(events, s, 900 + 3 * s, gather, "_allgather_base", 528, 2112, 10.5, 11);
        add_shards(events, s, 901 + 3 * s, gather, "_allgather_base", 528, 2112, 31, 36);
        add_shards(events, s, 902 + 3 * s, reduce, "_reduce_scatter_base", 2112, part, 47, 62);
        if (s > 0)
            add_memory(events, at + 2, 0x9000, -528 * 4); /* the last step's shards of gradients */
        add_memory(events, at + 46, 0x9000, 528 * 4);
        add_memory(events, at + 58, 0x8000, -64 * 32 * 4);
    }
    return events;
}

/* What ranks with shards gather and sum in parts become operators of one rank's trace, in which all
 * lists are shards. What is gathered lies in the recorded non-model data; the shards of gradients
 * do not. Numbers that are not those of equal parts are not imported. */
static void test_shards(struct import_fixture *f, gconstpointer data)
{
    static const char *const names[] = {
        "gather shards 0", "forward aten::linear",      "forward aten::mse_loss",
        "gather shards 1", "backward MseLossBackward0", "backward AddmmBackward0",
        "reduce shards 2"};
    uint64_t computing_ns = 0;
    g_autoptr(GString) events = make_shared_run(3, 528), uneven = make_shared_run(3, 529);
    (void)data;
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    g_assert_cmpuint(trace->ranks, ==, 4);
    g_assert_cmpuint(trace->micro_batches, ==, 4);
    g_assert_true(trace->shared_parameters && !trace->whole_gradients && !trace->whole_states);
    g_assert_cmpuint(trace->operator_count, ==, G_N_ELEMENTS(names) + 2);
    for (size_t m = 0; m < G_N_ELEMENTS(names); m++) {
        bool gathers = g_str_has_prefix(names[m], "gather");
        bool reduces = g_str_has_prefix(names[m], "reduce");
        const struct trace_operator *op = &trace->operators[m];
        g_assert_cmpstr(op->name, ==, names[m]);
        g_assert_cmpuint(op->exchange[TRACE_GATHER].sent_bytes, ==, gathers ? 528 * 4 * 3 : 0);
        g_assert_cmpuint(op->exchange[TRACE_GATHER].received_bytes, ==, gathers ? 528 * 4 * 3 : 0);
        g_assert_cmpuint(op->exchange[TRACE_REDUCE].sent_bytes, ==, reduces ? 528 * 4 * 3 : 0);
        g_assert_cmpuint(op->exchange[TRACE_REDUCE].received_bytes, ==, reduces ? 528 * 4 * 3 : 0);
        if (reduces)
            g_assert_cmpuint(op->duration_ns, ==, 7000);
        else
            computing_ns += op->duration_ns;
    }
    for (size_t m = G_N_ELEMENTS(names); m < trace->operator_count; m++)
        computing_ns += trace->operators[m].duration_ns;
    g_assert_cmpuint(trace->operators[0].duration_ns, ==, 7000);
    g_assert_cmpuint(trace->operators[3].duration_ns, ==, 3000); /* 4 beside the loss's kernel */
    g_assert_cmpuint(computing_ns, ==, 166000 - 7000);           /* the step's, without the sum */
    g_assert_cmpuint(trace_list_bytes(trace, TRACE_PARAM, 0), ==, 64 * 32 * 4 / 4);
    g_assert_cmpuint(trace->non_model_bytes[6], ==, 0);
    g_assert_cmpuint(trace->non_model_bytes[7], ==, 2112 * 64 * 32 / (64 * 32 + 64));
    g_assert_true(is_unknown(f, "one of 4, which have shards of everything, gather parameters"));
    trace_free(trace);

    write_events(f, uneven, false);
    trace = import(f, f->from);
    g_assert_cmpuint(trace->ranks, <=, 1);
    g_assert_cmpuint(trace->operator_count, ==, 6);
    trace_free(trace);
}

static void test_accesses(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(2, 1);
    (void)data;
    write_events(f, events, true);
    struct trace *trace = import(f, f->from);
    g_assert_cmpuint(trace->tensor_count, ==, 2);
    g_assert_cmpuint(trace->tensors[0].elements, ==, 64 * 32);
    g_assert_cmpuint(trace->tensors[1].elements, ==, 64);
    for (uint32_t t = 0; t < 2; t++) {
        const char *update = t == 0 ? "update parameter 0 [64, 32]" : "update parameter 1 [64]";
        const char *backward = "backward AddmmBackward0";
        g_assert_true(accesses(trace, "forward aten::linear", t, TRACE_PARAM, TRACE_READ));
        g_assert_true(accesses(trace, backward, t, TRACE_PARAM, TRACE_READ));
        g_assert_true(accesses(trace, backward, t, TRACE_GRAD, TRACE_OVERWRITE));
        g_assert_true(accesses(trace, update, t, TRACE_PARAM, TRACE_UPDATE));
        g_assert_true(accesses(trace, update, t, TRACE_GRAD, TRACE_READ));
        g_assert_true(accesses(trace, update, t, TRACE_EXP_AVG_SQ, TRACE_UPDATE));
    }
    g_assert_cmpuint(trace->access_count, ==, 2 * (1 + 2 + 4));
    trace_free(trace);
}

/* Gradients of this step and of the previous one are not non-model data. */
static void test_memory(struct import_fixture *f, gconstpointer data)
{
    static const uint64_t expected[] = {4096, 4096, 4096, 4096 + 1024};
    g_autoptr(GString) events = make_run(2, 1);
    (void)data;
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    for (uint32_t m = 0; m < G_N_ELEMENTS(expected); m++)
        g_assert_cmpuint(trace->non_model_bytes[m], ==, expected[m]);
    g_assert_cmpuint(trace->non_model_bytes[4], ==, 2112 * 64 * 32 / (64 * 32 + 64));
    g_assert_cmpuint(trace->non_model_bytes[5], ==, 2112 * 64 / (64 * 32 + 64));
    const struct trace_buffer *activation = &trace->buffers[0];
    g_assert_cmpuint(activation->bytes, ==, 4096);
    g_assert_true(activation->saved);
    g_assert_cmpuint(activation->first, ==, 0);
    g_assert_cmpuint(activation->last, ==, 3);
    trace_free(trace);
}

static void test_micro_batches(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(2, 3);
    (void)data;
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    g_assert_cmpuint(trace->micro_batches, ==, 3);
    g_assert_cmpuint(trace->tensor_count, ==, 2);
    g_assert_cmpuint(trace->operator_count, ==, 3 * 4 + 2);
    for (uint32_t m = 0; m < 12; m++)
        g_assert_cmpuint(trace->operators[m].micro_batch, ==, m / 4);
    uint32_t updates = 0, overwrites = 0;
    for (uint32_t i = 0; i < trace->access_count; i++) {
        const struct trace_access *access = &trace->accesses[i];
        updates += access->list == TRACE_GRAD && access->mode == TRACE_UPDATE;
        overwrites += access->list == TRACE_GRAD && access->mode == TRACE_OVERWRITE;
    }
    g_assert_cmpuint(overwrites, ==, 2);
    g_assert_cmpuint(updates, ==, 4);
    trace_free(trace);
}

static void test_records(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(2, 1);
    (void)data;
    add(events, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1669783687000500.0, 5,
        "\"device\": 0, \"context\": 1, \"stream\": 9, \"bytes\": 77");
    add(events, "python_function", "main", 1669783687000500.0, 5, "\"Ev Idx\": 1");
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    struct activity *activity = activity_read(f->to, ACTIVITY_ALL, &f->error);
    g_assert_no_error(f->error);
    g_assert_cmpuint(activity->kernel_count, ==, 10);
    g_assert_cmpuint(activity->call_count, ==, 10);
    g_assert_cmpuint(activity->memory_count, ==, 2 * 7 + 1);
    g_assert_cmpuint(activity->kernels[0].start_ns, ==, 1669783687000020000);
    g_assert_cmpuint(activity->launches[0].block[0], ==, 128);
    g_assert_cmpuint(activity->copies[0].kind, ==, COPY_HOST_TO_DEVICE);
    g_assert_cmpuint(activity->copies[0].source, ==, MEMORY_PINNED);
    g_assert_cmpuint(activity->copies[0].destination, ==, MEMORY_DEVICE);
    g_assert_cmpuint(activity->copies[0].bytes, ==, 77);
    g_assert_true(is_unknown(f, "1 ranges of category 'python_function'"));
    struct records *records = records_read(f->to, &f->error);
    g_assert_nonnull(strstr(records->unknown, "python_function"));
    g_assert_cmpstr(records_text(records, activity->kernels[0].short_name), ==, "scale");
    records_free(records);
    activity_free(activity);
    trace_free(trace);
}

/* Steps are found without their marks. */
static void test_repetition(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(6, 1);
    (void)data;
    write_events(f, events, false);
    struct trace *trace = import(f, f->from);
    struct records *records = records_read(f->to, &f->error);
    struct activity *activity = activity_read(f->to, ACTIVITY_SUMMARY_PARTS, &f->error);
    struct activity_summary *summary = activity_summary_new(activity, records);
    const struct device_summary *device = &g_array_index(summary->devices, struct device_summary,
                                                         0);
    g_assert_cmpuint(device->steps.length, ==, 5);
    g_assert_cmpuint(device->steps.count, ==, 6);
    g_assert_cmpfloat(device->steps.alike, ==, 1);
    g_assert_cmpuint(device->step_ns, ==, 1000000);
    activity_summary_free(summary);
    activity_free(activity);
    records_free(records);
    trace_free(trace);
}

static void test_real(struct import_fixture *f, gconstpointer data)
{
    g_autofree char *text = NULL;
    uint32_t phases[3] = {0}, parameter = 0;
    (void)data;
    struct trace *trace = import(f, REAL);
    g_assert_true(g_file_get_contents(SHAPES, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
    for (; lines[parameter] != NULL; parameter++) {
        g_autofree char *shape = g_strndup(lines[parameter], strcspn(lines[parameter], "]") + 1);
        g_autofree char *name = g_strdup_printf("parameter %u %s", parameter, shape);
        g_assert_cmpstr(trace->tensors[parameter].name, ==, name);
    }
    g_assert_cmpuint(trace->tensor_count, ==, parameter);
    g_assert_cmpuint(trace->batch, ==, 2);
    g_assert_cmpuint(trace->sequence, ==, 16);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        phases[trace->operators[m].phase]++;
    g_assert_cmpuint(phases[TRACE_FORWARD], ==, 25);
    g_assert_cmpuint(phases[TRACE_UPDATE_PHASE], ==, parameter);
    /* What remains after backward existed before forward. */
    uint32_t last = trace->operator_count - parameter - 1;
    g_assert_cmpuint(trace->non_model_bytes[last], <, trace->non_model_bytes[0] * 2);
    g_assert_true(is_unknown(f, "kernels"));
    trace_free(trace);
}

/* A training step without shapes is of no use, and its file says what to record. */
static void test_without_shapes(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(2, 1);
    (void)data;
    g_string_replace(events, "Input Dims", "Other", 0);
    write_events(f, events, false);
    import_check_refused(f, import_kineto, "record again with profile(record_shapes=True");
}

/* A profile of inference that shows no device's work. */
static void test_without_backward(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = g_string_new(NULL);
    (void)data;
    add(events, "cpu_op", "aten::mm", 10, 5, "\"Input Dims\": [[4, 4], [4, 4]]");
    write_events(f, events, false);
    import_check_refused(f, import_kineto, "record whole training steps, with backward()");
    add_kernel(events, 1, 11, 12, 2);
    write_events(f, events, false);
    g_assert_true(import_kineto(f->from, f->to, f->unknown, &f->error)); /* for pstar-report */
    g_assert_true(is_unknown(f, "record whole training steps"));
}

static void check_refused(struct import_fixture *f, const char *text, gssize bytes,
                          const char *reason)
{
    g_assert_true(g_file_set_contents(f->from, text, bytes, NULL));
    import_check_refused(f, import_kineto, reason);
}

static void test_refused(struct import_fixture *f, gconstpointer data)
{
    g_autofree char *packed = NULL;
    gsize bytes;
    (void)data;
    check_refused(f, "", 0, "the file ends");
    check_refused(f, "{\"nodes\": []}", -1, "no array \"traceEvents\"");
    check_refused(f, "{\"traceEvents\": [3]}", -1, "not an object");
    check_refused(f, "{\"traceEvents\": [{}", -1, "the file ends");
    check_refused(f, "{\"traceEvents\": [{\"ts\": }]}", -1, "byte 2");
    check_refused(f, "{\"traceEvents\" 3", -1, "'3' where ':'");
    g_assert_true(g_file_get_contents(REAL, &packed, &bytes, NULL));
    check_refused(f, packed, (gssize)bytes / 2, "");
}

/* Whatever is changed or missing, a written trace is valid. */
static void test_damaged(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) events = make_run(2, 2);
    g_autofree char *whole = NULL;
    gsize bytes;
    (void)data;
    write_events(f, events, false);
    g_assert_true(g_file_get_contents(f->from, &whole, &bytes, NULL));
    for (int i = 0; i < 150; i++) {
        g_autofree char *text = g_memdup2(whole, bytes);
        g_autoptr(GError) error = NULL;
        for (int c = 0; c < 5; c++) {
            char *at = &text[g_test_rand_int_range(0, (gint32)bytes)];
            *at = g_ascii_isdigit(*at) ? (char)g_test_rand_int_range('0', '9' + 1) : *at;
        }
        if (i % 10 == 0)
            text[g_test_rand_int_range(0, (gint32)bytes)] = (char)g_test_rand_int_range(1, 256);
        g_assert_true(g_file_set_contents(f->from, text, (gssize)bytes, NULL));
        if (!import_kineto(f->from, f->to, f->unknown, &error))
            continue;
        struct records *records = records_read(f->to, &error);
        g_assert_no_error(error);
        trace_free(records->has_iteration ? trace_read(f->to, &error) : NULL);
        g_assert_no_error(error);
        records_free(records);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    IMPORT_TEST("/import_kineto/device_times", test_device_times);
    IMPORT_TEST("/import_kineto/optimizers", test_optimizers);
    IMPORT_TEST("/import_kineto/collectives", test_collectives);
    IMPORT_TEST("/import_kineto/shards", test_shards);
    IMPORT_TEST("/import_kineto/sums", test_sums);
    IMPORT_TEST("/import_kineto/accesses", test_accesses);
    IMPORT_TEST("/import_kineto/memory", test_memory);
    IMPORT_TEST("/import_kineto/micro_batches", test_micro_batches);
    IMPORT_TEST("/import_kineto/records", test_records);
    IMPORT_TEST("/import_kineto/repetition", test_repetition);
    IMPORT_TEST("/import_kineto/real", test_real);
    IMPORT_TEST("/import_kineto/without_shapes", test_without_shapes);
    IMPORT_TEST("/import_kineto/without_backward", test_without_backward);
    IMPORT_TEST("/import_kineto/refused", test_refused);
    IMPORT_TEST("/import_kineto/damaged", test_damaged);
    return g_test_run();
}
