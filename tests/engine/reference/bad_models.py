#!/usr/bin/env python3
"""Damaged and hostile models are refused in one line, with status 2.

    bad_models.py PSTAR_RUN

Damages the tiny model of families/phi3 in one place at a time: values of its config.json, the header, the types,
shapes and places of its weights, and the index of weights in several files. Each line must name the file, and what
was expected and what was found. The undamaged model trains.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
MODEL, DATA = HERE / "families/phi3", HERE / "data.bin"
TENSOR = "model.layers.0.mlp.gate_up_proj.weight"  # [48, 16] in bf16: 1536 bytes
SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
MISSING = object()


def run(program, folder):
    command = [program, f"--model={folder}", f"--data={DATA}", "--batch=1", "--seq=8", "--steps=1"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    return done.returncode, [line for line in done.stderr.splitlines() if line]


def read_weights(folder):
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length]), data[8 + length:]


def write_weights(path, header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def config_text(text):
    return lambda folder: (folder / "config.json").write_bytes(text)


def config(key, value):
    def damage(folder):
        keys = json.loads((folder / "config.json").read_text())
        keys[key] = value
        if value is MISSING:
            del keys[key]
        (folder / "config.json").write_text(json.dumps(keys))
    return damage


def weights(change):
    """`change` gets the header and the data. It changes the header, or returns other data."""
    def damage(folder):
        header, data = read_weights(folder)
        other = change(header, data)
        write_weights(folder / "model.safetensors", header, other if isinstance(other, bytes) else data)
    return damage


def entry(**values):
    return weights(lambda header, data: header[TENSOR].update(values))


def header(text, length=None):
    return lambda folder: write_weights(folder / "model.safetensors", text, read_weights(folder)[1], length)


def double_type(folder):
    """The tensor is well formed, but of a type that no weight has."""
    tensors, data = read_weights(folder)
    first, end = tensors[TENSOR]["data_offsets"]
    more = 3 * (end - first)
    for name, tensor in tensors.items():
        if name != "__metadata__" and tensor["data_offsets"][0] >= end:
            tensor["data_offsets"] = [offset + more for offset in tensor["data_offsets"]]
    tensors[TENSOR].update(dtype="F64", data_offsets=[first, end + more])
    write_weights(folder / "model.safetensors", tensors, data[:end] + bytes(more) + data[end:])


def split(folder):
    """Puts the weights into two files, and returns the index."""
    tensors, data = read_weights(folder)
    names = [name for name in tensors if name != "__metadata__"]
    places = {}
    for file, part in zip(SHARDS, (names[:len(names) // 2], names[len(names) // 2:])):
        own, body = {}, b""
        for name in part:
            first, end = tensors[name]["data_offsets"]
            own[name] = dict(tensors[name], data_offsets=[len(body), len(body) + end - first])
            body += data[first:end]
            places[name] = file
        write_weights(folder / file, own, body)
    (folder / "model.safetensors").unlink()
    return dict(metadata={}, weight_map=places)


def shards(change):
    """`change` gets the folder and the index, which it changes, or returns as text."""
    def damage(folder):
        index = split(folder)
        text = change(folder, index)
        (folder / "model.safetensors.index.json").write_text(text if isinstance(text, str) else json.dumps(index))
    return damage


def place(file):
    return shards(lambda folder, index: index["weight_map"].update({TENSOR: file}))


def truncate(folder, index):
    path = folder / SHARDS[1]
    path.write_bytes(path.read_bytes()[:-100])


def bad_sizes():
    """Values that are no sizes, of keys that are sizes."""
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size",
            "max_position_embeddings")
    for key in keys:
        yield config(key, MISSING), ("config.json", key, "missing")
        for value in (0, -1, 2**62, 1.5, "12", None, [], True):
            yield config(key, value), ("config.json", f"{key} is {json.dumps(value)}", "must be an integer")


CASES = [
    *bad_sizes(),
    (config_text(b""), ("config.json:1",)),
    (config_text(b"[" * 100000), ("config.json:1", "depth")),
    (config_text(b"[]"), ("config.json", "not a JSON object")),
    (config_text(b'{"a": "\xff"}'), ("config.json:1", "0xff")),
    (config_text(b'{"a": 1, "a": 2}'), ("config.json:1", "duplicate")),
    (config_text(b'{"rms_norm_eps": NaN}'), ("config.json:1", "NaN")),
    (config("model_type", MISSING), ("model_type is missing",)),
    (config("model_type", 7), ("model_type: 7", "supported are gpt2, ")),
    (config("architectures", "Phi3ForCausalLM"), ("architectures", "list of names")),
    (config("rms_norm_eps", "x"), ("rms_norm_eps", "must be a number")),
    (config("rope_parameters", [1]), ("rope_parameters", "object")),
    (config("num_key_value_heads", 3), ("num_key_value_heads is 3", "num_attention_heads, which is 4")),
    (config("num_key_value_heads", 4), ("qkv_proj.weight", "shape is [32, 16]", "needs [48, 16]")),
    (config("num_hidden_layers", 3), ("model.layers.2.", "is missing")),
    (config("num_hidden_layers", 1), ("model.layers.1.", "not part of the model")),
    (lambda folder: (folder / "config.json").unlink(), ("config.json", "No such file")),
    (lambda folder: (folder / "model.safetensors").write_bytes(b""), ("model.safetensors", "too short")),
    (header(b"{}", 2**63), ("model.safetensors", "header", "9223372036854775808 bytes")),
    (header(b"{}", 10**8), ("model.safetensors", "header", "100000000 bytes")),
    (header(b"garbage"), ("model.safetensors", "header is not JSON")),
    (header(b"[]"), ("model.safetensors", "header", "object")),
    (header(b"[" * 100000), ("model.safetensors", "depth")),
    (weights(lambda tensors, data: tensors.update({TENSOR: 3})), (TENSOR,)),
    (weights(lambda tensors, data: tensors.update({TENSOR + "x": tensors.pop(TENSOR)})), (TENSOR, "is missing")),
    (weights(lambda tensors, data: data[:-10]), ("truncated or damaged",)),
    (weights(lambda tensors, data: data + b"123456"), ("16230 bytes of data", "16224")),
    (double_type, (TENSOR, "type is F64", "must be F32, F16 or BF16")),
    (entry(dtype="I32"), (TENSOR, "occupies 1536 bytes", "takes 3072 in I32")),
    (entry(dtype="Q4_K"), (TENSOR, "Q4_K")),
    (entry(dtype=3), (TENSOR, "dtype")),
    (entry(shape=[16, 48]), (TENSOR, "shape is [16, 48]", "needs [48, 16]")),
    (entry(shape=[768]), (TENSOR, "shape is [768]", "needs [48, 16]")),
    (entry(shape=[40, 16]), (TENSOR, "occupies 1536 bytes", "takes 1280 in BF16")),
    (entry(shape=[-48, -16]), (TENSOR, "dimension 0")),
    (entry(shape=[2**40, 2**40]), (TENSOR, "too large")),
    (entry(shape="x"), (TENSOR, "list")),
    (entry(data_offsets=[-8, 100]), (TENSOR, "data_offsets")),
    (entry(data_offsets=[100, 8]), (TENSOR, "data_offsets")),
    (entry(data_offsets=[2**62, 2**62 + 1536]), (TENSOR, "only 16224 bytes")),
    (shards(lambda folder, index: (folder / SHARDS[1]).unlink()), (SHARDS[1], "No such file")),
    (shards(truncate), (SHARDS[1], "truncated or damaged")),
    (shards(lambda folder, index: "{"), ("index.json", "not JSON")),
    (shards(lambda folder, index: "[]"), ("index.json", "weight_map")),
    (shards(lambda folder, index: index.clear()), ("index.json", "weight_map")),
    (shards(lambda folder, index: index["weight_map"].clear()), ("index.json", "names no file")),
    (place(3), ("index.json", TENSOR)),
    (place("/etc/hostname"), ("index.json", "/etc/hostname", "same folder")),
    (place("../model.safetensors"), ("index.json", "../model.safetensors", "same folder")),
    (place(SHARDS[1]), ("index.json", TENSOR, f"not in {SHARDS[1]}")),
]


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "model"
        shutil.copytree(MODEL, folder)
        if run(program, folder)[0] != 0:
            sys.exit("the undamaged model does not train")
        for number, (damage, words) in enumerate(CASES):
            shutil.rmtree(folder)
            shutil.copytree(MODEL, folder)
            damage(folder)
            status, lines = run(program, folder)
            if status != 2 or len(lines) != 1 or not all(word in lines[0] for word in words):
                sys.exit(f"case {number}, {words}: status {status}, {lines}")
    print(f"{len(CASES)} damaged models were refused")


if __name__ == "__main__":
    main()
