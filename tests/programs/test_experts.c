/* Mixtures of experts from their config to a plan, and to a run with it. */
#include "workshop.h"

#include <string.h>

#define CONFIG_BEGIN                                                                             \
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 3, \"hidden_size\": 64,\n"             \
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 96,\n"      \
    " \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"max_position_embeddings\": 128,\n" \
    " \"vocab_size\": 256"
#define RUN                                                                        \
    "pstar-run --model experts.json --data text.txt --batch 2 --seq 64 --steps 3 " \
    "--precision bf16 --threads 1 "
#define SYNTH    "pstar-trace synth --model experts.json --batch 2 --seq 64 --precision bf16 "
#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "

static struct workshop *open_workshop(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "experts.json", CONFIG_BEGIN "}\n");
    return workshop;
}

/* Traces are simulated and planned, with choices that need their model to be recognised. A trace
 * with given loads lacks experts that a run's router may choose, so that its plan is no plan for a
 * run. */
static void test_planned(void)
{
    static const char *const loads[] = {"balanced", "5,0,0,2,0,0,0,1"};
    struct workshop *workshop = open_workshop();
    for (size_t i = 0; i < G_N_ELEMENTS(loads); i++) {
        g_autofree char *synth = g_strdup_printf(SYNTH PLATFORM "--expert-loads %s -o run.pstar",
                                                 loads[i]);
        workshop_must_run(workshop, synth);
        workshop_must_run(workshop,
                          "pstar-sim run.pstar " PLATFORM "--policy opt --device-memory 2MiB");
        if (i == 0)
            continue; /* plans of one are enough */
        g_autofree char *said = workshop_must_print(
            workshop,
            "pstar-plan run.pstar " PLATFORM "--device-memory 1500KiB --recompute any "
            "--offload-activations traced --embedding traced --bytes-per-parameter traced "
            "-o plan.json");
        g_assert_nonnull(strstr(said, "Proved for any schedule"));
        g_assert_null(strstr(said, "does not describe"));
    }
    workshop_must_end(workshop, RUN "--plan plan.json", 2, "", "the plan was made for another run");
    workshop_free(workshop);
}

static void test_shares(void)
{
    struct workshop *workshop = open_workshop();
    workshop_must_end(workshop, SYNTH "-o run.pstar", 0,
                      "experts: 256 rows a layer, 2 to a token, go to 24 of 24 (100 %); all are "
                      "updated",
                      "");
    workshop_must_end(workshop, SYNTH "--expert-loads 5,0,0,2,0,0,0,1 -o run.pstar", 0,
                      "go to 9 of 24 (37.5 %)", "");
    workshop_must_end(workshop, SYNTH "--expert-loads 0.5,1,1,1,1,1,1,1 -o run.pstar", 2, "",
                      "--expert-loads 0.5,1,1,1,1,1,1,1: must be whole numbers");
    workshop_must_end(workshop, SYNTH "--expert-loads 1,2 -o run.pstar", 2, "",
                      "--expert-loads 1,2: must be numbers for 8 experts");
    workshop_must_end(workshop,
                      "pstar-trace synth --model model --batch 2 --seq 64 --precision bf16 "
                      "--expert-loads 1,2 -o run.pstar",
                      2, "", "--expert-loads 1,2: the model has no experts");
    workshop_free(workshop);
}

/* A plan made from the synthesised trace is carried out, and losses are those of everything
 * resident. */
static void test_run(void)
{
    struct workshop *workshop = open_workshop();
    workshop_must_run(workshop, SYNTH PLATFORM "-o run.pstar");
    workshop_must_run(workshop, "pstar-plan run.pstar " PLATFORM "--device-memory 3MiB "
                                "--recompute traced --offload-activations traced "
                                "--embedding traced --bytes-per-parameter traced -o plan.json");
    workshop_must_run(workshop, RUN "--plan plan.json --log planned.jsonl");
    workshop_must_run(workshop, RUN "--log resident.jsonl");
    json_t *planned = workshop_read_json_lines(workshop, "planned.jsonl");
    json_t *resident = workshop_read_json_lines(workshop, "resident.jsonl");
    g_assert_cmpuint(json_array_size(planned), ==, 3);
    for (size_t i = 0; i < json_array_size(planned); i++)
        g_assert_true(json_equal(json_object_get(json_array_get(planned, i), "loss"),
                                 json_object_get(json_array_get(resident, i), "loss")));
    json_decref(planned);
    json_decref(resident);
    workshop_free(workshop);
}

/* Trains a config with this key more. Returns the losses and gradient norms of its steps, one after
 * the other; the caller frees them with g_array_unref. */
static GArray *train_with(struct workshop *workshop, const char *key, const char *options)
{
    static const char *const keys[] = {"loss", "gradient_norm"};
    g_autofree char *config = g_strdup_printf(CONFIG_BEGIN "%s}\n", key);
    g_autofree char *run = g_strconcat(RUN "--seed 5 --log run.jsonl ", options, NULL);
    GArray *values = g_array_new(FALSE, FALSE, sizeof(double));
    workshop_write(workshop, "experts.json", config);
    workshop_must_run(workshop, run);
    json_t *lines = workshop_read_json_lines(workshop, "run.jsonl");
    for (size_t i = 0; i < G_N_ELEMENTS(keys) * json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i / G_N_ELEMENTS(keys));
        double value = json_real_value(json_object_get(line, keys[i % G_N_ELEMENTS(keys)]));
        g_array_append_val(values, value);
    }
    json_decref(lines);
    return values;
}

/* Returns by how much a value of `a` is greater than that of `b`. */
static double more(const GArray *a, const GArray *b, guint i)
{
    return g_array_index(a, double, i) - g_array_index(b, double, i);
}

/* The loss of the first step has the imbalance, which with two of eight experts a row is at least
 * about 2, times its coefficient, whatever the number of micro-batches; and it has a gradient.
 * Chunks and recomputation change no bit. */
static void test_imbalance(void)
{
    static const char *const steps[] = {"--micro-batches 1 ", "--micro-batches 3 "};
    static const char counts[] = ", \"output_router_logits\": true, \"router_aux_loss_coef\": 0.5";
    struct workshop *workshop = open_workshop();
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        g_autofree char *placed =
            g_strconcat(steps[i], "--chunk-size 16KiB --recompute 0,2 --policy lru ", NULL);
        g_autoptr(GArray) without = train_with(workshop, "", steps[i]);
        g_autoptr(GArray) with = train_with(workshop, counts, steps[i]);
        g_autoptr(GArray) again = train_with(workshop, counts, placed);
        g_assert_cmpfloat(more(with, without, 0), >, 0.95);
        g_assert_cmpfloat(more(with, without, 0), <, 1.6);
        g_assert_cmpfloat(more(with, without, 1), !=, 0);
        g_assert_cmpmem(with->data, with->len * sizeof(double), again->data,
                        again->len * sizeof(double));
    }
    workshop_must_run(workshop, SYNTH "--micro-batches 2 " PLATFORM "-o run.pstar");
    workshop_must_end(workshop, "pstar-sim run.pstar --stages 2 --policy opt " PLATFORM, 2, "",
                      "which stages do not exchange; set output_router_logits to false");
    workshop_must_end(workshop, "pstar-plan run.pstar --gpus 2 --stages 2 " PLATFORM, 2, "",
                      "--stages: a loss of the experts' imbalance sums over the routers");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/experts/planned", test_planned);
    g_test_add_func("/experts/shares", test_shares);
    g_test_add_func("/experts/run", test_run);
    g_test_add_func("/experts/imbalance", test_imbalance);
    return g_test_run();
}
