#!/usr/bin/env python3
"""pstar-tokenize writes the tokens of a model's own tokenizer, and pstar-run trains on them.

    tokenized.py BUILD_DIR PROJECT_DIR

Compares the files with what tokenizers makes of the same drawn texts, from text, JSON lines and Parquet (where
pyarrow is installed); with what pstar-tokens writes; chats and their masks with those of transformers, where that is
installed; and the losses of one run on the same tokens in the files
of llm.c, numpy and Megatron-LM. Prints its seed; another one is given as PSTAR_SEED. Returns 77 where
tokenizers or numpy is missing.
"""

import json
import os
import pathlib
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

try:
    import numpy
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers
except ImportError:
    sys.exit(77)
try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None
try:
    import transformers
except ImportError:
    transformers = None

PROGRAMS, PROJECT = map(pathlib.Path, sys.argv[1:])
SEED = int(os.environ.get("PSTAR_SEED", random.SystemRandom().randrange(1 << 32)))
LETTERS = "abcdefgh   the and <|endoftext|> \n\tÄöü日本語😀'\".,0123456789"
CONFIG = dict(model_type="gpt2", n_layer=1, n_embd=32, n_head=2, n_positions=32, vocab_size=320)


def tokenize(*arguments, status=0):
    done = subprocess.run([sys.executable, PROGRAMS / "pstar-tokenize", *map(str, arguments)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stderr if status else done.stdout


def run(program, *arguments, status=0):
    done = subprocess.run([PROGRAMS / program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == status, (program, arguments, done.returncode, done.stderr)
    return done.stderr if status else done.stdout


def draw_text(draw):
    return "".join(draw.choice(LETTERS) for _ in range(draw.randrange(1, 200)))


def read_tokens(path):
    magic, version, count = struct.unpack("<3i", path.read_bytes()[:12])
    kind = {(20240520, 1): "<u2", (20240801, 7): "<u4"}[magic, version]
    tokens = numpy.fromfile(path, kind, offset=1024)
    assert len(tokens) == count
    return tokens.tolist()


def make_models(folder):
    """A byte-level BPE, which pstar-tokens reads as well, and a tokenizer of another kind that begins texts."""
    bytes_, words = folder / "bytes", folder / "words"
    shutil.copytree(PROJECT / "tests/models/tokenizer", bytes_)
    words.mkdir()
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    tokenizer.train_from_iterator(text.splitlines(), trainers.UnigramTrainer(
        vocab_size=320, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    tokenizer.save(str(words / "tokenizer.json"))
    (words / "tokenizer_config.json").write_text('{"eos_token": {"content": "</s>"}}', encoding="utf-8")
    for model in (bytes_, words):
        (model / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return bytes_, words


def expect(model, texts, end):
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    ends = [tokenizer.token_to_id(end)] if end else []
    return [token for text in texts for token in tokenizer.encode(text).ids + ends]


def check_texts(folder, bytes_, words, draw):
    texts = [draw_text(draw) for _ in range(3)]
    paths = [folder / f"{i}.txt" for i in range(len(texts))]
    out, other = folder / "out.bin", folder / "other.bin"
    for path, text in zip(paths, texts):
        path.write_bytes(text.encode())
    tokenize("--model", words, *paths, "-o", out)
    assert read_tokens(out) == expect(words, texts, "</s>")
    tokenize("--model", words, "--end", "", *paths, "-o", out)
    assert read_tokens(out) == expect(words, texts, None)
    tokenize("--model", bytes_ / "config.json", paths[0], "-o", out)
    stale = folder / "other.bin.mask"
    stale.write_bytes(b"of other tokens")
    run("pstar-tokens", "--model", bytes_, paths[0], "-o", other)
    assert not stale.exists()
    stale.mkdir()
    message = run("pstar-tokens", "--model", bytes_, paths[0], "-o", other, status=1)
    assert f"{stale}: " in message and message.count("\n") == 1, message
    stale.rmdir()
    assert out.read_bytes() == other.read_bytes()


def check_rows(folder, words, draw):
    texts = [draw_text(draw) for _ in range(draw.randrange(600, 1100))]
    rows, table, out = folder / "rows.jsonl", folder / "rows.parquet", folder / "rows.bin"
    rows.write_text("".join(json.dumps({"id": 1, "body": text}) + "\n" for text in texts), encoding="utf-8")
    tokenize("--model", words, "--field", "body", rows, "-o", out)
    expected = expect(words, texts, "</s>")
    assert read_tokens(out) == expected
    if pyarrow:
        pyarrow.parquet.write_table(pyarrow.table({"id": [1] * len(texts), "body": texts}), table, row_group_size=97)
        tokenize("--model", words, "--field", "body", table, "-o", out)
        assert read_tokens(out) == expected
    return expected


def read_mask(path):
    """Returns whether each token of a file counts, by the mask beside it."""
    count, mask = len(read_tokens(path)), pathlib.Path(f"{path}.mask")
    if not mask.exists():
        return [True] * count
    magic, version, low, high, total = struct.unpack("<5I", mask.read_bytes()[:20])
    bits = mask.read_bytes()[1024:]
    assert (magic, version, low, high) == (20261125, 1, count, 0)
    assert total == zlib.crc32(bits) == struct.unpack("<2i3I", path.read_bytes()[:20])[4]
    return numpy.unpackbits(numpy.frombuffer(bits, numpy.uint8), bitorder="little")[:count].astype(bool).tolist()


def check_spaces(folder, bytes_, draw):
    """Tokenizers leave spaces out of their offsets. A token of spaces counts if one of them is in the answer."""
    tokenizer = tokenizers.Tokenizer.from_file(str(bytes_ / "tokenizer.json"))
    tokenizer.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True)
    spaced, rows, out = folder / "spaced", folder / "spaced.jsonl", folder / "spaced.bin"
    spaced.mkdir()
    tokenizer.save(str(spaced / "tokenizer.json"))
    words = lambda: "".join(draw.choice(["the ", "  ", " ", "and", "b", " a", "   "]) for _ in range(draw.randrange(1, 9)))
    pairs, counts = [(words(), words()) for _ in range(60)], []
    rows.write_text("".join(json.dumps(dict(q=q, text=a)) + "\n" for q, a in pairs), encoding="utf-8")
    tokenize("--model", spaced, "--prompt-field", "q", rows, "-o", out)
    for q, a in pairs:
        at = 0
        for token in tokenizer.encode(q + a).ids:
            at += len(tokenizer.decode([token]))
            counts.append(at > len(q))
        assert at == len(q + a)
    assert read_mask(out) == counts


def draw_chat(draw):
    """Questions and answers, in some chats behind a message of the system or of the assistant, in some with a question
    left open."""
    first = draw.choice(([], ["system"], ["assistant"]))
    roles = first + ["user", "assistant"] * draw.randrange(1, 4) + ["user"] * draw.randrange(2)
    return [dict(role=role, content=draw_text(draw)) for role in roles]


BEGIN, END = "{{ eos_token }}{{ m.role }}: ", "{{ m.content }}{{ eos_token }}"
PLAIN = "{% for m in messages %}" + BEGIN + END + "{% endfor %}{% if add_generation_prompt %}{{ eos_token }}assistant: {% endif %}"
MARKED = PLAIN.replace(END, "{% if m.role == 'assistant' %}{% generation %}" + END + "{% endgeneration %}{% else %}" + END + "{% endif %}")
LAST = PLAIN.replace(END, "{% if loop.last and m.role == 'assistant' %}{{ 'hm ' }}{% endif %}" + END)  # as models that think write what was thought last


THINKS = PLAIN.replace("assistant: {% endif %}", "assistant: <think>{% endif %}")  # only where an answer begins
NO_TOOLS = PLAIN.replace(BEGIN, "{% if m.tools is defined %}{{ raise_exception('tools') }}{% endif %}" + BEGIN)


def expect_chats(words, chats):
    """Returns what transformers makes of each chat by the template that marks answers: tokens, and which are answers'."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(words / "tokenizer.json"), eos_token="</s>")
    made = [tokenizer.apply_chat_template(chat, chat_template=MARKED, return_dict=True, return_assistant_tokens_mask=True)
            for chat in chats]
    return [one["input_ids"] for one in made], [list(map(bool, one["assistant_masks"])) for one in made]


def last_answer(counts):
    """Keeps the last run of tokens that count."""
    end = max((i + 1 for i, one in enumerate(counts) if one), default=0)
    first = end
    while first and counts[first - 1]:
        first -= 1
    return [first <= i < end for i in range(len(counts))]


def check_chats(folder, words, draw):
    """The model's template writes the special tokens; nothing is added to it. Answers count, as transformers says."""
    if not transformers:
        return
    chats = [draw_chat(draw) for _ in range(30)]
    rows, out, template = folder / "chats.jsonl", folder / "chats.bin", words / "chat_template.jinja"

    def work(text, *arguments, status=0):
        template.write_text(text, encoding="utf-8")
        return tokenize("--model", words, "--chat", *arguments, rows, "-o", out, status=status)

    rows.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats), encoding="utf-8")
    assert "has no chat template" in tokenize("--model", words, "--chat", rows, "-o", out, status=2)
    template.write_bytes(b"{{ m }}\xff")
    assert "chat_template.jinja: byte 7 is not UTF-8" in tokenize("--model", words, "--chat", rows, "-o", out, status=2)
    tokens, counts = expect_chats(words, chats)
    flat, answers = sum(tokens, []), sum(counts, [])
    for text in (PLAIN, MARKED, THINKS):
        said = work(text)
        assert read_tokens(out) == flat and read_mask(out) == answers
        assert said == f"{out}: {len(flat)} tokens, of which {sum(answers)} count in the loss ({out}.mask)\n", said
    work(PLAIN, "--loss", "last")
    assert read_mask(out) == sum(map(last_answer, counts), [])
    assert work(PLAIN, "--loss", "all") == f"{out}: {len(flat)} tokens\n"
    assert read_tokens(out) == flat and not pathlib.Path(f"{out}.mask").exists()
    if any(chat[-1]["role"] == "user" or sum(m["role"] == "assistant" for m in chat) > 1 for chat in chats):
        assert "writes message" in work(LAST, status=2) and not list(folder.glob("chats.bin*.*"))
    if pyarrow:
        check_parquet_chats(folder, words, chats, flat)
    chats[:] = [chat[:-1] if chat[-1]["role"] == "user" else chat for chat in chats]
    rows.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats), encoding="utf-8")
    work(LAST, "--loss", "last")
    assert sum(read_mask(out)) > sum(sum(map(last_answer, expect_chats(words, chats)[1]), []))  # what was thought, too
    check_masked_training(folder, words, out)
    refuse_chats(rows, work)


def check_parquet_chats(folder, words, chats, expected):
    """Keys that only some messages have are not there in the others, although Parquet has them in all."""
    table, out = folder / "chats.parquet", folder / "table.bin"
    rows = [[dict(message, name="n") if i == 0 else message for i, message in enumerate(chat)] for chat in chats]
    kind = pyarrow.list_(pyarrow.struct([(key, pyarrow.string()) for key in ("role", "content", "name", "tools")]))
    pyarrow.parquet.write_table(pyarrow.table(dict(messages=pyarrow.array(rows, kind))), table)
    (words / "chat_template.jinja").write_text(NO_TOOLS, encoding="utf-8")
    tokenize("--model", words, "--chat", table, "-o", out)
    assert read_tokens(out) == expected


def refuse_chats(rows, work):
    def refuse(line, reason, text=PLAIN):
        rows.write_text(f"\n{line}\n", encoding="utf-8")
        message = work(text, status=2)
        assert message.startswith("pstar-tokenize: ") and message.count("\n") == 1 and reason in message, message

    refuse("{}", "line 2 has no list of messages in the field 'messages'; its fields are: none")
    refuse('{"messages": []}', "line 2: the list of messages is empty")
    refuse('{"messages": ["hello"]}', "line 2: message 1 has no role; a message is an object with role and content, and this one has: str")
    refuse('{"messages": [{"from": "human", "value": "a"}]}', "message 1 has no role; a message is an object with role and "
           "content, and this one has: from, value")
    refuse('{"messages": [{"role": "user"}]}', "line 2: the chat template: no chat", "{{ raise_exception('no chat') }}")
    rows.write_text('{"messages": [{"role": "user", "content": "a"}]}\n', encoding="utf-8")
    assert "no token would count in the loss: there is no answer" in work(PLAIN, status=2)
    assert "--loss needs --chat" in tokenize("--model", "m", "--loss", "all", rows, "-o", "o", status=2)
    assert "does not go with" in tokenize("--model", "m", "--chat", "--prompt-field", "p", rows, "-o", "o", status=2)


def expect_no_targets(folder, tokens, mask, arguments):
    """A step of which no target counts has the loss and the gradient 0, and the run says so."""
    kept, none = tokens.read_bytes(), mask.read_bytes()[1024:]
    none = bytes(9) + none[9:]  # the first step has the tokens up to the 65th
    mask.write_bytes(struct.pack("<5I", 20261125, 1, len(read_tokens(tokens)), 0, zlib.crc32(none)).ljust(1024, b"\0") + none)
    tokens.write_bytes(kept[:16] + struct.pack("<I", zlib.crc32(none)) + kept[20:])
    done = subprocess.run([PROGRAMS / "pstar-run", *map(str, arguments), "--steps", "1"], capture_output=True, text=True, check=True)
    line = json.loads((folder / "masked.jsonl").read_text(encoding="utf-8"))
    assert (line["targets"], line["loss"], line["gradient_norm"]) == (0, 0, 0), line
    assert "step 1: none of its targets counts in the loss, so its gradient is 0" in done.stderr, done.stderr
    tokens.write_bytes(kept)


def check_masked_training(folder, words, tokens):
    """pstar-run counts what the mask says, and refuses tokens without their mask."""
    log, mask = folder / "masked.jsonl", pathlib.Path(f"{tokens}.mask")
    arguments = ("--model", words, "--data", tokens, "--batch", 2, "--seq", 16, "--micro-batches", 2, "--steps", 2,
                 "--data-order", "sequential", "--log", log, "--held-out", 0)
    said = run("pstar-run", *arguments)
    counts = read_mask(tokens)
    found = [json.loads(line)["targets"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert found == [sum(counts[step * 64 + 1:step * 64 + 65]) for step in range(2)], found
    words_ = [line.split() for line in said.splitlines() if line.startswith("targets in the training text")]
    assert words_ == [["targets", "in", "the", "training", "text", str(sum(counts[1:])), "of", str(len(counts)), "tokens,",
                       "by", "the", "mask"]], said
    bits = mask.read_bytes()
    expect_no_targets(folder, tokens, mask, arguments)
    mask.write_bytes(bits[:-1] + bytes([bits[-1] ^ 1]))
    assert "checksum differs" in run("pstar-run", *arguments, status=2)
    mask.unlink()
    assert "its mask, which says what counts in the loss, is missing" in run("pstar-run", *arguments, status=2)


def check_prompts(folder, words, draw):
    """A prompt does not count; its answer and the end behind it do."""
    pairs = [(draw_text(draw) + "?", draw_text(draw)) for _ in range(20)]
    rows, table, out = folder / "pairs.jsonl", folder / "pairs.parquet", folder / "pairs.bin"
    rows.write_text("".join(json.dumps(dict(q=q, a=a)) + "\n" for q, a in pairs), encoding="utf-8")
    tokenize("--model", words, "--prompt-field", "q", "--field", "a", rows, "-o", out)
    assert read_tokens(out) == expect(words, [q + a for q, a in pairs], "</s>")
    tokenizer, counts = tokenizers.Tokenizer.from_file(str(words / "tokenizer.json")), []
    for q, a in pairs:
        ends = [last for _, last in tokenizer.encode(q + a).offsets]
        counts += [last > len(q) for last in ends] + [True]
    assert read_mask(out) == counts
    if pyarrow:
        expected = out.read_bytes(), pathlib.Path(f"{out}.mask").read_bytes()
        pyarrow.parquet.write_table(pyarrow.table(dict(a=[a for _, a in pairs], q=[q for q, _ in pairs])), table)
        tokenize("--model", words, "--prompt-field", "q", "--field", "a", table, "-o", out)
        assert (out.read_bytes(), pathlib.Path(f"{out}.mask").read_bytes()) == expected
    text = folder / "pairs.txt"
    text.write_text("plain", encoding="utf-8")
    assert "--prompt-field needs JSON lines" in tokenize("--model", words, "--prompt-field", "q", text, "-o", out, status=2)
    tokenize("--model", words, text, "-o", out)
    assert not pathlib.Path(f"{out}.mask").exists()


def check_training(folder, words, tokens):
    """The same tokens train with the same losses, whatever file they are in."""
    files = {"llm.c": folder / "rows.bin", "megatron": folder / "set.idx"}
    for kind in ("uint16", "uint32", "int32", "int64"):
        files[kind] = folder / f"{kind}.npy"
        numpy.save(files[kind], numpy.array(tokens, kind))
    numpy.array(tokens, "<u2").tofile(folder / "set.bin")
    half = len(tokens) // 2
    files["megatron"].write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2, 3) +
                                  struct.pack("<2i", half, len(tokens) - half) + struct.pack("<2q", 0, 2 * half) +
                                  struct.pack("<3q", 0, 1, 2))
    losses = set()
    for path in files.values():
        summary = json.loads(run("pstar-run", "--model", words, "--data", path, "--batch", 2, "--seq", 16,
                                 "--steps", 2, "--json", "--quiet"))
        losses.add((summary["first_loss"], summary["loss"], summary["unigram_entropy"]))
    assert len(losses) == 1, losses


def check_refusals(folder, bytes_, words):
    def refuse(name, content, reason, *arguments, model=words):
        path = folder / name
        path.write_bytes(content)
        message = tokenize("--model", model, *arguments, path, "-o", folder / "no.bin", status=2)
        assert message.startswith("pstar-tokenize: ") and message.count("\n") == 1 and reason in message, message
        assert not list(folder.glob("no.bin*"))

    refuse("a.txt", b"caf\xe9 au", "a.txt: byte 3 is not UTF-8")
    refuse("a.txt", b"", "the files hold no text", model=bytes_)
    refuse("a.txt", b"text", "--end <none>: the tokenizer has no such token", "--end", "<none>")
    refuse("a.txt", b"text", "--chat needs JSON lines", "--chat")
    refuse("a.txt", b"text", "tokenizer.json: No such file", model=folder)
    refuse("a.jsonl", b'{"text": "a"}\n{"text"', "a.jsonl: line 2 is not JSON")
    refuse("a.jsonl", b'{"text": "a"}\n\n{"body": "b", "id": 3}\n', "line 3 has no text in the field 'text'; its fields are: body, id")
    refuse("a.jsonl", b'{"text": 7}\n', "line 1 has no text in the field 'text'")
    refuse("a.jsonl", b"[" * 100000, "line 1 is not JSON")
    refuse("a.jsonl", b'{"text": "\\ud800"}\n', "cannot be encoded")
    if pyarrow:
        refuse("a.parquet", b"PAR1, not really", "a.parquet: ")
    broken = folder / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text('{"model": 7}', encoding="utf-8")
    refuse("a.txt", b"text", "broken/tokenizer.json: ", model=broken)
    assert "no token of the model" in tokenize("--model", bytes_, "--decode", "40 99999", status=2)
    assert tokenize("--model", bytes_, "--decode", "40, 41").strip().replace(" ", "") == "HI"
    message = run("pstar-run", "--model", words, "--data", folder / "rows.jsonl", "--steps", 1, status=2)
    assert "pstar-tokenize" in message and message.count("\n") == 1, message
    message = run("pstar-tokens", "--model", words, folder / "a.txt", "-o", folder / "no.bin", status=2)
    assert "pstar-tokenize" in message and message.count("\n") == 1, message


def start(*arguments, **how):
    return subprocess.Popen([sys.executable, PROGRAMS / "pstar-tokenize", *map(str, arguments)], text=True,
                            stderr=subprocess.PIPE, **how)


def check_outputs(folder, words):
    """What is written where: never over an input, a pipe or a device, through links, and by nobody else's hands."""
    text, given, output = folder / "given.txt", ("--model", words), folder / "out.bin"
    text.write_text("the and the", encoding="utf-8")

    def refuse(path, status, reason):
        message = tokenize(*given, text, "-o", path, status=status)
        assert message.startswith("pstar-tokenize: ") and message.count("\n") == 1 and reason in message, message

    before = (words / "tokenizer.json").read_bytes()
    refuse(text, 2, "given.txt: would replace an input")
    refuse(words / "tokenizer.json", 2, "would replace an input")
    refuse("-", 2, "cannot go to standard output")
    refuse(folder / "nowhere" / "out", 1, "cannot be written: No such file")
    refuse(folder, 1, "cannot be written: Is a directory")
    assert text.read_text(encoding="utf-8") == "the and the" and (words / "tokenizer.json").read_bytes() == before
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    refuse(pipe, 1, "not a regular file")
    assert pipe.is_fifo()
    for endless in (pipe, "/dev/zero"):
        assert "not a regular file" in tokenize(*given, endless, "-o", output, status=2)
    link = folder / "link.bin"
    link.symlink_to("behind.bin")
    tokenize(*given, text, "-o", link)
    assert link.is_symlink() and (folder / "behind.bin").is_file()
    rows = folder / "answers.jsonl"
    rows.write_text('{"prompt": "the", "text": " and the"}\n' * 20, encoding="utf-8")
    tokenize(*given, "--prompt-field", "prompt", rows, "-o", link)
    run("pstar-run", *given, "--data", link, "--batch", 1, "--seq", 16, "--steps", 1)  # finds the mask
    old = os.umask(0)
    tokenize(*given, text, "-o", output)
    os.umask(old)
    assert output.stat().st_mode & 0o777 == 0o664
    output.unlink()


def check_lost_output(words):
    """Standard output that is full or closed is an error, also of --help."""
    for arguments in (["--help"], ["--version"], ["--model", words, "--decode", "40"]):
        for unbuffered in ("", "1"):
            environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
            with open("/dev/full", "wb") as full:
                lost = start(*arguments, stdout=full, env=environment)
                message = lost.communicate()[1]
            assert lost.returncode == 1 and "standard output: cannot be written: No space" in message, message
        closed = start(*arguments, preexec_fn=lambda: os.close(1))
        assert "standard output: cannot be written" in closed.communicate()[1] and closed.returncode == 1


def hear_signals():
    """A shell lets what it runs in the background ignore SIGINT."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def check_signals(folder, words):
    """A signal leaves no file; SIGUSR1 asks how far the work is."""
    rows, output = folder / "many.jsonl", folder / "many.bin"
    rows.write_text('{"text": "the and the"}\n' * 2000000, encoding="utf-8")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        working = start("--model", words, rows, "-o", output, stdout=subprocess.DEVNULL, preexec_fn=hear_signals)
        while not list(folder.glob("many.bin.*")):  # begun
            assert working.poll() is None
            time.sleep(0.01)
        asked = ""
        while " tokens\n" not in asked:
            working.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            asked += os.read(working.stderr.fileno(), 4096).decode() if select.select([working.stderr], [], [], 0)[0] else ""
            assert working.poll() is None, asked
        working.send_signal(number)
        message = working.communicate()[1]
        assert working.returncode == 128 + number and "pstar-tokenize: interrupted\n" in message, message
        assert not list(folder.glob("many.bin*"))


def main():
    print("seed", SEED)
    draw = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        bytes_, words = make_models(folder)
        check_texts(folder, bytes_, words, draw)
        check_training(folder, words, check_rows(folder, words, draw))
        check_prompts(folder, words, draw)
        check_spaces(folder, bytes_, draw)
        check_chats(folder, words, draw)
        check_refusals(folder, bytes_, words)
        check_outputs(folder, words)
        check_lost_output(words)
        check_signals(folder, words)


main()
