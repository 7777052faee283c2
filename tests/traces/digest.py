#!/usr/bin/env python3
"""Computes the digest of the small trace of test_trace.c from the description of the serialisation:
numbers are 64 bits little-endian, texts are their length followed by their bytes."""
import hashlib
import struct


def number(n):
    return struct.pack("<Q", n)


def text(s):
    return number(len(s.encode())) + s.encode()


READ, UPDATE, OVERWRITE = range(3)
PARAM, GRAD, MASTER, EXP_AVG, EXP_AVG_SQ = range(5)

out = text("bf16") + number(2) + number(8) + number(1)
out += b"".join(number(n) for n in (2, 0, 4, 0, 0))
out += number(2) + text("wte") + number(100) + text("w") + number(10)
operators = [
    ("forward wte", (0, PARAM, READ)),
    ("forward w", (1, PARAM, READ)),
    ("backward w", (1, PARAM, OVERWRITE)),
    ("update w", (1, MASTER, UPDATE)),
]
out += number(len(operators))
for name, access in operators:
    out += text(name) + number(0) + number(0) + number(0) + number(1)
    out += b"".join(number(n) for n in access)
out += number(2) + b"".join(number(n) for n in (64, 0, 2, 7, 1, 1))
print(hashlib.sha256(out).hexdigest())
