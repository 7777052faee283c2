/* Work waits for what it depends on, across queues, and runs in order within one. */
#include "engine/host/queues.h"

struct log {
    GMutex lock;
    GArray *numbers; /* of int, in the order in which work ran */
};

struct queue_of_test {
    struct log *log;
    uint32_t delay_us;
};

static void note(void *self, const void *work, bool at_once)
{
    struct queue_of_test *queue = self;
    (void)at_once;
    g_usleep(queue->delay_us);
    g_mutex_lock(&queue->log->lock);
    g_array_append_vals(queue->log->numbers, work, 1);
    g_mutex_unlock(&queue->log->lock);
}

static uint32_t position(const struct log *log, int number)
{
    for (uint32_t i = 0; i < log->numbers->len; i++)
        if (g_array_index(log->numbers, int, i) == number)
            return i;
    g_assert_not_reached();
}

/* Queues of different speeds; each piece waits for one that was put before, drawn at random.
 */
static void test_order(void)
{
    enum { PIECES = 300 };
    struct log log = {.numbers = g_array_new(FALSE, FALSE, sizeof(int))};
    struct queue_of_test of[MOVER_QUEUES] = {{&log, 0},  {&log, 50}, {&log, 200}, {&log, 10},
                                             {&log, 20}, {&log, 0},  {&log, 100}};
    struct work_queues *queues = queues_new();
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        queues_start(queues, (enum mover_queue)q, note, NULL, &of[q], NULL);

    enum mover_queue where[PIECES];
    mover_ticket ticket[PIECES];
    int waits_for[PIECES];
    for (int i = 0; i < PIECES; i++) {
        where[i] = (enum mover_queue)g_test_rand_int_range(MOVER_H2D, MOVER_QUEUES);
        waits_for[i] = i ? g_test_rand_int_range(MAX(0, i - 8), i) : -1;
        struct mover_after after = {.queue = {0}};
        if (i)
            after.queue[where[waits_for[i]]] = ticket[waits_for[i]];
        ticket[i] = queues_put(queues, where[i], &i, sizeof i, &after);
    }
    struct mover_after all = queues_all(queues);
    g_assert_cmpuint(queues_wait(queues, &all), >, 0);
    g_assert_cmpuint(log.numbers->len, ==, PIECES);
    g_assert_cmpuint(queues_wait(queues, &all), ==, 0);
    for (int i = 1; i < PIECES; i++) {
        g_assert_cmpuint(position(&log, i), >, position(&log, waits_for[i]));
        for (int before = 0; before < i; before++)
            if (where[before] == where[i])
                g_assert_cmpuint(position(&log, i), >, position(&log, before));
    }
    queues_free(queues);
    g_array_unref(log.numbers);
}

static void test_own_work(void)
{
    struct work_queues *queues = queues_new();
    struct log log = {.numbers = g_array_new(FALSE, FALSE, sizeof(int))};
    struct queue_of_test of = {&log, 0};
    int number = 7;
    queues_start(queues, MOVER_D2H, note, NULL, &of, NULL);
    struct mover_after after = {.queue = {[MOVER_COMPUTE] = 1}};
    queues_put(queues, MOVER_D2H, &number, sizeof number, &after);
    g_usleep(20000);
    g_mutex_lock(&log.lock);
    g_assert_cmpuint(log.numbers->len, ==, 0);
    g_mutex_unlock(&log.lock);
    g_assert_cmpuint(queues_complete(queues, MOVER_COMPUTE), ==, 1);
    queues_free(queues); /* completes what is queued */
    g_assert_cmpuint(log.numbers->len, ==, 1);
    g_array_unref(log.numbers);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/queues/order", test_order);
    g_test_add_func("/queues/own-work", test_own_work);
    return g_test_run();
}
