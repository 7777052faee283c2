#!/usr/bin/env python3
"""What several ranks or stages save together is one model to transformers, with the bits of one rank.

    transformers_ranks.py PROGRAM
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError:
    print("transformers is not installed")
    sys.exit(77)

DATA = pathlib.Path(__file__).resolve()
SMALL = {"n_layer": 3, "n_embd": 48, "n_head": 2, "n_positions": 32, "vocab_size": 256}
RUNS = {"4": "--stage=3", "3": "--stages=3", "2": "--precision=bf16"}


def run(program, folder, processes, *arguments):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launcher = ["mpirun", "-n", processes, "--oversubscribe"] if processes != "1" else []
    command = [*launcher, program, f"--model={folder / 'first'}", f"--data={DATA}", "--batch=1", "--seq=16",
               "--micro-batches=12", "--steps=2", "--threads=1", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        sys.exit(f"{folder}: {info}")
    return model.state_dict()


def main():
    program = sys.argv[1]
    if not shutil.which("mpirun") or not (pathlib.Path(program).parent / "libpstar-mpi.so").exists():
        print("there is no mpirun, or the build has no MPI")
        sys.exit(77)
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = transformers.AutoConfig.for_model("gpt2", **SMALL)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder / "first")
        for processes, option in RUNS.items():
            precision = option if "precision" in option else "--precision=fp32"
            run(program, folder, "1", precision, f"--save={folder / 'one'}")
            run(program, folder, processes, option, f"--save={folder / processes}")
            if len(list((folder / processes).glob("model-*-of-*.safetensors"))) != int(processes):
                sys.exit(f"{processes} ranks have not saved a file each")
            one, several = load(folder / "one"), load(folder / processes)
            if one.keys() != several.keys() or not all(torch.equal(one[key], several[key]) for key in one):
                sys.exit(f"{processes} processes, {option}: the weights are not those of one")
            print(f"{processes} processes, {option}: {len(several)} tensors")


if __name__ == "__main__":
    main()
