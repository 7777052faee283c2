"""Writes what a bench prints into documents, and compares it with what stands there.

In a document, a piece of text that a bench writes stands between the lines "<!-- NAME -->" and
"<!-- end -->". Nobody edits it by hand:

    written.add_options(parser)            # --write FILE and --check FILE
    ok = written.settle(options, {"offload": lines, "offload-others": lines})

Figures that any machine computes alike are compared by a test, which runs the bench with --check.
"""

import pathlib

END = "<!-- end -->\n"


def add_options(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", metavar="FILE", type=pathlib.Path, action="append",
                       help="write the results into this document, between their marks; may be repeated")
    group.add_argument("--check", metavar="FILE", type=pathlib.Path, action="append",
                       help="exit with status 1 if this document has other results; may be repeated")


def is_asked(options):
    return bool(options.write or options.check)


def split(path, name):
    """Returns the text before the piece, the piece, and the text after it; None if it is not there."""
    begin = f"<!-- {name} -->\n"
    before, mark, rest = path.read_text(encoding="utf-8").partition(begin)
    piece, end, after = rest.partition(END)
    return (before + begin, piece, END + after) if mark and end else None


def settle(options, pieces):
    """Writes the pieces, which are strings by name, or compares them. A document has all of them, or
    only some. Returns false and prints the difference if a document has other results."""
    ok = True
    for path in options.write or options.check or []:
        names = [name for name in pieces if split(path, name)]
        if not names:
            raise SystemExit(f"{path} has none of the marks {', '.join(f'<!-- {name} -->' for name in pieces)}")
        for name in names:
            before, piece, after = split(path, name)
            if options.write:
                path.write_text(before + pieces[name] + after, encoding="utf-8")
            elif piece != pieces[name]:
                ok = False
                print(f"{path}: the results '{name}' differ. They are now\n{pieces[name]}"
                      f"Write them with --write {path}.")
    return ok


def row(cells):
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


def table(heading, rows):
    """Returns a Markdown table of strings. The heading is a list of titles; those of columns of
    numbers end with '>', which aligns the column to the right."""
    rule = "|" + "".join("--:|" if title.endswith(">") else "---|" for title in heading) + "\n"
    return row([title.rstrip(">") for title in heading]) + rule + "".join(map(row, rows))
