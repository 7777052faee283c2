/* The choices of a run: each difference is found, copies are equal, a trace's own choices are read
 * off its operators, and layers are written as --recompute takes them. */
#include "traces/choices.h"

#include <string.h>

enum { LAYERS = 9, TENSORS = 4 };

/* Choices with something in each field. */
static struct run_choices *some_choices(void)
{
    struct run_choices *choices = run_choices_new(LAYERS, TENSORS);
    choices->recompute[2] = choices->recompute[3] = choices->offload[8] = 1;
    choices->host_update[1] = 1;
    choices->update_after[1] = 3;
    choices->host_embedding = true;
    choices->batch = 4;
    choices->micro_batches = 2;
    return choices;
}

static void test_copy(void)
{
    struct run_choices *choices = some_choices(), *copy = run_choices_copy(choices);
    const struct run_choices sparse = {.layer_count = LAYERS, .tensor_count = TENSORS};
    g_assert_true(run_choices_equal(choices, copy));
    g_assert_true(copy->recompute != choices->recompute && copy->offload != choices->offload &&
                  copy->host_update != choices->host_update &&
                  copy->update_after != choices->update_after);
    run_choices_free(copy);
    copy = run_choices_copy(&sparse);
    struct run_choices *none = run_choices_new(LAYERS, TENSORS);
    g_assert_true(run_choices_equal(copy, none));
    g_assert_false(run_choices_equal(copy, choices));
    run_choices_free(none);
    run_choices_free(copy);
    run_choices_free(choices);
    run_choices_free(NULL);
}

/* Every field alone, and two together. */
static void test_differ(void)
{
    struct run_choices *a = some_choices(), *b = run_choices_copy(a);
    g_assert_cmpuint(run_choices_differ(a, b), ==, 0);
    b->recompute[0] ^= 1;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_RECOMPUTE);
    b->host_update[3] ^= 1;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_RECOMPUTE | RUN_UPDATES);
    b->recompute[0] ^= 1;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_UPDATES);
    b->host_update[3] ^= 1;
    b->update_after[1] = NO_INDEX;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_UPDATES);
    b->update_after[1] = 3;
    b->first_update = 2;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_UPDATES);
    b->first_update = 0;
    b->offload[8] ^= 1;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_OFFLOAD);
    b->offload[8] ^= 1;
    b->host_embedding = false;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_EMBEDDING);
    b->host_embedding = true;
    b->split_masters = true;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_MASTERS);
    b->split_masters = false;
    b->second_backward = true;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_MASTERS);
    b->second_backward = false;
    b->batch++;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_MICRO_BATCHES);
    b->batch--;
    b->micro_batches++;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_MICRO_BATCHES);
    b->micro_batches--;
    b->stage = 3;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_STAGE);
    b->stage = 0;
    b->state_block = 1024;
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_STATE_BLOCKS);
    b->state_block = 0;
    b->frozen[2] = 1; /* trains as another model */
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_EVERY_CHOICE);
    b->frozen[2] = 0;
    b->layer_count--; /* another model's */
    g_assert_cmpuint(run_choices_differ(a, b), ==, RUN_EVERY_CHOICE);
    run_choices_free(b);
    run_choices_free(a);
}

static void test_describe(void)
{
    struct run_choices *choices = some_choices();
    g_autofree char *text = run_choices_describe(choices);
    g_assert_cmpstr(text, ==,
                    "recomputes 2 of 9 layers; offloads the activations of 1 of 9 layers; updates "
                    "1 of 4 tensors on the host, 1 of them within backward; embeds on the host");
    memset(choices->recompute, 1, LAYERS);
    memset(choices->offload, 0, LAYERS);
    choices->update_after[1] = NO_INDEX;
    choices->host_embedding = false;
    choices->split_masters = choices->second_backward = true;
    g_autofree char *other = run_choices_describe(choices);
    g_assert_cmpstr(other, ==,
                    "recomputes all layers; updates 1 of 4 tensors on the host; splits masters; "
                    "runs backward twice");
    choices->split_masters = choices->second_backward = false;
    choices->stage = 2;
    g_autofree char *shared = run_choices_describe(choices);
    g_assert_cmpstr(shared, ==,
                    "recomputes all layers; updates 1 of 4 tensors on the host; shares gradients "
                    "and optimizer states among ranks (stage 2)");
    choices->stage = 0;
    choices->frozen[0] = choices->frozen[2] = choices->frozen[3] = 1;
    g_autofree char *trained = run_choices_describe(choices);
    g_assert_cmpstr(trained, ==,
                    "recomputes all layers; updates 1 of 4 tensors on the host; trains 1 of 4 "
                    "tensors");
    memset(choices->frozen, 0, TENSORS);
    choices->first_update = 1;
    g_autofree char *begun = run_choices_describe(choices);
    g_assert_cmpstr(begun, ==,
                    "recomputes all layers; updates 1 of 4 tensors on the host, from tensor 1 on");
    choices->first_update = 0;
    choices->state_block = 2048;
    g_autofree char *cut = run_choices_describe(choices);
    g_assert_cmpstr(cut, ==,
                    "recomputes all layers; updates 1 of 4 tensors on the host; cuts states into "
                    "blocks of 2048");
    run_choices_free(choices);
}

/* An operator of each kind that says something. */
static void test_of_trace(void)
{
    struct trace_access accesses[] = {{.tensor = 1, .list = TRACE_PARAM},
                                      {.tensor = 0, .list = TRACE_ACTIVATION}};
    struct trace_operator operators[] = {
        {.name = "forward embeddings", .phase = TRACE_FORWARD, .place = TRACE_ON_HOST, .layer = -1},
        {.name = "recompute h.1.attn", .phase = TRACE_BACKWARD, .layer = 1},
        {.name = "backward again h.0.attn",
         .phase = TRACE_BACKWARD,
         .layer = 0,
         .first_access = 1,
         .access_count = 1},
        {.name = "update b",
         .phase = TRACE_UPDATE_PHASE,
         .place = TRACE_ON_HOST,
         .layer = -1,
         .first_access = 0,
         .access_count = 1}};
    struct trace_tensor tensors[] = {{.name = "a", .absent = 1 << TRACE_EXP_AVG}, {.name = "b"}};
    const struct trace trace = {.batch = 3,
                                .micro_batches = 5,
                                .list_element_bytes = {[TRACE_MASTER] = 2},
                                .tensors = tensors,
                                .tensor_count = 2,
                                .operators = operators,
                                .operator_count = G_N_ELEMENTS(operators),
                                .accesses = accesses};
    struct run_choices *choices = run_choices_of(&trace);
    const struct run_choices expected = {.layer_count = 2,
                                         .tensor_count = 2,
                                         .recompute = (uint8_t[]){0, 1},
                                         .offload = (uint8_t[]){1, 0},
                                         .host_update = (uint8_t[]){0, 1},
                                         .update_after = (tensor_id[]){NO_INDEX, NO_INDEX},
                                         .frozen = (uint8_t[]){1, 0},
                                         .host_embedding = true,
                                         .split_masters = true,
                                         .second_backward = true,
                                         .batch = 3,
                                         .micro_batches = 5};
    g_assert_cmpuint(run_choices_differ(choices, &expected), ==, 0);
    run_choices_free(choices);
}

static void test_layers_round_trip(void)
{
    for (uint32_t set = 0; set < 1u << LAYERS; set++) {
        uint8_t marks[LAYERS], read[LAYERS];
        for (uint32_t l = 0; l < LAYERS; l++)
            marks[l] = set >> l & 1;
        g_autofree char *text = run_layers_format(marks, LAYERS);
        g_assert_true(run_layers_parse(text, read, LAYERS));
        g_assert_cmpmem(marks, LAYERS, read, LAYERS);
    }
}

static void test_layers_texts(void)
{
    const uint8_t some[LAYERS] = {1, 0, 1, 1, 1, 0, 0, 1, 1};
    static const char *const refused[] = {"",  "9",  "2-1", "-1",   "1-",    "1-9", "1,,",
                                          "a", "1 ", "+1",  "all,", "1-2-3", "0x1", "1--2"};
    uint8_t marks[LAYERS];
    g_autofree char *text = run_layers_format(some, LAYERS);

    g_assert_cmpstr(text, ==, "0,2-4,7-8");
    g_assert_true(run_layers_parse("8,0-1,1", marks, LAYERS));
    g_assert_cmpmem(marks, LAYERS, ((const uint8_t[LAYERS]){1, 1, 0, 0, 0, 0, 0, 0, 1}), LAYERS);
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_test_message("'%s'", refused[i]);
        g_assert_false(run_layers_parse(refused[i], marks, LAYERS));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/run-choices/copy", test_copy);
    g_test_add_func("/run-choices/differ", test_differ);
    g_test_add_func("/run-choices/describe", test_describe);
    g_test_add_func("/run-choices/of-trace", test_of_trace);
    g_test_add_func("/run-choices/layers-round-trip", test_layers_round_trip);
    g_test_add_func("/run-choices/layers-texts", test_layers_texts);
    return g_test_run();
}
