/* pstar, the command in front of the programs, and what all programs say to words that they do not
 * know. */
#include "workshop.h"

static void expect_same(const struct workshop *workshop, const char *front, const char *program)
{
    struct outcome a = workshop_run(workshop, front), b = workshop_run(workshop, program);
    g_assert_cmpint(a.status, ==, b.status);
    g_assert_cmpstr(a.out, ==, b.out);
    g_assert_cmpstr(a.err, ==, b.err);
    outcome_clear(&a);
    outcome_clear(&b);
}

static void test_commands(void)
{
    static const char *const programs[] = {"run", "tokens", "collect", "trace",
                                           "sim", "plan",   "report"};
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(programs); i++)
        for (int form = 0; form < 3; form++) {
            g_autofree char *front = g_strdup_printf(form == 0   ? "pstar help %s"
                                                     : form == 1 ? "pstar %s --help"
                                                                 : "pstar %s --version",
                                                     programs[i]);
            g_autofree char *program =
                g_strdup_printf(form == 2 ? "pstar-%s --version" : "pstar-%s --help", programs[i]);
            expect_same(workshop, front, program);
        }
    expect_same(workshop, "pstar tokenize --version", "pstar-tokenize --version");
    expect_same(workshop, "pstar help tokenize", "pstar-tokenize --help");
    expect_same(workshop, "pstar help trace synth", "pstar-trace synth --help");
    expect_same(workshop, "pstar-trace help synth", "pstar-trace synth --help");
    workshop_free(workshop);
}

/* Arguments, files, results and exit statuses are the program's. */
static void test_work(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_end(workshop,
                      "pstar trace synth --model model --batch 1 --seq 8 --precision fp32 -o 'a b'",
                      0, "a b: ", "");
    expect_same(workshop, "pstar trace info 'a b'", "pstar-trace info 'a b'");
    workshop_must_end(workshop, "pstar trace check text.txt", 2, "", "pstar-trace: text.txt: ");
    workshop_must_end(workshop, "pstar sim 'a b' --device-memory 1KiB", 3, "",
                      "pstar-sim: nothing fits");
    workshop_must_end(workshop, "pstar collect -o run.pstar -- sh -c 'exit 5'", 5, "",
                      "pstar-collect: ");
    workshop_free(workshop);
}

static void test_itself(void)
{
    struct workshop *workshop = workshop_new();
    struct outcome version = workshop_run_well(workshop, "pstar --version");
    g_assert_cmpstr(version.out, ==, "pstar 0.1.0\n");
    outcome_clear(&version);
    workshop_must_end(workshop, "pstar", 2, "", "Usage: pstar COMMAND");
    workshop_must_end(workshop, "pstar help", 0, "\n  plan ", "");
    workshop_must_end(workshop, "pstar --help", 0, "\n  plan ", "");
    /* Alone, without its programs. */
    workshop_must_run(workshop, "sh -c 'cp $(command -v pstar) alone'");
    workshop_must_end(workshop, "./alone plan", 1, "", "pstar-plan cannot be run: No such file");
    workshop_free(workshop);
}

static void test_unknown(void)
{
    struct workshop *workshop = workshop_new();
    static const char *const meant[][2] = {
        {"pstar plna", "pstar: there is no command 'plna': did you mean plan?"},
        {"pstar help repotr", "pstar: there is no command 'repotr': did you mean report?"},
        {"pstar col", "did you mean collect?"},
        {"pstar-trace inof x", "pstar-trace: there is no command 'inof': did you mean info?"},
        {"pstar trace sinth", "did you mean synth?"},
        {"pstar qqqq", "use run, tokens, tokenize, collect, trace, sim, plan or report"},
        {"pstar ''", "use run"},
        {"pstar --quiet plan", "there is no command '--quiet': use run"},
        {"pstar-sim x --devcie-memory 1GB", "Unknown option --devcie-memory; did you mean "
                                            "--device-memory?"},
        {"pstar-plan --max-modle=x", "did you mean --max-model?"},
        {"pstar-plan --qqqqqqq", "Unknown option --qqqqqqq; see --help"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(meant); i++)
        workshop_must_end(workshop, meant[i][0], 2, "", meant[i][1]);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/front/commands", test_commands);
    g_test_add_func("/front/work", test_work);
    g_test_add_func("/front/itself", test_itself);
    g_test_add_func("/front/unknown", test_unknown);
    return g_test_run();
}
