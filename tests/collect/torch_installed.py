#!/usr/bin/env python3
"""Installs collect/ with pip and imports it as a training loop does, outside of pstar-collect.

usage: torch_installed.py VERSION

Without PyTorch a few lines stand for it. Nothing is downloaded: setuptools must be there.
Exit status: 0, 1 with what is wrong, or 77 if pip or setuptools is missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = {
    "torch/__init__.py": "float32, bfloat16, float16 = range(3)\n",
    "torch/utils/__init__.py": "",
    "torch/utils/_python_dispatch.py": "class TorchDispatchMode:\n    pass\n",
}
LOOP = """
import importlib.metadata, sys
import pstar_torch
pstar_torch.annotate(object(), object())
print(importlib.metadata.version("pstar-torch"), pstar_torch.__file__)
"""


def builder():
    """Returns an interpreter that can build a package: this one, or the system's. None if neither can."""
    needs = "import setuptools.build_meta, pip\ntry: import wheel\n" \
            "except ImportError: import setuptools.command.bdist_wheel"
    return next((python for python in (sys.executable, "/usr/bin/python3") if os.path.exists(python)
                 and subprocess.run([python, "-c", needs], stderr=subprocess.DEVNULL,
                                    check=False).returncode == 0), None)


def main():
    python = builder()
    if not python:
        print("pip, setuptools or wheel is missing")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        site = folder / "site"
        # pip builds in the folder.
        shutil.copytree(PROJECT / "collect", folder / "collect",
                        ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                        "--no-build-isolation", "--disable-pip-version-check",
                        "--root-user-action=ignore", "--target", str(site),
                        str(folder / "collect")], check=True)
        installed = sorted(path.name for path in (site / "pstar_torch").glob("*.py"))
        wanted_files = sorted(path.name for path in (PROJECT / "collect/pstar_torch").glob("*.py"))
        if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL,
                          check=False).returncode:
            for path, text in STAND_IN.items():
                (folder / "stand_in" / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / "stand_in" / path).write_text(text)
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("NVTX_", "PSTAR_"))}
        paths = [site, folder / "stand_in", *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        done = subprocess.run([python, "-c", LOOP], cwd="/", env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        wanted = f"{sys.argv[1]} {site / 'pstar_torch' / '__init__.py'}\n"
        if done.returncode or done.stdout != wanted or installed != wanted_files:
            print(f"{installed} is installed; the loop prints\n{done.stdout}instead of\n{wanted}")
            return 1
    print("pstar_torch is installed and imported")
    return 0


if __name__ == "__main__":
    sys.exit(main())
