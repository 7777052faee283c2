"""Answers what a program asks of GPUs and of other ranks, on a machine that has neither: its step is recorded on
the meta device, on one rank."""
import collections
import contextlib
import os
import pathlib
import sys
import types

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

_ROOM = 1 << 40  # bytes of a GPU, more than any program asks for
_LIBRARIES = {"site-packages", "dist-packages"}
# Modules through which a program asks for variables of the environment.
_ENVIRONMENT = {"os", "_collections_abc", "<frozen os>", "<frozen _collections_abc>"}
# A function of transformers, which refuses to train in bf16 where there is no GPU.
_MAY_ASK = "is_torch_bf16_gpu_available"
# What a launcher of several ranks sets.
_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
         "MASTER_PORT": "29500"}


def _asks_program(frame):
    """Whether the program's own code asks. Libraries that find a GPU call its driver, and those that find ranks
    join them."""
    path = pathlib.Path(frame.f_code.co_filename)
    while path.stem in _ENVIRONMENT and frame.f_back:
        frame = frame.f_back
        path = pathlib.Path(frame.f_code.co_filename)
    if frame.f_code.co_name == _MAY_ASK:
        return True
    return not _LIBRARIES & set(path.parts) and pathlib.Path(torch.__file__).parent not in path.parents


class _Queue:
    """Stands for a stream and for an event. Nothing takes time, so nothing is waited for."""

    def __init__(self, *_, **__):
        self.device, self.cuda_stream = torch.device("meta"), 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def record(self, *_):
        pass

    wait = wait_event = wait_stream = synchronize = record

    def record_event(self, event=None):
        return event or _Queue()

    def query(self):
        return True

    def elapsed_time(self, _):
        return 1.0  # ms


_GPU = types.SimpleNamespace(name="meta", major=9, minor=0, total_memory=_ROOM, multi_processor_count=100)

_ANSWERS = {"current_device": 0, "get_device_name": _GPU.name, "get_device_properties": _GPU,
            "get_device_capability": (_GPU.major, _GPU.minor), "is_bf16_supported": True,
            "mem_get_info": (_ROOM, _ROOM), "memory_stats": collections.defaultdict(int), "memory_summary": ""}
_IGNORED = {torch: ("set_default_device",),
            torch.cuda: ("empty_cache", "init", "reset_peak_memory_stats", "set_device", "synchronize"),
            torch.cuda.nvtx: ("mark", "range_pop", "range_push")}


def _answer_program(owner, name, answer):
    original = getattr(owner, name)
    setattr(owner, name, lambda: answer if _asks_program(sys._getframe(1)) else original())


def pretend_gpu():
    """Lets the program find a GPU whose calls do nothing, and that takes no time."""
    for owner, names in _IGNORED.items():
        for name in names:
            setattr(owner, name, lambda *_, **__: None)
    for name, answer in _ANSWERS.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    torch.cuda.device = torch.cuda.stream = contextlib.nullcontext
    torch.cuda.current_stream = torch.cuda.default_stream = _Queue
    _answer_program(torch.cuda, "is_available", True)
    _answer_program(torch.cuda, "device_count", 1)
    torch.cuda.Event = torch.cuda.Stream = _Queue
    torch.Tensor.record_stream = lambda *_: None


class FullyShardedDataParallel(nn.Module):
    """Stands for PyTorch's class. The step is recorded as one rank's that shares nothing."""

    def __init__(self, module, *_, **__):
        super().__init__()
        self.module = module

    def forward(self, *arguments, **keywords):
        return self.module(*arguments, **keywords)

    def no_sync(self):
        return contextlib.nullcontext()

    def register_comm_hook(self, *_):
        pass

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        return nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)


class DistributedDataParallel(FullyShardedDataParallel):
    """Stands for PyTorch's class, which has each gradient in a bucket, too."""

    def __init__(self, module, *_, gradient_as_bucket_view=False, **__):
        super().__init__(module)
        nbytes = sum(parameter.numel() * parameter.element_size()
                     for parameter in module.parameters() if parameter.requires_grad)
        if not gradient_as_bucket_view:
            self.register_buffer("buckets", torch.empty(nbytes, dtype=torch.uint8, device="meta"), persistent=False)


class _Mesh:
    """Stands for a mesh of one device, and for each of its dimensions."""

    def __init__(self, *_, **__):
        self.ndim = 1

    def __getitem__(self, _):
        return self

    def size(self, *_):
        return 1

    def get_group(self, *_):
        return None

    def get_local_rank(self, *_):
        return 0

    get_rank = get_local_rank


def _shard_nothing(module, *_, **__):
    """Stands for fully_shard."""
    return module


def _spawn(main, args=(), *_, **__):
    main(0, *args)


def _gather_object(objects, own, *_, **__):
    objects[:1] = [own]


def _pretend_group():
    """Lets the program join a group of one rank, whose collectives leave tensors as they are."""
    from torch.distributed import device_mesh, fsdp
    from torch.testing._internal.distributed import fake_pg
    fsdp.FullyShardedDataParallel = FullyShardedDataParallel
    fsdp.fully_shard = _shard_nothing
    torch.distributed.init_device_mesh = device_mesh.init_device_mesh = _Mesh
    initialize = torch.distributed.init_process_group
    torch.distributed.init_process_group = \
        lambda *_, **__: initialize("fake", store=fake_pg.FakeStore(), rank=0, world_size=1)
    torch.distributed.all_gather_object = _gather_object
    torch.distributed.broadcast_object_list = lambda *_, **__: None


def _answer_environment():
    environment = type(os.environ)
    original = environment.__getitem__

    def ask(variables, name):
        try:
            return original(variables, name)
        except KeyError:
            if name in _RANK and _asks_program(sys._getframe(1)):
                return _RANK[name]
            raise
    environment.__getitem__ = ask


def pretend_rank():
    """Lets a program that a launcher should start on several ranks run as the only one."""
    _answer_environment()
    nn.parallel.DistributedDataParallel = nn.parallel.distributed.DistributedDataParallel = \
        DistributedDataParallel
    torch.multiprocessing.spawn = _spawn
    if torch.distributed.is_available():
        _pretend_group()


class _Unwatched(contextlib.nullcontext):
    """Stands for detect_anomaly, which reads values."""

    def __init__(self, *_, **__):
        super().__init__()


def ignore_anomalies():
    """Lets nobody look for NaN."""
    torch.autograd.detect_anomaly = torch.autograd.set_detect_anomaly = _Unwatched
