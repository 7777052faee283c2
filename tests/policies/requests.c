#include "tests/policies/requests.h"

#include <stdlib.h>
#include <string.h>

static struct requests *requests_of(GArray *items)
{
    struct requests *requests = g_new0(struct requests, 1);
    requests->count = items->len;
    requests->items = (struct request *)g_array_free(items, FALSE);
    for (uint32_t i = 0; i < requests->count; i++)
        requests->chunk_count = MAX(requests->chunk_count, requests->items[i].chunk + 1);
    g_autofree uint32_t *next = g_new0(uint32_t, requests->chunk_count);
    requests->next = g_new(uint32_t, requests->count);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = requests->count; i-- > 0;) {
            uint32_t *use = &next[requests->items[i].chunk];
            requests->next[i] = *use;
            *use = i;
        }
        for (uint32_t c = 0; c < requests->chunk_count; c++)
            next[c] += requests->count;
    }
    return requests;
}

struct requests *requests_parse(const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GArray *items = g_array_new(FALSE, FALSE, sizeof(struct request));
    for (char **line = lines; *line; line++) {
        if (!g_ascii_isdigit(**line))
            continue;
        char *end;
        struct request request = {.chunk = (uint32_t)strtoul(*line, &end, 10)};
        request.writes = strchr(end, 'w') != NULL;
        g_array_append_val(items, request);
    }
    return requests_of(items);
}

struct requests *requests_read(const char *path)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    if (!g_file_get_contents(path, &text, NULL, &error))
        g_error("%s", error->message);
    return requests_parse(text);
}

struct requests *requests_draw(GRand *random, uint32_t count, uint32_t chunks)
{
    GArray *items = g_array_new(FALSE, FALSE, sizeof(struct request));
    while (items->len < count) {
        uint32_t start = (uint32_t)g_rand_int_range(random, 0, (gint32)chunks);
        uint32_t length = (uint32_t)g_rand_int_range(random, 1, (gint32)chunks + 1);
        int pattern = g_rand_int_range(random, 0, 4);
        for (uint32_t i = 0; i < length && items->len < count; i++) {
            struct request request = {.writes = !g_rand_int_range(random, 0, 3)};
            double share = g_rand_double(random);
            if (pattern == 0)
                request.chunk = (start + i) % chunks;
            else if (pattern == 1)
                request.chunk = (start + chunks - i) % chunks;
            else
                request.chunk = (uint32_t)(share * share * share * chunks);
            g_array_append_val(items, request);
        }
    }
    return requests_of(items);
}

void requests_free(struct requests *requests)
{
    g_free(requests->items);
    g_free(requests->next);
    g_free(requests);
}

uint32_t requests_seed(void)
{
    const char *given = g_getenv("PSTAR_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : g_random_int();
    g_test_message("PSTAR_SEED=%u", seed);
    return seed;
}
