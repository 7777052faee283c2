/* Reads a trace, replays every policy at two budgets of device memory, then searches for a plan.
 * These commands work where pstar is installed:
 *     cc -O2 replay.c $(pkg-config --cflags --libs pstar) -o replay
 *     pstar-trace synth --model $(pkg-config --variable=models pstar)/demo-11m.json --batch 1 \
 *         --seq 64 --precision bf16 -o run.pstar
 *     ./replay run.pstar */
#include <pstar.h>
#include <stdio.h>

static void print_plan(const char *name, const struct pstar_plan *plan)
{
    double h2d = 0, d2h = 0, seconds = 0;
    char text[32];
    pstar_plan_figure(plan, "h2d_bytes", &h2d);
    pstar_plan_figure(plan, "d2h_bytes", &d2h);
    pstar_plan_figure(plan, "iteration_seconds", &seconds);
    printf("  %-12s %12s over the link, %.4f s a step\n", name,
           pstar_size_format((uint64_t)(h2d + d2h), text, sizeof text), seconds);
}

static void replay_policies(const struct pstar_trace *trace, const struct pstar_layout *layout,
                            const struct pstar_budgets *budgets)
{
    const struct pstar_policy_ops *policy;
    struct pstar_error error;
    for (uint32_t i = 0; (policy = pstar_policy_at(i)); i++) {
        struct pstar_plan *plan = pstar_plan_from_policy(trace, layout, policy, budgets, 2, &error);
        if (plan && pstar_plan_replay(plan, trace, NULL, NULL, &error))
            print_plan(policy->name, plan);
        else
            printf("  %-12s %s\n", policy->name, error.message);
        pstar_plan_free(plan);
    }
}

int main(int argc, char **argv)
{
    struct pstar_error error;
    struct pstar_trace *planned = NULL,
                       *trace = argc < 2 ? NULL : pstar_trace_read(argv[1], &error);
    struct pstar_layout *layout = trace ? pstar_layout_pack(trace, 4 << 20, &error) : NULL;
    if (!layout) {
        fprintf(stderr, "%s\n", argc < 2 ? "usage: replay TRACE" : error.message);
        return 2;
    }
    uint64_t least = pstar_layout_least_arena_bytes(layout, trace);
    struct pstar_search search = {.seed = 1};
    for (int part = 4; part >= 2; part -= 2) { /* a quarter, then half, of the model data */
        char text[32];
        search.budgets = (struct pstar_budgets){least + pstar_trace_model_bytes(trace) / part,
                                                PSTAR_UNLIMITED};
        printf("device memory %s\n", pstar_size_format(search.budgets.device, text, sizeof text));
        replay_policies(trace, layout, &search.budgets);
    }
    struct pstar_plan *plan = pstar_plan_search(trace, NULL, &search, &planned, &error);
    if (plan)
        print_plan("the plan", plan);
    else
        fprintf(stderr, "%s\n", error.message);
    pstar_plan_free(plan);
    pstar_trace_free(planned);
    pstar_layout_free(layout);
    pstar_trace_free(trace);
    return plan ? 0 : error.kind;
}
