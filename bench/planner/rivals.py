"""The fastest of what is simpler than a search: every policy at every look-ahead, and every strategy with
several parameters, each with 13 chunk sizes and with the chunks of the plan.

They run the step as it was drawn, with all layers recomputed, and with the choices of the plan; policies
also with all updates on the host, and with the embedding there, too. If none of these fits, layers are
recomputed and offloaded. Of a step with more than 10,000 operators, where a sweep takes minutes, fewer
policies and look-aheads are tried.
"""

import json

from draw import layers_text
from planning import children_seconds

MANY = 10000  # operators
POLICIES = ["--policy", "all", "--look-ahead", "0,1,4,16,64,256"]
POLICIES_OF_MANY = ["--policy", "fifo,lru,patrickstar,opt,opt-dirty", "--look-ahead", "0,16,256"]
STRATEGIES = ",".join([
    "all",  # with their usual parameters
    *(f"gemini-static:{share}" for share in (0.25, 0.75)),
    *(f"gemini-auto:{ahead}" for ahead in (4, 16, 64)),
    *(f"twinflow:{share}" for share in (0.1, 0.25, 0.75, 0.9)),
    *(f"interleave:{every}" for every in (3, 4, 5, 6))])


def of_plan(plan, step):
    """Returns the plan's choices as options of a step."""
    choices = plan["choices"]
    layers = {key: layers_text(step.layers, [i for i, yes in enumerate(choices.get(key, [])) if yes])
              for key in ("recompute", "offload")}
    twice = choices.get("backward_twice", False)
    return layers | dict(split=choices.get("split_master", False), clip=step.clip or twice,
                         host_embedding=choices["host_embedding"], state_block=choices.get("state_block", 0))


class Rivals:
    """Sweeps of the traces of one instance. The fastest result is kept with its trace."""

    def __init__(self, instance):
        self.instance, self.programs = instance, instance.programs
        self.best, self.trace, self.swept = None, None, set()

    def sweep(self, choices, layout=False):
        trace = self.instance.synthesise(**choices)
        if (trace, layout) in self.swept:
            return
        self.swept.add((trace, layout))
        options = list(POLICIES_OF_MANY if self.instance.operators > MANY else POLICIES)
        if not choices.get("host_update"):
            options += ["--strategy", STRATEGIES]
        options += ["--layout", "plan.json"] * layout
        self.programs.call("pstar-sim", trace, *self.instance.budgets(), *options, "--json", "rivals.json",
                           allowed=(0, 3))
        for result in json.loads((self.programs.folder / "rivals.json").read_text())["results"]:
            if result["fits"] and (not self.best or result["iteration_seconds"] < self.best["iteration_seconds"]):
                self.best, self.trace = result, trace

    def sweep_all(self, chosen):
        step = self.instance.step
        for layers in (dict(), dict(recompute="all"), chosen):
            for host_update in (False, True):
                self.sweep(layers | dict(host_update=host_update))
        for host_update in (False, True):
            self.sweep(chosen | dict(host_update=host_update), layout=True)
        if not step.split:
            self.sweep(dict(host_update=True, host_embedding=True))
        if not self.best:
            for host_update in (False, True):
                self.sweep(dict(recompute="all", offload="all", host_update=host_update))

    def commands(self):
        """Returns the commands that replay the fastest again."""
        if not self.best:
            return []
        if self.best["strategy"]:
            options = ["--strategy", self.best["strategy"]]
        else:
            options = ["--policy", self.best["policy"], "--look-ahead", str(self.best["look_ahead"])]
        chunks = ["--chunk-size", str(self.best["chunk_bytes"])]
        if self.best["layout"]:
            chunks = ["--layout", "layout.json"]
        job = next(job for job, trace in self.instance.made.items() if trace == self.trace)
        return [["pstar-trace", "synth", *job, "-o", self.trace],
                ["pstar-sim", self.trace, *self.instance.budgets(), *options, *chunks,
                 "--json", "rival.json"]]


def compete(instance):
    """Sweeps all rivals of the plan. Returns the columns of the fastest, and the commands that replay it."""
    begun = children_seconds()
    rivals = Rivals(instance)
    plan = json.loads((instance.programs.folder / "plan.json").read_text())
    rivals.sweep_all(of_plan(plan, instance.step))
    columns = dict(rival=None, rival_time=None, rival_seconds=children_seconds() - begun)
    if rivals.best:
        best = rivals.best
        columns["rival"] = best["strategy"] or f"{best['policy']}, {best['look_ahead']} ahead"
        columns["rival_time"] = best["iteration_seconds"]
    return columns, rivals.commands()
