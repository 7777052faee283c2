/* Stages of drawn models and schedules: together they are the whole iteration, in an order that can
 * run, with no more micro-batches in flight than the schedule allows. */
#include "models/pipeline.h"

#include "models/train_choice.h"
#include "tests/models/small_model.h"
#include "traces/shard.h"

#include <string.h>

enum {
    MOST_STAGES = 6,
    MOST_LAYERS = 12,
    CHANNELS = PIPELINE_CROSSINGS + 2 * MOST_LAYERS,
    QUEUES = MOST_STAGES * MOST_STAGES * CHANNELS
};

struct drawn {
    struct model_config config;
    struct model_iteration *whole;
    struct model_iteration *stage[MOST_STAGES];
    uint32_t stages, parts;
    enum pipeline_schedule schedule;
    uint8_t recompute[12], offload[12];
    uint8_t *frozen;                          /* NULL: all is trained */
    uint32_t layers_of[MOST_STAGES], *layers; /* of the stages; the latter is NULL if they are equal
                                               */
};

/* Gives each stage a layer at least, in one of two cases, and else leaves them equal. */
static void draw_layers(struct drawn *drawn)
{
    uint32_t left = drawn->config.layers - drawn->stages;
    drawn->layers = g_test_rand_int_range(0, 2) ? drawn->layers_of : NULL;
    for (uint32_t s = 0; s < drawn->stages; s++) {
        bool last = s + 1 == drawn->stages;
        uint32_t more = last ? left : (uint32_t)g_test_rand_int_range(0, (gint32)left + 1);
        drawn->layers_of[s] = 1 + more;
        left -= more;
    }
}

/* Gives each of two to four stages at least two parts, of equal numbers of layers. */
static void draw_parts(struct drawn *drawn)
{
    drawn->config.layers = (uint32_t)g_test_rand_int_range(4, MOST_LAYERS);
    uint32_t layers = drawn->config.layers, most = MIN(layers / 2, 4);
    drawn->stages = (uint32_t)g_test_rand_int_range(2, (gint32)most + 1);
    drawn->parts = (uint32_t)g_test_rand_int_range(2, (gint32)(layers / drawn->stages) + 1);
    drawn->layers = NULL;
}

/* Draws what is trained: all, adapters, or the same tensors of each layer. */
static void draw_trained(struct drawn *drawn)
{
    const char *const choices[] = {"all", "all", "lora:2", "*.weight", "*o*.weight"};
    GError *error = NULL;
    model_choose_trained(&drawn->config, choices[g_test_rand_int_range(0, G_N_ELEMENTS(choices))],
                         0, &drawn->frozen, &error);
    g_assert_no_error(error);
}

/* Lets one to three ranks each have the job's micro-batches. */
static void draw_ranks(struct model_job *job)
{
    job->ranks = (uint32_t)g_test_rand_int_range(1, 4);
    job->choices.micro_batches *= job->ranks;
    job->choices.stage = (uint8_t)g_test_rand_int_range(2, 4);
}

static void draw(struct drawn *drawn)
{
    static const struct model_family *const families[] = {
        &family_gpt2, &family_llama, &family_mistral, &family_qwen3,
        &family_bert, &family_phi,   &family_gpt_neox};
    *drawn = (struct drawn){
        .config = small_decoder(families[g_test_rand_int_range(0, G_N_ELEMENTS(families))],
                                g_test_rand_int_range(0, 2))};
    drawn->config.layers = (uint32_t)g_test_rand_int_range(2, 12);
    drawn->stages = (uint32_t)g_test_rand_int_range(2, MIN(drawn->config.layers, MOST_STAGES) + 1);
    draw_layers(drawn);
    drawn->schedule = (enum pipeline_schedule)g_test_rand_int_range(0, PIPELINE_SCHEDULES);
    drawn->parts = 1;
    if (drawn->schedule == PIPELINE_INTERLEAVED)
        draw_parts(drawn);
    for (uint32_t l = 0; l < drawn->config.layers; l++) {
        drawn->recompute[l] = (uint8_t)g_test_rand_int_range(0, 2);
        drawn->offload[l] = (uint8_t)g_test_rand_int_range(0, 2);
    }
    struct model_job job = small_job(g_test_rand_int_range(0, 2) ? MODEL_BF16 : MODEL_FP32,
                                     drawn->parts > 1
                                         ? drawn->stages * (uint32_t)g_test_rand_int_range(1, 4)
                                         : drawn->stages + (uint32_t)g_test_rand_int_range(0, 5));
    draw_trained(drawn);
    job.choices.frozen = drawn->frozen;
    job.choices.recompute = drawn->recompute;
    draw_ranks(&job);
    bool endless = job.delay = drawn->schedule == PIPELINE_2BW;
    job.split = pipeline_splits(drawn->schedule);
    if (!endless)
        job.choices.offload = drawn->offload;
    bool may_embed = model_ranks(&job) == 1 && !(endless && job.precision == MODEL_BF16);
    job.choices.host_embedding = may_embed && g_test_rand_int_range(0, 2);
    const struct pipeline_shape shape = {drawn->stages, drawn->schedule, drawn->layers,
                                         drawn->parts};
    g_assert_true(pipeline_check(&drawn->config, &job, &shape, NULL));
    drawn->whole = new_iteration(&drawn->config, &job);
    for (uint32_t s = 0; s < drawn->stages; s++)
        drawn->stage[s] = pipeline_stage(drawn->whole, &shape, s);
}

static void clear(struct drawn *drawn)
{
    for (uint32_t s = 0; s < drawn->stages; s++)
        model_iteration_free(drawn->stage[s]);
    model_iteration_free(drawn->whole);
    g_free(drawn->frozen);
}

/* Whether the whole has no such operator. */
static bool is_added(const struct model_operator *op)
{
    return op->kind == MODEL_SEND || op->kind == MODEL_RECEIVE || op->kind == MODEL_ADD ||
           op->kind == MODEL_NEWEST;
}

/* Whether the operator reads parameters in buffers, and accesses no list. */
static bool reads_buffers(const struct model_operator *op)
{
    bool any = false;
    for (int i = 0; i < MODEL_TENSORS; i++)
        any |= op->newest[i] != NO_INDEX;
    return op->kind != MODEL_UPDATE && any;
}

/* Whether the stage computes the operator with a copy of the first stage's tied weights. */
static bool borrows(const struct drawn *drawn, uint32_t moment, const struct model_iteration *stage)
{
    uint8_t kind = drawn->whole->operators[moment].kind;
    return drawn->config.tied && stage->trace->stage > 0 &&
           (kind == MODEL_CLASSIFIER_FORWARD || kind == MODEL_CLASSIFIER_BACKWARD);
}

/* The list that the stage accesses instead: micro-batches of the next step read masters, which what
 * is frozen lacks. */
static uint8_t list_here(const struct drawn *drawn, const struct model_operator *op,
                         const struct trace_access *access)
{
    bool next = op->micro_batch >= model_rank_micro_batches(&drawn->whole->job);
    bool changes = access->list == TRACE_PARAM && !drawn->whole->choices->frozen[access->tensor];
    return next && changes ? TRACE_MASTER : access->list;
}

/* Finds the operator of the whole that the stages have not run yet, and marks it. */
static void mark_operator(const struct drawn *drawn, const struct model_iteration *stage,
                          uint32_t moment, uint8_t *seen)
{
    const struct trace_operator *op = &stage->trace->operators[moment];
    const struct trace *whole = drawn->whole->trace;
    uint32_t m = 0;
    while (m < whole->operator_count &&
           (seen[m] || strcmp(whole->operators[m].name, op->name) != 0 ||
            whole->operators[m].micro_batch != op->micro_batch))
        m++;
    g_assert_cmpuint(m, <, whole->operator_count);
    seen[m] = 1;
    g_assert_cmpuint(whole->operators[m].flops, ==, op->flops);
    if (borrows(drawn, m, stage) || reads_buffers(&stage->operators[moment]))
        return;
    g_assert_cmpuint(whole->operators[m].access_count, ==, op->access_count);
    for (uint32_t a = 0; a < op->access_count; a++) {
        const struct trace_access *ours = &stage->trace->accesses[op->first_access + a];
        const struct trace_access *theirs = &whole->accesses[whole->operators[m].first_access + a];
        bool buffer = ours->list == TRACE_ACTIVATION;
        g_assert_cmpint(ours->list, ==, list_here(drawn, &stage->operators[moment], theirs));
        g_assert_cmpint(ours->mode, ==, theirs->mode);
        g_assert_cmpstr(
            buffer ? stage->trace->buffers[ours->tensor].name
                   : stage->trace->tensors[ours->tensor].name,
            ==, buffer ? whole->buffers[theirs->tensor].name : whole->tensors[theirs->tensor].name);
    }
}

/* Every operator and every tensor of the whole is one stage's. */
static void test_partition(void)
{
    for (int i = 0; i < 100; i++) {
        struct drawn drawn;
        draw(&drawn);
        const struct trace *whole = drawn.whole->trace;
        g_autofree uint8_t *seen = g_new0(uint8_t, whole->operator_count);
        uint32_t tensors = 0, operators = 0;
        for (uint32_t s = 0; s < drawn.stages; s++) {
            GError *error = NULL;
            const struct model_iteration *stage = drawn.stage[s];
            g_assert_true(trace_check(stage->trace, "stage", &error));
            g_assert_no_error(error);
            for (uint32_t m = 0; m < stage->trace->operator_count; m++)
                if (!is_added(&stage->operators[m])) {
                    mark_operator(&drawn, stage, m, seen);
                    operators++;
                }
            for (tensor_id t = 0; t < stage->trace->tensor_count; t++)
                g_assert_cmpstr(stage->trace->tensors[t].name, ==,
                                whole->tensors[pipeline_tensor_in_whole(stage, t)].name);
            tensors += stage->trace->tensor_count;
        }
        g_assert_cmpuint(operators, ==, whole->operator_count);
        g_assert_cmpuint(tensors, ==, whole->tensor_count);
        clear(&drawn);
    }
}

/* Returns the messages that are under way from a stage to another, in a channel. */
static GQueue *queue_of(GQueue *queues, uint32_t from, uint32_t to, uint32_t channel)
{
    return &queues[(from * MOST_STAGES + to) * CHANNELS + channel];
}

static char *message_of(const struct model_iteration *stage, uint32_t moment)
{
    const struct trace_operator *op = &stage->trace->operators[moment];
    return g_strdup_printf("%d %u %" G_GUINT64_FORMAT, op->phase, op->micro_batch,
                           stage->operators[moment].bytes);
}

/* Returns the activation that a stage receives first. */
static char *first_activation(const struct model_iteration *stage)
{
    uint32_t m = 0;
    while (stage->operators[m].kind != MODEL_RECEIVE ||
           stage->operators[m].channel != PIPELINE_STREAM)
        m++;
    return message_of(stage, m);
}

/* A pipeline that never drains has one activation under way from each stage to the next, when a
 * step begins and when it ends. */
static void begin_under_way(const struct drawn *drawn, GQueue *sent)
{
    for (uint32_t s = 0; drawn->schedule == PIPELINE_2BW && s + 1 < drawn->stages; s++)
        g_queue_push_tail(queue_of(sent, s, s + 1, PIPELINE_STREAM),
                          first_activation(drawn->stage[s + 1]));
}

static void end_under_way(const struct drawn *drawn, GQueue *sent)
{
    for (uint32_t s = 0; drawn->schedule == PIPELINE_2BW && s + 1 < drawn->stages; s++) {
        g_autofree char *expected = first_activation(drawn->stage[s + 1]);
        g_autofree char *left = g_queue_pop_head(queue_of(sent, s, s + 1, PIPELINE_STREAM));
        g_assert_cmpstr(left, ==, expected);
    }
}

/* Runs the stages' operators as far as their messages allow, until all have ended. Messages between
 * two stages arrive in the order in which they were sent. */
static void replay(const struct drawn *drawn)
{
    uint32_t at[MOST_STAGES] = {0};
    g_autofree GQueue *sent = g_new0(GQueue, QUEUES); /* texts */
    bool moved = true;
    begin_under_way(drawn, sent);
    while (moved) {
        moved = false;
        for (uint32_t s = 0; s < drawn->stages; s++)
            for (const struct trace *trace = drawn->stage[s]->trace; at[s] < trace->operator_count;
                 at[s]++, moved = true) {
                const struct model_operator *op = &drawn->stage[s]->operators[at[s]];
                g_autofree char *what = message_of(drawn->stage[s], at[s]);
                if (op->kind == MODEL_SEND)
                    g_queue_push_tail(queue_of(sent, s, op->peer, op->channel),
                                      g_steal_pointer(&what));
                if (op->kind != MODEL_RECEIVE)
                    continue;
                g_autofree char *message =
                    g_queue_pop_head(queue_of(sent, op->peer, s, op->channel));
                if (!message)
                    break;
                g_assert_cmpstr(message, ==, what);
            }
    }
    for (uint32_t s = 0; s < drawn->stages; s++)
        g_assert_cmpuint(at[s], ==, drawn->stage[s]->trace->operator_count);
    end_under_way(drawn, sent);
    for (uint32_t i = 0; i < QUEUES; i++)
        g_assert_true(g_queue_is_empty(&sent[i]));
}

/* What the schedule allows: stages - s micro-batches in stage s, or all of them. */
static void check_in_flight(const struct drawn *drawn, uint32_t s)
{
    uint32_t ahead = pipeline_ahead(drawn->schedule, drawn->stages, s);
    uint32_t micro_batches = model_rank_micro_batches(&drawn->whole->job), now = ahead, most = 0;
    g_autofree struct pipeline_pass *passes = pipeline_passes(drawn->schedule, drawn->stages, s,
                                                              micro_batches);
    uint32_t next[2] = {ahead, 0};
    for (uint32_t i = 0; i < 2 * micro_batches; i++) {
        uint32_t number = next[passes[i].backward]++;
        g_assert_cmpuint(passes[i].micro_batch, ==, number % micro_batches);
        g_assert_cmpint(passes[i].next, ==, number >= micro_batches);
        now += passes[i].backward ? -1U : 1U;
        most = MAX(most, now);
    }
    g_assert_cmpuint(now, ==, ahead);
    g_assert_cmpuint(most, ==,
                     drawn->schedule == PIPELINE_GPIPE ? micro_batches
                                                       : MIN(drawn->stages - s, micro_batches));
}

/* Without the second halves of backward passes the order is that of 1F1B. They come in the order of
 * the micro-batches, each behind its first half, and something is kept of as many micro-batches as
 * there are stages. */
static void check_zero_bubble(const struct drawn *drawn, uint32_t s)
{
    const struct pipeline_shape shape = {drawn->stages, drawn->schedule, NULL, 1};
    uint32_t micro_batches = model_rank_micro_batches(&drawn->whole->job), count;
    uint32_t next[3] = {0}, kept = 0, most = 0, most_ahead = 0;
    g_autofree struct pipeline_pass *passes = pipeline_stage_passes(&shape, s, micro_batches,
                                                                    &count);
    g_assert_cmpuint(count, ==, 3 * micro_batches);
    for (uint32_t i = 0; i < count; i++) {
        int kind = passes[i].backward + passes[i].weights;
        g_assert_cmpuint(passes[i].micro_batch, ==, next[kind]++);
        kept += kind == 0 ? 1U : kind == 2 ? -1U : 0;
        most = MAX(most, kept);
        most_ahead = MAX(most_ahead, next[0] - next[1]);
        g_assert_cmpuint(next[2], <=, next[1]);
    }
    g_assert_cmpuint(most, ==, drawn->stages);
    g_assert_cmpuint(most_ahead, ==, drawn->stages - s);
}

/* The second halves read no parameters, whole or gathered, so nothing is gathered for them. */
static void check_second_halves(const struct model_iteration *stage)
{
    for (uint32_t m = 0; m < stage->trace->operator_count; m++) {
        const struct trace_operator *op = &stage->trace->operators[m];
        bool second = stage->operators[m].kind == MODEL_WEIGHT_BACKWARD;
        for (uint32_t a = 0; second && a < op->access_count; a++) {
            uint8_t list = stage->trace->accesses[op->first_access + a].list;
            g_assert_cmpuint(list, !=, TRACE_PARAM);
            g_assert_cmpuint(list, !=, TRACE_GATHERED);
        }
    }
}

/* Each part has the forward and the backward pass of every micro-batch once, in their order. The
 * stage runs ahead by no more passes than the schedule says, and its first backward pass is that of
 * the first micro-batch through its last part. */
static void check_interleaved(const struct drawn *drawn, uint32_t s)
{
    const struct pipeline_shape shape = {drawn->stages, drawn->schedule, NULL, drawn->parts};
    uint32_t micro_batches = model_rank_micro_batches(&drawn->whole->job), count;
    uint32_t next[2][MOST_LAYERS] = {{0}}, ahead = 0, most = 0;
    g_autofree struct pipeline_pass *passes = pipeline_stage_passes(&shape, s, micro_batches,
                                                                    &count);
    g_assert_cmpuint(count, ==, 2 * micro_batches * drawn->parts);
    for (uint32_t i = 0; i < count; i++) {
        g_assert_cmpuint(passes[i].part, <, drawn->parts);
        g_assert_cmpuint(passes[i].micro_batch, ==, next[passes[i].backward][passes[i].part]++);
        if (passes[i].backward && most == ahead)
            g_assert_true(i > most || passes[i].part + 1 == drawn->parts);
        ahead += passes[i].backward ? -1U : 1U;
        most = MAX(most, ahead);
    }
    uint32_t allowed = 2 * (drawn->stages - s - 1) + (drawn->parts - 1) * drawn->stages + 1;
    g_assert_cmpuint(most, ==, MIN(allowed, micro_batches * drawn->parts));
}

/* Micro-batches in flight have slots of their own, and slots are as few as their rounds allow. */
static void check_slots(const struct drawn *drawn, uint32_t s)
{
    const struct pipeline_cut *cut = drawn->stage[s]->cut;
    uint32_t micro_batches = model_rank_micro_batches(&drawn->whole->job), slots = 0;
    g_assert_cmpuint(cut->ahead, ==, pipeline_ahead(drawn->schedule, drawn->stages, s));
    g_assert_cmpuint(!cut->slots, ==, !cut->ahead);
    for (uint32_t m = 0; cut->ahead && m < micro_batches; m++) {
        slots = MAX(slots, pipeline_slot(cut, m) + 1);
        for (uint32_t i = 1; i <= cut->ahead; i++)
            g_assert_cmpuint(pipeline_slot(cut, m), !=,
                             pipeline_slot(cut, (m + i) % micro_batches));
    }
    uint32_t in_flight = cut->ahead + 1, rounds = micro_batches / in_flight;
    g_assert_cmpuint(slots, ==, cut->slots);
    g_assert_true(!cut->slots ||
                  slots == in_flight + (micro_batches % in_flight + rounds - 1) / rounds);
}

static struct trace_exchange sum_of(const struct drawn *drawn, enum trace_collective collective)
{
    struct trace_exchange sum = {0, 0};
    for (uint32_t s = 0; s < drawn->stages; s++) {
        struct trace_exchange of_stage = trace_exchanged(drawn->stage[s]->trace, collective);
        sum.sent_bytes += of_stage.sent_bytes;
        sum.received_bytes += of_stage.received_bytes;
    }
    return sum;
}

/* Each boundary is crossed by one activation and one gradient a micro-batch. Tied weights cross
 * once, and their gradient, unless they are frozen, in fp32 with every micro-batch. */
static void check_passes(const struct drawn *drawn)
{
    const struct model_job *job = &drawn->whole->job;
    uint64_t element = job->precision == MODEL_BF16 ? 2 : 4;
    uint64_t one = (uint64_t)job->choices.batch * job->sequence * drawn->config.width * element;
    uint64_t others = drawn->stages * drawn->parts - 1;
    uint64_t micro_batches = model_rank_micro_batches(job);
    uint64_t table = (uint64_t)drawn->config.vocabulary * drawn->config.width;
    uint64_t back = drawn->whole->choices->frozen[0] ? 0 : 4 * micro_batches;
    uint64_t tied = drawn->config.tied ? table * (element + back) : 0;
    struct trace_exchange passed = sum_of(drawn, TRACE_PASS);
    g_assert_cmpuint(passed.sent_bytes, ==, passed.received_bytes);
    g_assert_cmpuint(passed.sent_bytes, ==, 2 * others * micro_batches * one + tied);
}

/* Returns the bytes that a rank sends of newest parameters where ranks share parameters: each pass
 * of the next step makes those of its stage again. */
static uint64_t newest_sent(const struct drawn *drawn)
{
    const struct model_job *job = &drawn->whole->job;
    uint64_t sent = 0;
    if (drawn->schedule != PIPELINE_2BW || !model_shares_parameters(job))
        return 0;
    for (uint32_t s = 0; s < drawn->stages; s++) {
        const struct trace *trace = drawn->stage[s]->trace;
        for (tensor_id t = 0; t < trace->tensor_count; t++)
            if (!drawn->stage[s]->choices->frozen[t])
                sent += (drawn->stages - 1 - s) * (model_ranks(job) - 1) *
                        shard_of(trace->tensors[t].elements, model_ranks(job), 0).count *
                        trace->list_element_bytes[TRACE_PARAM];
    }
    return sent;
}

/* Ranks of a stage reduce and gather what they do without stages, and newest parameters. Before the
 * updates every stage shows all others the losses, the norms and a wish to stop, and its ranks each
 * other losses. */
static void check_shared(const struct drawn *drawn)
{
    const struct model_job *job = &drawn->whole->job;
    const struct trace *whole = drawn->whole->trace;
    uint64_t others = drawn->stages - 1;
    uint64_t numbers = job->choices.micro_batches + 1 + whole->tensor_count;
    uint64_t losses = (model_ranks(job) - 1) * (model_rank_micro_batches(job) + 1);
    struct trace_exchange gathered = sum_of(drawn, TRACE_GATHER);
    g_assert_cmpuint(sum_of(drawn, TRACE_REDUCE).sent_bytes, ==,
                     trace_exchanged(whole, TRACE_REDUCE).sent_bytes);
    g_assert_cmpuint(gathered.sent_bytes, ==,
                     trace_exchanged(whole, TRACE_GATHER).sent_bytes + newest_sent(drawn) +
                         (drawn->stages * others * numbers + others * losses) * sizeof(double));
}

/* Checks that each operand of a next step's operator is a buffer that one operator has made from
 * the master by then; where ranks share parameters, one of the same pass. */
static void check_newest_of(const struct model_iteration *stage, moment_id moment, uint32_t *made)
{
    const struct model_operator *op = &stage->operators[moment];
    const struct trace_operator *traced = &stage->trace->operators[moment];
    bool shares = model_shares_parameters(&stage->job);
    if (op->kind == MODEL_NEWEST) {
        g_assert_true(shares || made[op->t[0]] == NO_INDEX);
        g_assert_cmpuint(traced->access_count, ==, 1);
        g_assert_cmpint(stage->trace->accesses[traced->first_access].list, ==, TRACE_MASTER);
        made[op->t[0]] = op->out[0];
    }
    bool next = op->micro_batch >= model_rank_micro_batches(&stage->job);
    bool reads = next && op->kind <= MODEL_LOSS;
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->t[i] == NO_INDEX)
            continue;
        else if (reads || (op->kind == MODEL_UPDATE && traced->place == TRACE_ON_DEVICE &&
                           model_ranks(&stage->job) > 1 && !shares))
            g_assert_cmpuint(op->newest[i], ==, made[op->t[i]]);
        else
            g_assert_cmpuint(op->newest[i], ==, NO_INDEX);
    for (int i = 0; shares && i < MODEL_TENSORS; i++)
        if (op->newest[i] != NO_INDEX) {
            const struct trace_buffer *buffer = &stage->trace->buffers[op->newest[i]];
            const struct model_operator *maker = &stage->operators[buffer->first];
            g_assert_cmpuint(maker->kind, ==, MODEL_NEWEST);
            g_assert_cmpuint(maker->micro_batch, ==, op->micro_batch);
            g_assert_cmpuint(buffer->last, ==, moment);
        }
}

/* In bf16, and with several ranks, the next step's micro-batches read each newest parameter, unless
 * it is frozen, in a buffer. With one rank it lives until the last of them has read it, and
 * otherwise until the update makes it the parameter. Where ranks share parameters, it lives until
 * its operator has read it. */
static void check_newest(const struct drawn *drawn, uint32_t s)
{
    const struct model_iteration *stage = drawn->stage[s];
    const struct model_job *job = &drawn->whole->job;
    uint32_t tensors = stage->trace->tensor_count, buffers = 0, trained = 0;
    g_autofree uint32_t *made = g_new(uint32_t, tensors);
    memset(made, 0xff, tensors * sizeof *made);
    g_autofree uint32_t *last = g_new0(uint32_t, tensors);
    for (uint32_t m = 0; m < stage->trace->operator_count; m++) {
        const struct model_operator *op = &stage->operators[m];
        check_newest_of(stage, m, made);
        for (int i = 0; i < MODEL_TENSORS; i++)
            if (op->newest[i] != NO_INDEX)
                last[op->t[i]] = m;
    }
    for (tensor_id t = 0; t < tensors; t++)
        if (made[t] != NO_INDEX && last[t] > 0)
            g_assert_cmpuint(stage->trace->buffers[made[t]].last, ==, last[t]);
    for (tensor_id t = 0; t < tensors; t++) {
        buffers += made[t] != NO_INDEX;
        trained += !stage->choices->frozen[t];
    }
    bool needs = stage->cut->ahead > 0 && (job->precision == MODEL_BF16 || model_ranks(job) > 1);
    g_assert_cmpuint(buffers, ==, needs ? trained : 0);
}

static void test_schedules(void)
{
    for (int i = 0; i < 100; i++) {
        struct drawn drawn;
        draw(&drawn);
        replay(&drawn);
        check_passes(&drawn);
        check_shared(&drawn);
        for (uint32_t s = 0; s < drawn.stages; s++) {
            if (drawn.parts > 1)
                check_interleaved(&drawn, s);
            else if (drawn.schedule == PIPELINE_ZERO_BUBBLE)
                check_zero_bubble(&drawn, s);
            else
                check_in_flight(&drawn, s);
            check_slots(&drawn, s);
            check_newest(&drawn, s);
            check_second_halves(drawn.stage[s]);
        }
        clear(&drawn);
    }
}

static void expect_refusal(const struct model_config *config, const struct model_job *job,
                           uint32_t stages, const uint32_t *layers, const char *why)
{
    g_autoptr(GError) error = NULL;
    const struct pipeline_shape shape = {stages, PIPELINE_1F1B, layers, 1};
    g_assert_false(pipeline_check(config, job, &shape, &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_assert_nonnull(strstr(error->message, why));
}

static void test_refusals(void)
{
    struct model_config config = small_model(false, 0);
    struct model_job job = small_job(MODEL_FP32, 4), one = small_job(MODEL_BF16, 1);
    const uint32_t layers[] = {2, 2};
    expect_refusal(&config, &job, 4, NULL, "the model has only 3 layers");
    expect_refusal(&config, &one, 2, NULL, "and has 1");
    expect_refusal(&config, &job, 2, layers, "4 layers together, and the model has 3");
    struct model_job fast = job;
    fast.split = fast.choices.fast = true;
    expect_refusal(&config, &fast, 2, NULL, "--reduction exact would do");
    g_autofree uint8_t *frozen = model_every_tensor(&config);
    struct model_job some = job;
    frozen[model_layout_of(&config).layers_end - 1] = 0;
    some.choices.frozen = frozen;
    expect_refusal(&config, &some, 2, NULL, "nothing would be trained in the first");
    memset(frozen, 1, model_tensor_count(&config));
    frozen[0] = 0;
    expect_refusal(&config, &some, 2, NULL, "nothing would be trained in stage 1");
}

/* Stages have all layers, and as many as others, or one more, unless it is said how many. */
static void test_layers(void)
{
    for (uint32_t layers = 1; layers < 30; layers++)
        for (uint32_t stages = 1; stages <= layers; stages++) {
            const struct pipeline_shape shape = {stages, PIPELINE_1F1B, NULL, 1};
            g_assert_cmpuint(pipeline_first_layer(&shape, layers, 0), ==, 0);
            g_assert_cmpuint(pipeline_first_layer(&shape, layers, stages), ==, layers);
            for (uint32_t s = 0; s < stages; s++) {
                uint32_t count = pipeline_first_layer(&shape, layers, s + 1) -
                                 pipeline_first_layer(&shape, layers, s);
                g_assert_cmpuint(count, >=, layers / stages);
                g_assert_cmpuint(count, <=, layers / stages + 1);
            }
        }
    uint32_t stages;
    g_autofree uint32_t *given = pipeline_parse_layers("3,4,5", &stages, NULL);
    const struct pipeline_shape shape = {stages, PIPELINE_1F1B, given, 1};
    g_assert_cmpuint(stages, ==, 3);
    g_assert_cmpuint(pipeline_first_layer(&shape, 12, 2), ==, 7);
    const char *const wrong[] = {"", "3,", "0,1", "a", "3;4", "-1,2"};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(pipeline_parse_layers(wrong[i], &stages, &error));
        g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pipeline/partition", test_partition);
    g_test_add_func("/pipeline/schedules", test_schedules);
    g_test_add_func("/pipeline/layers", test_layers);
    g_test_add_func("/pipeline/refusals", test_refusals);
    return g_test_run();
}
