#include "planner/proof/prices.h"

bool time_is_placed(const struct trace_operator *op)
{
    return op->phase == TRACE_UPDATE_PHASE && op->access_count > 0;
}

/* Returns whether the updates of each side ascend by tensor; those of the host from tensor `first`
 * on, and round. */
static bool tensors_ascend(const struct trace *trace, tensor_id first)
{
    int64_t last[] = {[TRACE_ON_DEVICE] = -1, [TRACE_ON_HOST] = -1};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (!time_is_placed(op))
            continue;
        tensor_id tensor = trace->accesses[op->first_access].tensor;
        int64_t turn = op->place == TRACE_ON_HOST
                           ? (tensor + trace->tensor_count - first) % trace->tensor_count
                           : tensor;
        bool again = turn == last[op->place] && trace_is_cut(trace, tensor);
        if (turn <= last[op->place] && !again)
            return false;
        last[op->place] = turn;
    }
    return true;
}

static bool same_updates(const struct trace *a, const struct trace *b)
{
    for (uint32_t m = 0; m < a->operator_count; m++) {
        const struct trace_operator *of_a = &a->operators[m], *of_b = &b->operators[m];
        if (time_is_placed(of_a) != time_is_placed(of_b) ||
            (time_is_placed(of_a) &&
             a->accesses[of_a->first_access].tensor != b->accesses[of_b->first_access].tensor))
            return false;
    }
    return true;
}

static bool ascends_as_traced(const struct trace *traced)
{
    struct run_choices *choices = run_choices_of(traced);
    bool ascends = tensors_ascend(traced, choices->first_update);
    run_choices_free(choices);
    return ascends;
}

/* Placing sorts all updates, from the plan's first one on, or none (models/derive.h). If both sides
 * have the traced order, and it does not ascend, none are sorted. */
void time_job_set_order(struct time_job *job, const struct trace *traced)
{
    const struct trace *device = job->sides[TIME_DEVICE], *host = job->sides[TIME_HOST];
    const struct run_choices *choices = job->plan->choices;
    tensor_id first = choices ? choices->first_update : 0;
    bool ascend = host && tensors_ascend(device, first) && tensors_ascend(host, first) &&
                  ascends_as_traced(traced);
    job->sorts = ascend;
    job->in_order = !host || ascend || (same_updates(traced, device) && same_updates(traced, host));
}

/* The clock of threads that share cores ends a piece of work up to a thousandth of a nanosecond
 * early (sim/cores.c), and then rounds the iteration. So a piece counts one nanosecond less. The
 * times of the other clocks are whole, and no piece takes less than these. */
uint64_t time_job_at_least(const struct time_job *job, uint64_t ns)
{
    return job->costs->threads.known && ns ? ns - 1 : ns;
}

uint64_t time_job_copy_ns(const struct time_job *job, const struct cost *cost, uint64_t bytes)
{
    return time_job_at_least(job, costs_ns(cost, bytes));
}

/* A piece of work may end up to half a nanosecond early where its pace has changed. What takes no
 * time asks for no memory (sim/shared.c). */
uint64_t time_job_memory_ns(const struct time_job *job, uint64_t bytes, uint64_t alone_ns)
{
    double rate = job->costs->host_rate * 1e-9;
    uint64_t ns = alone_ns && rate > 0 ? (uint64_t)((double)bytes / rate) : 0;
    return ns ? ns - 1 : 0;
}

static uint64_t exchange_ns(const struct time_job *job, const struct trace_operator *op)
{
    return costs_exchanges(job->costs, op).alone_ns;
}

uint64_t time_job_network_ns(const struct time_job *job, const struct trace_operator *op)
{
    uint64_t sum_ns = trace_operator_reduces(op) ? op->duration_ns : 0;
    return time_job_at_least(job, exchange_ns(job, op) + sum_ns);
}

/* Adds what the computing thread of some devices does between two operators. The device waits for
 * what its operator exchanges, and for nothing of a reduction. */
uint64_t time_job_device_ns(const struct time_job *job, const struct trace_operator *op)
{
    const struct costs_threads *threads = &job->costs->threads;
    uint64_t gap_ns = threads->known ? (uint64_t)(threads->constants.gap_seconds * 1e9) : 0;
    if (trace_operator_reduces(op))
        return 0;
    return time_job_at_least(job, op->duration_ns + gap_ns) +
           time_job_at_least(job, exchange_ns(job, op));
}

/* Returns what the operators of the host take that run before that of moment `m`, behind the last
 * activations of theirs that move and behind the device's last operator. */
static uint64_t host_before_ns(const struct time_job *job, const struct trace *trace, moment_id m)
{
    uint64_t ns = 0;
    while (m-- > 0) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->place != TRACE_ON_HOST || time_is_placed(op) || op->h2d_bytes)
            break;
        ns += time_job_at_least(job, op->duration_ns);
        if (op->d2h_bytes)
            break;
    }
    return ns;
}

uint64_t time_job_idle_ns(const struct time_job *job, const struct trace *trace, moment_id m)
{
    const struct trace_operator *op = &trace->operators[m];
    uint64_t d2h_ns = time_job_copy_ns(job, &job->costs->d2h, op->d2h_bytes);
    if (trace->ranks > 1)
        return 0;
    if (!op->h2d_bytes)
        return d2h_ns;
    return d2h_ns + (d2h_ns ? 0 : host_before_ns(job, trace, m)) +
           time_job_at_least(job, op->duration_ns) +
           time_job_copy_ns(job, &job->costs->h2d, op->h2d_bytes);
}
