#include "engine/ranks_part.h"

/* Returns the messages with the numbers that their ranks have among all. Free with g_free. */
static struct ranks_message *among_all(const struct ranks *ranks,
                                       const struct ranks_message *messages, uint32_t count)
{
    struct ranks_message *all = g_new(struct ranks_message, count);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = messages[i];
        all[i].rank = ranks_number(ranks, messages[i].rank);
    }
    return all;
}

static void transfer(struct ranks *ranks, const struct ranks_message *sends, uint32_t send_count,
                     const struct ranks_message *receives, uint32_t receive_count)
{
    g_autofree struct ranks_message *sent = among_all(ranks, sends, send_count);
    g_autofree struct ranks_message *received = among_all(ranks, receives, receive_count);
    ranks->all->ops->transfer(ranks->all, sent, send_count, received, receive_count);
}

static void post(struct ranks *ranks, const struct ranks_message *sends, uint32_t count)
{
    g_autofree struct ranks_message *sent = among_all(ranks, sends, count);
    ranks->all->ops->post(ranks->all, sent, count);
}

static void copy(struct ranks *ranks, void *to, const void *from, uint64_t bytes)
{
    ranks->all->ops->copy(ranks->all, to, from, bytes);
}

static void fail(struct ranks *ranks, const char *message)
{
    ranks->all->ops->fail(ranks->all, message);
}

static const struct ranks_ops part_ops = {
    .transfer = transfer, .post = post, .copy = copy, .fail = fail};

struct ranks *ranks_part_new(struct ranks *all, uint32_t first, uint32_t step, uint32_t count)
{
    struct ranks *part = g_new0(struct ranks, 1);
    *part = (struct ranks){.ops = &part_ops,
                           .all = all,
                           .first = first,
                           .step = step,
                           .rank = (all->rank - first) / step,
                           .count = count,
                           .hosts = g_new0(char *, count + 1)};
    for (uint32_t r = 0; r < count; r++)
        part->hosts[r] = g_strdup(all->hosts[ranks_number(part, r)]);
    return part;
}

void ranks_part_free(struct ranks *part)
{
    if (!part)
        return;
    g_strfreev(part->hosts);
    g_free(part);
}
