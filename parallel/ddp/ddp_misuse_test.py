#!/usr/bin/env python3
"""Compiles ddp_misuse.cc and compares the compiler's errors with the patterns in it.  Each misuse must cause one
error that matches its pattern.  No other line may cause an error.

  ddp_misuse_test.py ddp_misuse.cc COMPILER [FLAG]...

A pattern is a comment "// Says: …" of one line, and the misuse is the next line.  GCC's output for a misuse starts
at the first line that names it and ends before the first that names another.
"""
import os
import pathlib
import re
import subprocess
import sys


def patterns_by_line(source):
    """Returns {line of the misuse: its pattern}."""
    found = {}
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if match := re.match(r"\s*// Says: (.*)", line):
            found[number + 1] = match.group(1)
    return found


def said_by_line(source, output):
    """Returns {line of the source: the compiler's output about it}."""
    said, current = {}, 0
    for line in output.splitlines():
        if match := re.match(re.escape(str(source)) + r":(\d+):", line):
            current = int(match.group(1))
        said.setdefault(current, []).append(line)
    return {number: "\n".join(lines) for number, lines in said.items()}


def problems(patterns, said):
    for number, pattern in patterns.items():
        text = said.get(number, "")
        errors = len(re.findall(r"\berror: ", text))
        if errors != 1:
            yield f"line {number}: {errors} errors; expected one, with '{pattern}'", text
        elif not re.search(pattern, text, re.DOTALL):
            yield f"line {number}: '{pattern}' is not said", text
    for number, text in said.items():
        if number not in patterns and re.search(r"\berror: ", text):
            yield f"line {number}: an error where there is no misuse", text


def main():
    source, *compiler = sys.argv[1:]
    source = pathlib.Path(source)
    command = [*compiler, "-fsyntax-only", "-w", str(source)]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, errors="replace")
    patterns = patterns_by_line(source)
    found = list(problems(patterns, said_by_line(source, done.stderr)))
    for problem, text in found:
        print(f"{source}: {problem}; the compiler says\n{text}\n")
    print(f"{len(patterns)} misuses, {len(found)} problems")
    return 1 if found or not patterns else 0


if __name__ == "__main__":
    sys.exit(main())
