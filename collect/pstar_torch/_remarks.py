"""What is said on how a program runs, as it runs only to be recorded: on the console, and in its trace."""
import sys

remarks = []


def remark(line):
    """Says once what a trace of this program has otherwise than the program."""
    if line not in remarks:
        remarks.append(line)
        print(f"pstar_torch: {line}", file=sys.stderr)
