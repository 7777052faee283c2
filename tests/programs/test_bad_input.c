/* Bad input gets one clear line that names file, place and reason; nothing is written. */
#include "database.h"

#include <string.h>

#define RUN     "pstar-run --model model --data text.txt --batch 2 --seq 32 --steps 1 "
#define BUDGET  "--device-memory 16MiB "
#define SIM     "pstar-sim good.pstar --policy lru --device-memory 30% "
#define PLANNED "pstar-run --batch 2 --seq 32 --steps 1 --log out.jsonl --plan "

struct bad {
    const char *name;
    const char *command;
    int status;
    const char *says[3]; /* all of them stand in the message */
};

static const struct bad table[] = {
    /* traces */
    {"trace/missing", "pstar-trace info none.pstar", 2, {"none.pstar", "No such file"}},
    {"trace/empty", "pstar-trace check empty.pstar", 2, {"empty.pstar", "not a trace"}},
    {"trace/text", "pstar-trace info text.txt", 2, {"text.txt", "not a trace"}},
    {"trace/truncated", "pstar-trace check truncated.pstar", 2, {"truncated.pstar", "truncated"}},
    {"trace/other-database", "pstar-trace check other.db", 2, {"other.db", "not a trace"}},
    {"trace/other-version", "pstar-trace check version.pstar", 2, {"version.pstar", "version 99"}},
    {"trace/contradiction", "pstar-trace check broken.pstar", 2, {"broken.pstar", "accesses"}},
    {"trace/activity",
     "pstar-trace info memset.pstar",
     2,
     {"memset.pstar", "row 1", "ends before"}},
    {"trace/activity-check",
     "pstar-trace check memset.pstar",
     2,
     {"CUPTI_ACTIVITY_KIND_MEMSET", "row 1", "ends before"}},
    {"trace/no-call", "pstar-trace check call.pstar", 2, {"call.pstar", "MEMSET", "correlation 7"}},
    {"trace/export", "pstar-trace export truncated.pstar -o out.json", 2, {"truncated.pstar"}},
    {"sim/truncated",
     "pstar-sim truncated.pstar --device-memory 30% --json out.json --csv out.csv",
     2,
     {"truncated.pstar", "truncated"}},
    {"sim/other-version",
     "pstar-sim version.pstar --device-memory 30% --json out.json",
     2,
     {"version.pstar", "version 99"}},
    {"plan/truncated",
     "pstar-plan truncated.pstar --device-memory 1MiB -o out.json",
     2,
     {"truncated.pstar", "truncated"}},
    {"plan/text",
     "pstar-plan text.txt --device-memory 1MiB -o out.json",
     2,
     {"text.txt", "not a trace"}},
    {"report/text", "pstar-report text.txt -o out", 2, {"text.txt"}},
    {"report/truncated", "pstar-report truncated.pstar -o out", 2, {"truncated.pstar"}},
    {"report/other-model",
     "pstar-report wider.pstar good.json --text",
     2,
     {"good.json and wider.pstar are not of the same step: the model is "}},

    /* what never ends */
    {"endless/report", "pstar-report /dev/zero -o out", 2, {"/dev/zero", "not a regular file"}},
    {"endless/trace", "pstar-trace info /dev/zero", 2, {"/dev/zero", "not a regular file"}},
    {"endless/platform",
     "pstar-sim good.pstar --device-memory 30% --platform /dev/zero --json out.json",
     2,
     {"/dev/zero", "not a regular file"}},
    {"endless/config",
     "pstar-run --model /dev/zero --data text.txt --log out.jsonl",
     2,
     {"/dev/zero", "not a regular file"}},
    {"endless/text",
     "pstar-run --model model --data /dev/zero --log out.jsonl",
     2,
     {"/dev/zero", "not a regular file"}},
    {"endless/planned",
     PLANNED "/dev/zero --model model --data text.txt",
     2,
     {"/dev/zero", "not a regular file"}},
    {"endless/resume",
     "pstar-run --resume /dev/zero --data text.txt --log out.jsonl",
     2,
     {"/dev/zero"}},

    /* what cannot be read: not the end of a text, nor what is read as zeros */
    {"unreadable/plan",
     "pstar-plan --explain /proc/self/mem",
     2,
     {"/proc/self/mem: Input/output error"}},
    {"unreadable/layout",
     "pstar-sim good.pstar --device-memory 30% --layout /proc/self/mem --json out.json",
     2,
     {"/proc/self/mem: Input/output error"}},

    {"unreadable/trace", "pstar-trace info /proc/self/mem", 2, {"/proc/self/mem: "}},
    {"unreadable/text",
     "pstar-tokens --model " PROJECT_DIR "/tests/models/tokenizer /proc/self/mem -o out.json",
     2,
     {"/proc/self/mem", "Input/output error"}},

    {"resume/no-checkpoint",
     "pstar-run --resume model --data text.txt --log out.jsonl",
     2,
     {"model: not a checkpoint, because it has no trainer.json"}},
    {"weights/dangling",
     "pstar-run --model dangling --data text.txt --log out.jsonl",
     2,
     {"dangling/model.safetensors", "No such file"}},

    /* sizes, rates and names on the command line */
    {"size/run", RUN "--device-memory 64MB0 --log out.jsonl", 2, {"64MB0"}},
    {"size/chunk", RUN BUDGET "--chunk-size 64MB0 --log out.jsonl", 2, {"64MB0"}},
    {"size/sim", "pstar-sim good.pstar --device-memory 64MB0 --json out.json", 2, {"64MB0"}},
    {"size/plan", "pstar-plan good.pstar --device-memory 64MB0 -o out.json", 2, {"64MB0"}},
    {"emit/unknown",
     "pstar-plan good.pstar --device-memory 64MiB --emit horovod -o out.json",
     2,
     {"deepspeed, fsdp or fsdp2"}},
    {"size/negative", "pstar-plan good.pstar --device-memory=-1MiB -o out.json", 2, {"-1MiB"}},
    {"size/no-chunk", RUN BUDGET "--chunk-size 0 --log out.jsonl", 2, {"--chunk-size 0"}},
    {"size/huge-chunk",
     RUN BUDGET "--chunk-size 18446744073709551615 --log out.jsonl",
     2,
     {"--chunk-size"}},
    {"size/no-budgets", "pstar-sim good.pstar --device-memory '' --json out.json", 2, {"''"}},
    {"size/no-sizes",
     "pstar-sim good.pstar --device-memory 30% --chunk-size '' --json out.json",
     2,
     {"''"}},
    {"size/list", RUN BUDGET "--chunk-size weights=1MiB --log out.jsonl", 2, {"'weights'"}},
    {"size/list-missing",
     RUN BUDGET "--chunk-size param=1MiB --log out.jsonl",
     2,
     {"list grad has no size"}},
    {"size/list-none",
     "pstar-sim good.pstar --device-memory 30% --chunk-size master=1MiB,2MiB --json out.json",
     2,
     {"this run has no list master"}},
    {"size/two", RUN BUDGET "--chunk-size 1MiB,2MiB --log out.jsonl", 2, {"'2MiB'"}},

    /* layouts */
    {"layout/missing",
     "pstar-sim good.pstar --device-memory 30% --layout none.json --json out.json",
     2,
     {"none.json", "No such file"}},
    {"layout/short",
     "pstar-sim good.pstar --device-memory 30% --layout short.json --json out.json",
     2,
     {"short.json", "list param", "is missing"}},
    {"layout/short-run",
     RUN BUDGET "--layout short.json --log out.jsonl",
     2,
     {"short.json", "list param", "is missing"}},
    {"layout/short-plan",
     "pstar-plan good.pstar --device-memory 1MiB --layout short.json -o out.json",
     2,
     {"short.json", "list param", "is missing"}},
    {"layout/twice",
     "pstar-sim good.pstar --device-memory 30% --layout twice.json --json out.json",
     2,
     {"twice.json", "wte.weight", "twice"}},
    {"layout/small",
     RUN BUDGET "--layout small.json --log out.jsonl",
     2,
     {"small.json", "chunk 0 takes", "chunk_bytes allows 256"}},
    {"layout/other-model",
     "pstar-run --model wider.json --data text.txt --batch 2 --seq 32 --layout good.json",
     2,
     {"good.json", "model"}},
    {"layout/and-size",
     RUN BUDGET "--layout good.json --chunk-size 1MiB --log out.jsonl",
     2,
     {"--layout", "--chunk-size"}},
    {"look-ahead/none",
     "pstar-sim good.pstar --device-memory 30% --look-ahead '' --json out.json",
     2,
     {"''"}},
    {"look-ahead/negative",
     "pstar-sim good.pstar --device-memory 30% --look-ahead=-1 --json out.json",
     2,
     {"--look-ahead: '-1'"}},
    {"look-ahead/of-strategies",
     "pstar-sim good.pstar --device-memory 30% --look-ahead 3 --strategy resident --json out.json",
     2,
     {"--look-ahead 3: strategies have their own", "--policy"}},
    {"size/no-unit-in-range",
     "pstar-sim good.pstar --device-memory 30% --chunk-size 768:1MiB --json out.json",
     2,
     {"--chunk-size 768:1MiB: '768' has no unit"}},
    {"size/no-unit-in-plan",
     "pstar-plan good.pstar --device-memory 1MiB --chunk-size 768 -o out.json",
     2,
     {"--chunk-size 768: '768' has no unit"}},
    {"seconds/no-time",
     "pstar-plan good.pstar --device-memory 1MiB --time-limit 0 -o out.json",
     2,
     {"--time-limit 0: must be a number in [1e-09, inf)"}},
    {"seconds/no-step",
     "pstar-plan good.pstar --min-gpus 0 --platform a100-40gb",
     2,
     {"--min-gpus 0: must be a number in [1e-09, inf)"}},
    {"schedule/without-stages",
     "pstar-sim good.pstar --device-memory 30% --schedule gpipe --json out.json",
     2,
     {"--schedule", "go with --stages"}},
    {"schedule/the-usual-one-without-stages",
     "pstar-sim good.pstar --device-memory 30% --schedule 1f1b --json out.json",
     2,
     {"--schedule", "go with --stages"}},
    {"schedule/of-traces-of-stages",
     "pstar-sim good.pstar good.pstar --schedule 1f1b --json out.json",
     2,
     {"--schedule: the traces of stages say it already"}},
    {"number/beyond-64-bits",
     RUN BUDGET "--seed 18446744073709551616 --log out.jsonl",
     2,
     {"--seed 18446744073709551616", "must be an integer in [0, 9223372036854775807]"}},
    {"stage-layers/none",
     "pstar-sim good.pstar --device-memory 1MiB --stage-layers 0,1 --json out.json",
     2,
     {"pstar-sim: --stage-layers: '0,1' must be the layers of each stage"}},
    {"stage-layers/too-many",
     "pstar-sim good.pstar --device-memory 1MiB --host-memory 1GiB --platform dgx-a100 "
     "--stage-layers 9,9 --micro-batches 2 --json out.json",
     2,
     {"--stage-layers 9,9: the stages have 18 layers together"}},
    {"stage-layers/no-numbers",
     "pstar-sim good.pstar --device-memory 1MiB --stage-layers a,b --json out.json",
     2,
     {"pstar-sim: --stage-layers: 'a,b' must be the layers of each stage"}},
    {"stage-layers/one-stage",
     RUN "--stage-layers 7 --log out.jsonl",
     2,
     {"--stage-layers 7: names one stage"}},
    {"stage-parts/run-without-stages",
     RUN "--stage-parts 3 --log out.jsonl",
     2,
     {"--stage-parts 3: needs --schedule interleaved"}},
    {"stage-parts/without-stages",
     "pstar-sim good.pstar --device-memory 30% --stage-parts 3 --json out.json",
     2,
     {"--stage-parts", "go with --stages"}},
    {"import/other-database",
     "pstar-trace import other.db -o out.pstar",
     2,
     {"other.db: not an export of Nsight Systems: it has no table StringIds"}},
    {"import/own-trace",
     "pstar-trace import good.pstar -o out.pstar",
     2,
     {"good.pstar", "is a trace of pstar already"}},
    {"policy/none",
     "pstar-sim good.pstar --device-memory 30% --policy '' --json out.json",
     2,
     {"--policy"}},
    {"zero/sequence", RUN BUDGET "--seq 0 --log out.jsonl", 2, {"--seq 0"}},
    {"zero/batch", RUN BUDGET "--batch 0 --log out.jsonl", 2, {"--batch 0"}},
    {"zero/micro-batches", RUN BUDGET "--micro-batches 0 --log out.jsonl", 2, {"--micro-batches"}},
    {"zero/steps", RUN BUDGET "--steps 0 --log out.jsonl", 2, {"--steps 0"}},
    {"zero/schedule-steps",
     RUN BUDGET "--schedule-steps 0 --log out.jsonl",
     2,
     {"--schedule-steps 0"}},
    {"zero/threads", RUN BUDGET "--threads 0 --log out.jsonl", 2, {"--threads 0"}},
    {"zero/sim-chunk",
     "pstar-sim good.pstar --device-memory 30% --chunk-size 0 --json out.json",
     2,
     {"'0'"}},
    {"zero/sim-threads",
     "pstar-sim good.pstar --device-memory 30% --threads 0 --json out.json",
     2,
     {"--threads 0"}},
    {"zero/synth-batch",
     "pstar-trace synth --model model --batch 0 --seq 32 --precision fp32 -o out.pstar",
     2,
     {"--batch"}},
    {"zero/synth-sequence",
     "pstar-trace synth --model model --batch 1 --seq 0 --precision fp32 -o out.pstar",
     2,
     {"--seq"}},
    {"threads", RUN BUDGET "--threads 100000 --log out.jsonl", 2, {"--threads 100000"}},
    {"pinned",
     "pstar-sim good.pstar --device-memory 30% --pinned-memory 1MiB --json out.json",
     2,
     {"--pinned-memory", "h2d_pageable"}},
    {"rate/slow", SIM "--link h2d=99KB/s --json out.json", 2, {"h2d", "too slow"}},
    {"rate/unit", RUN BUDGET "--link h2d=12GB --log out.jsonl", 2, {"12GB"}},
    {"policy/run", RUN BUDGET "--policy newest --log out.jsonl", 2, {"newest"}},
    {"policy/sim",
     "pstar-sim good.pstar --device-memory 30% --policy newest --json out.json",
     2,
     {"newest"}},
    {"precision", RUN BUDGET "--precision fp8 --log out.jsonl", 2, {"fp8"}},
    {"recompute", RUN "--recompute 7 --log out.jsonl", 2, {"--recompute 7"}},
    {"log", RUN "--log none/out.jsonl", 1, {"none/out.jsonl", "No such file"}},
    {"resume", "pstar-run --resume none --data text.txt --log out.jsonl", 2, {"none"}},
    {"synth/positions",
     "pstar-trace synth --model model --batch 1 --seq 4096 --precision fp32 -o out.pstar",
     2,
     {"4096", "64"}},
    {"option", "pstar-run --no-such-option", 2, {"--no-such-option"}},
    {"collect/nothing", "pstar-collect -o out.pstar", 2, {"pstar-collect"}},
    {"collect/iterations",
     "pstar-collect -o out.pstar --iterations 3:1 -- pstar-run --version",
     2,
     {"3:1"}},

    /* configs and texts */
    {"config/sparse",
     "pstar-run --model sparse.json --data text.txt",
     2,
     {"sparse.json: has 4 GiB; a file of this kind has at most 64 MiB"}},
    {"platform/sparse",
     "pstar-sim good.pstar --device-memory 1MiB --platform sparse.json",
     2,
     {"sparse.json: has 4 GiB"}},
    {"plan/sparse", "pstar-plan --explain sparse.json", 2, {"sparse.json: has 4 GiB"}},
    {"report/sparse", "pstar-report sparse.json -o out", 2, {"sparse.json: has 4 GiB"}},
    {"text/terminal",
     "pstar-run --model model --data 'x\033[31m\ny\302\233'",
     2,
     {"x\xEF\xBF\xBD[31m y\xEF\xBF\xBD: "}},
    {"config/missing", "pstar-run --model none --data text.txt", 2, {"none", "No such file"}},
    {"config/no-model-folder",
     "pstar-run --model . --data text.txt",
     2,
     {"./config.json: No such file", "the folder must hold"}},
    {"config/not-json", "pstar-run --model text.txt --data text.txt", 2, {"text.txt:1:"}},
    {"config/no-layers",
     "pstar-run --model no_layers.json --data text.txt --log out.jsonl",
     2,
     {"no_layers.json", "n_layer"}},
    {"config/heads",
     "pstar-run --model heads.json --data text.txt --log out.jsonl",
     2,
     {"heads.json", "n_head"}},
    {"config/absurd",
     "pstar-run --model absurd.json --data text.txt --log out.jsonl",
     2,
     {"absurd.json", "n_layer"}},
    {"config/unsupported",
     "pstar-run --model mixtral.json --data text.txt --log out.jsonl",
     2,
     {"mixtral.json", "MixtralForCausalLM"}},
    {"config/classifier",
     "pstar-run --model classifier.json --data text.txt --log out.jsonl",
     2,
     {"classifier.json", "pstar-trace synth"}},
    {"config/head",
     "pstar-run --model wide_head.json --data text.txt --log out.jsonl",
     2,
     {"wide_head.json", "heads have 513 columns"}},
    {"config/head-dry",
     "pstar-run --model wide_head.json --data text.txt --dry-run",
     2,
     {"wide_head.json", "heads have 513 columns"}},
    {"config/synth",
     "pstar-trace synth --model heads.json --batch 1 --seq 32 --precision fp32 -o out.pstar",
     2,
     {"heads.json", "n_head"}},
    {"sequence/too-long",
     "pstar-run --model model --data text.txt --seq 4096 --log out.jsonl",
     2,
     {"4096"}},
    {"text/missing", "pstar-run --model model --data none.txt", 2, {"none.txt", "No such file"}},
    {"text/short",
     "pstar-run --model model --data short.txt --seq 32 --log out.jsonl",
     2,
     {"short.txt", "32"}},

    /* plans */
    {"planned/other-model",
     PLANNED "good.json --model wider.json --data text.txt",
     2,
     {"good.json", "model"}},
    {"planned/other-batch",
     "pstar-run --model model --data text.txt --batch 4 --seq 32 --plan good.json --log out.jsonl",
     2,
     {"good.json", "batch"}},
    {"planned/missing", PLANNED "none.json --model model --data text.txt", 2, {"none.json"}},
    {"planned/truncated",
     PLANNED "truncated.json --model model --data text.txt",
     2,
     {"truncated.json"}},
    {"planned/a-trace", PLANNED "good.pstar --model model --data text.txt", 2, {"good.pstar"}},
    {"planned/impossible",
     PLANNED "impossible.json --model model --data text.txt",
     2,
     {"impossible.json"}},
    {"planned/other-traffic",
     PLANNED "figures.json --model model --data text.txt",
     2,
     {"pstar-run: figures.json: predicted: h2d_copies is 123456, but what the plan does comes "
      "to "}},
    {"planned/other-host-peak",
     PLANNED "host_peak.json --model model --data text.txt",
     2,
     {"pstar-run: host_peak.json: predicted: peak_host_bytes is 4096, but "}},
    {"planned/nvme-of-no-file",
     PLANNED "nvme.json --model model --data text.txt",
     2,
     {"pstar-run: nvme.json: predicted: nvme_read_bytes is 4096, but what the plan does comes to "
      "0"}},

    {"planned/explained",
     "pstar-plan --explain shorter.json good.pstar",
     2,
     {"pstar-plan: shorter.json: the plan has"}},
    {"planned/verified",
     "pstar-plan --verify shorter.json good.pstar",
     2,
     {"pstar-plan: shorter.json: the plan has"}},
    {"planned/other-figures",
     "pstar-plan --verify figures.json good.pstar",
     2,
     {"pstar-plan: figures.json: h2d_copies is"}},
    /* folders where files should be */
    {"folder/plan", "pstar-plan --explain model", 2, {"model: is a folder"}},
    {"folder/planned", PLANNED "model --model model --data text.txt", 2, {"model: is a folder"}},
    {"folder/platform", SIM "--platform model", 2, {"model: is a folder"}},
    {"folder/layout", SIM "--layout model", 2, {"model: is a folder"}},
    {"folder/trace", "pstar-trace info model", 2, {"model: ", "directory"}},
    {"folder/profile", "pstar-trace import model -o out.pstar", 2, {"model: ", "directory"}},
    {"folder/weights",
     "pstar-run --model weighty --data text.txt",
     2,
     {"safetensors: is a folder"}},
    {"folder/data", "pstar-run --model model --data model", 2, {"model: is a folder"}},

    /* a full disk */
    {"full/timeline", SIM "--timeline /dev/full", 1, {"/dev/full", "No space left"}},
    {"full/json", SIM "--json /dev/full", 1, {"/dev/full", "No space left"}},
    {"full/csv", SIM "--csv /dev/full", 1, {"/dev/full", "No space left"}},
    {"full/plan", SIM "--emit-plan /dev/full", 1, {"/dev/full", "No space left"}},
    {"full/log", RUN "--quiet --log /dev/full", 1, {"/dev/full", "No space left"}},
    {"closed/file", "sh -c 'pstar-trace export good.pstar -o - >&-'", 1, {"standard output"}},
    {"full/file",
     "sh -c 'pstar-trace export good.pstar -o - >/dev/full'",
     1,
     {"standard output: cannot", "No space left"}},
    {"full/sim", "sh -c '" SIM ">/dev/full'", 1, {"pstar-sim: standard output", "No space left"}},
    {"full/run", "sh -c '" RUN ">/dev/full'", 1, {"pstar-run: standard output", "No space left"}},
    {"full/help", "sh -c 'pstar-sim --help >/dev/full'", 1, {"pstar-sim: standard output"}},
    {"full/help-command",
     "sh -c 'pstar-trace info --help >/dev/full'",
     1,
     {"pstar-trace: standard output"}},
    {"full/commands", "sh -c 'pstar help >/dev/full'", 1, {"pstar: standard output", "No space"}},
    {"full/version", "sh -c 'pstar --version >/dev/full'", 1, {"pstar: standard output"}},
    {"full/manual", "sh -c 'pstar --man-page >/dev/full'", 1, {"pstar: standard output"}},
    {"full/trace",
     "sh -c 'pstar-trace info good.pstar >/dev/full'",
     1,
     {"pstar-trace: standard output", "No space left"}},

    /* what does not fit */
    {"fit/run", RUN "--device-memory 64KiB --log out.jsonl", 3, {"device memory", "would fit"}},
    {"fit/host",
     RUN "--device-memory 1MiB --host-memory 4KiB --log out.jsonl",
     3,
     {"memory", "would fit"}},
    {"fit/plan",
     "pstar-plan good.pstar --device-memory 64KiB -o out.json",
     3,
     {"device memory", "would fit"}},
};

static struct workshop *workshop;

static void test_bad(gconstpointer data)
{
    const struct bad *bad = data;
    char *before = workshop_listing(workshop);
    struct outcome outcome = workshop_run(workshop, bad->command);
    char *after = workshop_listing(workshop);
    g_test_message("%s\nstatus %d: %s", bad->command, outcome.status, outcome.err);
    g_assert_cmpint(outcome.status, ==, bad->status);
    for (size_t i = 0; i < G_N_ELEMENTS(bad->says) && bad->says[i]; i++)
        g_assert_nonnull(strstr(outcome.err, bad->says[i]));
    const char *message = outcome.err, *end;
    while (g_regex_match_simple("^[0-9]+ of [0-9]+ .*\n", message, 0, 0))
        message = strchr(message, '\n') + 1; /* progress, where the machine is slow */
    end = strchr(message, '\n');
    g_assert_nonnull(end);
    g_assert_cmpstr(end, ==, "\n");
    g_assert_cmpstr(after, ==, before);

    g_free(after);
    outcome_clear(&outcome);
    g_free(before);
}

static void write_part(const char *from, const char *to, double share)
{
    GError *error = NULL;
    char *bytes = NULL;
    gsize length = 0;
    char *source = workshop_path(workshop, from);
    char *target = workshop_path(workshop, to);
    g_file_get_contents(source, &bytes, &length, &error);
    g_assert_no_error(error);
    g_file_set_contents(target, bytes, (gssize)((double)length * share), &error);
    g_assert_no_error(error);
    g_free(target);
    g_free(source);
    g_free(bytes);
}

/* The good plan with its first fetch aimed where nothing may lie. */
static void write_impossible_plan(void)
{
    json_t *plan = workshop_read_json(workshop, "good.json");
    json_t *bytes = json_object_get(plan, "device_bytes");
    g_assert_true(json_is_integer(bytes));
    json_integer_set(bytes, 256);
    char *path = workshop_path(workshop, "impossible.json");
    g_assert_cmpint(json_dump_file(plan, path, 0), ==, 0);
    g_free(path);
    json_decref(plan);
}

/* The good plan with another value of a key of `object`, or of the plan if that is NULL. */
static void write_changed_plan(const char *name, const char *object, const char *key, json_t *value)
{
    json_t *plan = workshop_read_json(workshop, "good.json");
    json_object_set_new(object ? json_object_get(plan, object) : plan, key, value);
    char *path = workshop_path(workshop, name);
    g_assert_cmpint(json_dump_file(plan, path, 0), ==, 0);
    g_free(path);
    json_decref(plan);
}

static void write_broken_plans(void)
{
    json_t *plan = workshop_read_json(workshop, "good.json");
    json_t *moments = json_deep_copy(json_object_get(plan, "moments"));
    json_array_remove(moments, json_array_size(moments) - 1);
    write_changed_plan("shorter.json", NULL, "moments", moments);
    write_changed_plan("figures.json", "predicted", "h2d_copies", json_integer(123456));
    write_changed_plan("host_peak.json", "predicted", "peak_host_bytes", json_integer(4096));
    write_changed_plan("nvme.json", "predicted", "nvme_read_bytes", json_integer(4096));
    json_decref(plan);
}

static void write_config(const char *name, const char *key, json_t *value)
{
    json_t *config = workshop_read_json(workshop, "model/config.json");
    if (value)
        json_object_set_new(config, key, value);
    else
        json_object_del(config, key);
    char *path = workshop_path(workshop, name);
    g_assert_cmpint(json_dump_file(config, path, 0), ==, 0);
    g_free(path);
    json_decref(config);
}

/* One head of one more than the CPU device computes. */
static void write_wide_head(void)
{
    json_t *config = workshop_read_json(workshop, "model/config.json");
    json_object_set_new(config, "n_head", json_integer(1));
    json_object_set_new(config, "n_embd", json_integer(513));
    char *path = workshop_path(workshop, "wide_head.json");
    g_assert_cmpint(json_dump_file(config, path, 0), ==, 0);
    g_free(path);
    json_decref(config);
}

/* A trace that recorded one memset, from and to these times, which call 7 asked for. */
#define MEMSETS(times)                                                                     \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId, " \
    "correlationId, globalPid, value, bytes, graphNodeId, memKind);"                       \
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (" times ", 0, 1, 7, 7, 0, 0, 4, NULL, 2);"

static void write_files(void)
{
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision fp32 -o good.pstar");
    workshop_alter(workshop, "good.pstar", "UPDATE operators SET duration_ns = 1000");
    workshop_must_run(workshop, "truncate -s 4G sparse.json");
    workshop_must_run(workshop, "pstar-plan good.pstar --device-memory 1MiB -o good.json");
    write_part("good.pstar", "truncated.pstar", 0.5);
    write_part("good.pstar", "version.pstar", 1.0);
    workshop_alter(workshop, "version.pstar", "PRAGMA user_version = 99");
    write_part("good.pstar", "broken.pstar", 1.0);
    workshop_alter(workshop, "broken.pstar", "UPDATE accesses SET tensor = 100000 WHERE id = 3");
    write_part("good.pstar", "memset.pstar", 1.0);
    workshop_alter(workshop, "memset.pstar", MEMSETS("9, 1"));
    write_part("good.pstar", "call.pstar", 1.0);
    workshop_alter(workshop, "call.pstar",
                   MEMSETS("1, 9") "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, "
                                   "globalTid, correlationId, eventClass, nameId, returnValue);"
                                   "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, 8, 0, "
                                   "1, 0)");
    workshop_alter(workshop, "other.db", "CREATE TABLE meta (key TEXT, value)");
    write_part("good.json", "truncated.json", 0.5);
    write_impossible_plan();
    write_broken_plans();

    workshop_write(workshop, "short.json", "{\"pstar_layout\": 1, \"chunks\": [[\"wte.weight\"]]}");
    workshop_write(workshop, "twice.json",
                   "{\"pstar_layout\": 1, \"chunks\": [[\"wte.weight\"], [\"wte.weight\"]]}");
    workshop_write(workshop, "small.json",
                   "{\"pstar_layout\": 1, \"chunk_bytes\": 256, \"chunks\": [[\"wte.weight\"]]}");
    workshop_must_run(workshop,
                      "sh -c 'cp -r model dangling && ln -s gone dangling/model.safetensors'");
    workshop_must_run(workshop, "sh -c 'cp -r model weighty && mkdir weighty/model.safetensors'");
    workshop_write(workshop, "empty.pstar", "");
    workshop_write(workshop, "short.txt", "ten bytes.");
    write_config("no_layers.json", "n_layer", NULL);
    write_config("heads.json", "n_head", json_integer(5));
    write_config("absurd.json", "n_layer", json_integer(-3));
    write_config("mixtral.json", "model_type", json_string("mixtral"));
    write_config("wider.json", "n_embd", json_integer(128));
    write_config("classifier.json", "architectures",
                 json_pack("[s]", "GPT2ForSequenceClassification"));
    write_wide_head();
    workshop_must_run(workshop, "pstar-trace synth --model wider.json --batch 2 --seq 32 "
                                "--precision fp32 -o wider.pstar");
}

/* A library whose end is missing crashes the loader. Any library will do: it is not loaded. */
static void test_cut_libraries(void)
{
    struct workshop *own = workshop_new();
    workshop_must_run(own, "cp " PROGRAM_DIR "/pstar-run own-run");
    workshop_must_run(own, "sh -c 'head -c 9000 " PROGRAM_DIR
                           "/libpstar-collect.so > libpstar-cuda.so'");
    workshop_must_run(own, "cp libpstar-cuda.so libpstar-mpi.so");
    workshop_must_end(own, "./own-run --model model --data text.txt --device cuda", 2, "",
                      "libpstar-cuda.so: the shared object is truncated");
    workshop_must_end(own, "env OMPI_COMM_WORLD_SIZE=2 ./own-run --model model --data text.txt", 2,
                      "", "libpstar-mpi.so: the shared object is truncated");
    workshop_free(own);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    workshop = workshop_new();
    write_files();
    for (size_t i = 0; i < G_N_ELEMENTS(table); i++) {
        char *path = g_strconcat("/bad-input/", table[i].name, NULL);
        g_test_add_data_func(path, &table[i], test_bad);
        g_free(path);
    }
    g_test_add_func("/bad-input/cut-libraries", test_cut_libraries);
    int status = g_test_run();
    workshop_free(workshop);
    return status;
}
