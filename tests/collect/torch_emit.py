#!/usr/bin/env python3
"""Settings that pstar-plan --emit writes, taken by the systems that they are for.

    torch_emit.py FOLDER_OF_PROGRAMS [deepspeed]

A loop is recorded and planned, and trains with the settings on the CPU (gloo, one process): by
Accelerate, by plain fully_shard, and by deepspeed.initialize, each with the loop's own optimizer.
Losses must be those without the settings. What is gathered and what lives on the host is counted and
compared with the plan. With "deepspeed" it is an error if DeepSpeed or Accelerate is missing.
Returns 77 where PyTorch is missing.
"""
import importlib.util
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit(77)

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "collect"), str(pathlib.Path(__file__).resolve().parent)]
from torch_training import check  # noqa: E402

SEED = int(os.environ.setdefault("PSTAR_TEST_SEED", str(random.randrange(10**6))))
DRAW = random.Random(SEED)
WIDTH, LAYERS, STEPS = 8 * DRAW.randint(3, 12), DRAW.randint(4, 8), 4
BATCH = int(os.environ.get("PSTAR_TEST_BATCH", 16))
DRAWN = 6  # budgets for DeepSpeed


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def make():
    torch.manual_seed(1)
    return Model()


def batches():
    torch.manual_seed(2)
    return [(torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))) for _ in range(STEPS)]


def train(model, optimizer, backward=lambda loss: loss.backward(), after=lambda: None):
    losses = []
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        after()
        losses.append(float(loss.detach()))
    return losses


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def connect():
    import torch.distributed as distributed
    if not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)


# ---- The loops, each in a process of its own; they print JSON ------------------------------------


def run_plain():
    model = make()
    optimizer = adamw(model)
    if "NVTX_INJECTION64_PATH" in os.environ:
        import pstar_torch
        pstar_torch.annotate(model, optimizer)
    return {"losses": train(model, optimizer)}


def count_offloaded(fsdp2):
    """Returns a list that gets the bytes of each activation that leaves."""
    moved, copy = [], getattr(fsdp2, "to_host", None)

    def count(tensor, pin_memory):
        moved.append(tensor.nbytes)
        return copy(tensor, pin_memory)
    if copy:
        fsdp2.to_host = count
    return moved


def run_fsdp2():
    connect()
    specification = importlib.util.spec_from_file_location("fsdp2", "fsdp2.py")
    fsdp2 = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(fsdp2)
    moved = count_offloaded(fsdp2)
    model = fsdp2.shard(make(), pin_memory=False)
    groups = {name: module._get_fsdp_state()._fsdp_param_group
              for name, module in model.named_modules() if hasattr(module, "_get_fsdp_state")}
    hosted = sum(sum(p.sharded_param.numel() for p in group.fsdp_params)
                 for group in groups.values() if group is not None
                 and type(group.offload_policy).__name__ == "CPUOffloadPolicy")
    return {"losses": train(model, adamw(model)), "units": [n for n in groups if n],
            "hosted": hosted, "offloaded": sum(moved) / STEPS}


def run_accelerate():
    """Without a GPU Accelerate shards nothing, so its own policy is asked what it would shard."""
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import fsdp2_prepare_auto_wrap_policy
    settings = json.loads(pathlib.Path("fsdp_config.json").read_text())["fsdp_config"]
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=settings["fsdp_version"], cpu_offload=settings["fsdp_offload_params"],
        reshard_after_forward=settings["fsdp_reshard_after_forward"],
        auto_wrap_policy=settings["fsdp_auto_wrap_policy"].lower(),
        min_num_params=settings["fsdp_min_num_params"])
    policy = fsdp2_prepare_auto_wrap_policy(plugin, make())
    units = [name for name, module in make().named_modules() if name and policy(module)]
    accelerator, model = Accelerator(), make()
    model, optimizer = accelerator.prepare(model, adamw(model))
    return {"losses": train(model, optimizer, accelerator.backward), "units": units,
            "offload": type(plugin.cpu_offload).__name__}


class Gathered:
    """Counts what DeepSpeed's stage 3 has on the device and gathers, in elements."""

    def __init__(self, engine):
        self.parameters = list(engine.module.parameters())
        self.buckets = [bucket.buffer for bucket in engine.optimizer.ipg_buckets.values()]
        self.live = self.held = self.gathered = 0
        coordinator = engine.optimizer.parameter_offload.get_param_coordinator()
        self.watch(coordinator, "fetch_sub_module")
        for parameter in self.parameters:
            for name in ("all_gather", "all_gather_coalesced"):
                self.watch(parameter, name)

    def absent(self):
        return sum(p.ds_numel for p in self.parameters if p.ds_status.name == "NOT_AVAILABLE")

    def watch(self, owner, name):
        function = getattr(owner, name)

        def call(*arguments, **keywords):
            before = self.absent()
            result = function(*arguments, **keywords)
            after = self.absent()
            if name != "fetch_sub_module":
                self.gathered += before - after
            self.live = max(self.live, sum(p.ds_numel for p in self.parameters) - after)
            return result
        setattr(owner, name, call)

    def take(self):
        bucket = sum(buffer.numel() for buffer in self.buckets if buffer is not None)
        counts = [self.gathered, self.live, 4 * (self.live + bucket)]
        self.live = self.gathered = 0
        return counts


def run_deepspeed(*files):
    """Trains with the settings in each file."""
    import deepspeed
    connect()
    told = []
    for file in files:
        model = make()
        engine, *_ = deepspeed.initialize(
            model=model, optimizer=adamw(model), dist_init_required=False,
            config=json.loads(pathlib.Path(file).read_text()))
        stage, losses, counts = engine.zero_optimization_stage(), [], None
        counter = Gathered(engine) if stage == 3 else None
        for x, y in batches():
            loss = F.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
            losses.append(float(loss.detach()))
            counts = counter.take() if counter else None
        told.append({"losses": losses, "stage": stage, "counts": counts})
    return {"runs": told}


# ---- What must come of it ------------------------------------------------------------------------


def run(command, folder, **more):
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **more})
    check(done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def result_of(text):
    return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


def same(a, b, tolerance=1e-5):
    return all(abs(x - y) <= tolerance * abs(x) for x, y in zip(a, b)) and len(a) == len(b)


def emit(programs, folder, kind, memory, objective="traffic", *options):
    """Plans for that share of the model data. Returns what is printed."""
    return run([programs / "pstar-plan", "run.pstar", "--device-memory", memory, "--platform",
                PROJECT / "platforms/a100-40gb.json", "-o", "plan.json", "--emit", kind,
                "--objective", objective, *(options or ("--recompute", "traced"))], folder)


def check_fsdp2(programs, folder, plain):
    emit(programs, folder, "fsdp2", "45%")
    told = result_of(run([sys.executable, __file__, "--run", "fsdp2"], folder))
    check(same(told["losses"], plain), f"fsdp2: {told['losses']} are not {plain}")
    check(told["units"] == [f"layers.{i}" for i in range(LAYERS)], f"units {told['units']}")
    text = (folder / "fsdp2.py").read_text()
    sizes = {f"layers.{i}": sum(p.numel() for p in Layer().parameters()) for i in range(LAYERS)}
    wanted = sum(sizes[name] for name in re.findall(r'\("([\w.]+)", True\)', text))
    if "REST_ON_HOST = True" in text:
        wanted += sum(p.numel() for p in make().head.parameters())
    check(wanted > 0 and told["hosted"] == wanted, f"{told['hosted']} elements on the host, "
                                                   f"not {wanted}")
    emit(programs, folder, "fsdp2", "400%")
    text = (folder / "fsdp2.py").read_text()
    check("True" not in text.partition("def shard")[0], "a plan that moves nothing offloads")
    told = result_of(run([sys.executable, __file__, "--run", "fsdp2"], folder))
    check(same(told["losses"], plain) and told["hosted"] == 0, f"fsdp2, resident: {told}")


def record(programs, folder, **more):
    """Records the loop for another machine. Returns its losses."""
    losses = result_of(run([programs / "pstar-collect", "-o", "here.pstar", "--",
                            sys.executable, __file__, "--run", "plain"], folder, **more))["losses"]
    run([programs / "pstar-trace", "retime", "here.pstar", "--platform",
         PROJECT / "platforms/a100-40gb.json", "-o", "run.pstar"], folder)
    return losses


def fetched_activations(folder):
    """Returns the bytes of the activations that the plan fetches, each once."""
    plan = json.loads((folder / "plan.json").read_text())
    fetched = {action[1] for actions in plan["moments"] for action in actions
               if action[0] == "fetch"}
    return sum(used for number, (kind, _, used, _) in enumerate(plan["layout"]["chunks"])
               if number in fetched and kind == "activation")


def least_percent(programs, folder, peak):
    """Returns the least share of the peak with which a plan recomputes layers and lets activations leave, too; the
    least that fits if no plan does both."""
    fits = []
    for percent in range(16, 44, 2):
        command = [programs / "pstar-plan", "run.pstar", "--device-memory", f"{percent * peak / 100:.2f}MiB",
                   "--platform", PROJECT / "platforms/a100-40gb.json", "--objective", "traffic", "--recompute", "any",
                   "--offload-activations", "any", "-o", "plan.json"]
        if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0:
            fits.append(percent)
            plan = json.loads((folder / "plan.json").read_text())
            if fetched_activations(folder) > 0 and any(plan["choices"].get("recompute", [])):
                return percent
    return fits[0]


def check_offloaded(programs, folder):
    """Of a large batch activations leave, as many as the plan says, also where layers are computed
    again."""
    large = {"PSTAR_TEST_BATCH": "4096"}
    plain = record(programs, folder, **large)
    told = run([programs / "pstar-trace", "info", "run.pstar"], folder)
    peak = float(re.search(r"non-model peak +([\d.]+) MiB", told)[1])
    for recompute, percent in (("traced", 65), ("any", least_percent(programs, folder, peak))):
        said = emit(programs, folder, "fsdp2", f"{percent * peak / 100:.2f}MiB", "traffic", "--recompute",
                    recompute, "--offload-activations", "any")
        planned = fetched_activations(folder)
        told = result_of(run([sys.executable, __file__, "--run", "fsdp2"], folder, **large))
        check(same(told["losses"], plain), f"offloaded: {told['losses']} are not {plain}")
        check("offloaded activations" not in said, f"offloaded activations are lost: {said}")
        check(planned > 0 and abs(told["offloaded"] - planned) <= 0.1 * planned,
              f"recompute {recompute}: {told['offloaded']} bytes leave, not {planned}")


def check_accelerate(programs, folder, plain):
    emit(programs, folder, "fsdp", "45%")
    told = result_of(run([sys.executable, "-m", "accelerate.commands.launch", "--cpu",
                          "--config_file", "fsdp_config.json", __file__, "--run", "accelerate"],
                         folder))
    check(told["offload"] == "CPUOffloadPolicy" and same(told["losses"], plain), f"{told}")
    check([name for name in told["units"] if name.startswith("layers.")] ==
          [f"layers.{i}" for i in range(LAYERS)], f"accelerate: units {told['units']}")


def predicted(text):
    """Returns what the settings are said to do, and what the plan does: gathered, live, held."""
    line = next(line for line in text.splitlines() if line.startswith("DeepSpeed will"))
    numbers = [float(number) * 2 ** (10 * " KM".index(unit)) for number, unit in
               re.findall(r"(\d[\d.]*)(?: ([KM]?)i?B)?", line)]
    return numbers[0::2], numbers[1::2]


def check_deepspeed(programs, folder, plain):
    """What DeepSpeed gathers and holds with the settings of drawn plans is what pstar-plan says,
    and no more is on the device than the plan has there."""
    budgets = [(f"{DRAW.uniform(22, 90):.0f}%", DRAW.choice(("time", "traffic")))
               for _ in range(DRAWN)] + [("400%", "traffic")]
    said = []
    for number, (memory, objective) in enumerate(budgets):
        said.append(emit(programs, folder, "deepspeed", memory, objective))
        (folder / "ds_config.json").rename(folder / f"{number}.json")
    runs = result_of(run([sys.executable, __file__, "--run", "deepspeed",
                          *(f"{i}.json" for i in range(len(said)))], folder,
                         DS_ACCELERATOR="cpu", LOCAL_RANK="0"))["runs"]
    for (memory, _), text, told in zip(budgets, said, runs):
        # Its optimizer in pieces does not round as the loop's does.
        check(same(told["losses"], plain, 2e-3), f"deepspeed: {told['losses']} are not {plain}")
        if told["stage"] != 3:
            continue
        for name, count, wanted, planned in zip(("gathered", "live", "held"), told["counts"],
                                                *predicted(text)):
            print(f"deepspeed, {memory}: {name} {count}, predicted {wanted:.0f}, planned "
                  f"{planned:.0f}")
            check(abs(count - wanted) <= 0.1 * wanted, f"{memory}: {name}: {text}")
            check(name == "gathered" or count <= 1.1 * planned, f"{memory}: {name}: {text}")
    check(runs[-1]["stage"] == 0, f"resident: {runs[-1]}")


def has(module):
    return importlib.util.find_spec(module) is not None


def main():
    if sys.argv[1] == "--run":
        torch.set_num_threads(1)
        print(json.dumps(globals()[f"run_{sys.argv[2]}"](*sys.argv[3:])))
        return 0
    print(f"PSTAR_TEST_SEED={SEED}: {LAYERS} layers of width {WIDTH}")
    programs, needed = pathlib.Path(sys.argv[1]).resolve(), "deepspeed" in sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_offloaded(programs, folder)
        plain = record(programs, folder)
        check_fsdp2(programs, folder, plain)
        for module, examine in (("accelerate", check_accelerate), ("deepspeed", check_deepspeed)):
            if has(module) or needed:
                examine(programs, folder, plain)
            else:
                print(f"{module} is missing, so its settings are not tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
