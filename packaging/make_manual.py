#!/usr/bin/env python3
"""make_manual.py DISTRUN FOLDER: writes the manual page of distrun and of each of its commands, from their --help.

The pages are distrun.1, distrun-launch.1, distrun-store-get.1 and so on.  SOURCE_DATE_EPOCH dates them.
"""

import collections
import os
import re
import subprocess
import sys
import time
from pathlib import Path


def help_of(program, words):
    return subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def sections_of(text):
    """Splits a help text into (title, lines): a title stands alone, above indented lines; other paragraphs have none."""
    sections = [("", [])]
    lines = text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""]):
        if not line.strip():
            sections.append(("", []))
        elif re.match(r"\S.*:$", line) and following.startswith(" "):
            sections.append((line[:-1], []))
        else:
            sections[-1][1].append(line)
    return [(title, lines) for title, lines in sections if lines]


def entries_of(lines):
    """Returns (name, text) of lines that look like `  -m, --module    PROGRAM is …`, in two columns; else nothing."""
    starts = [found.end() for line in lines if (found := re.match(r" {1,8}\S.*?\S {2,}(?=\S)", line))]
    starts += [found.end() for line in lines if (found := re.match(r" {12,}(?=\S)", line))]
    if not starts:
        return []
    column = collections.Counter(starts).most_common(1)[0][0]
    entries = []
    for line in lines:
        name, text = line[:column], line[column:].strip()
        if text and not name.endswith(" "):  # A name that is longer than its column.
            name, text = line, ""
        if name.strip():
            entries.append([name.strip(), text])
        elif entries:
            entries[-1][1] = f"{entries[-1][1]} {text}".strip()
    return entries


def commands_of(text):
    return [name for title, lines in sections_of(text) if re.match("(Subc|C)ommands", title) for name, _ in entries_of(lines)]


def page_of(words, text, version, also):
    name = "-".join(["distrun", *words])
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    summary = text.split("\n")[0].rstrip(".").removeprefix("distrun ")
    page = [f'.TH {name.upper()} 1 "{day}" "distrun {version}"', ".SH NAME", f"{escaped(name)} \\- {escaped(summary)}"]
    usage = re.search(r"^Usage: *(.*)$", text, re.MULTILINE)
    page += [".SH SYNOPSIS", escaped(usage[1]), ".SH DESCRIPTION"]
    for title, lines in sections_of(text.replace(usage[0] + "\n", "")):
        if title:
            page.append(f".SH {escaped(title.upper())}")
        entries = entries_of(lines) if title else []
        if entries:
            for entry, explanation in entries:
                page += [".TP", f".B {escaped(entry)}", escaped(explanation)]
        elif title:
            page += [".nf", *(escaped(line) for line in lines), ".fi"]
        else:
            page += [".PP", *(escaped(line) for line in lines)]
    page.append(".SH SEE ALSO")
    page += [f".BR {escaped(other)} (1){mark}" for other, mark in zip(also, [","] * (len(also) - 1) + [""])]
    return "\n".join(page) + "\n"


def write_pages(program, folder, version, words):
    text = help_of(program, words)
    name = "-".join(["distrun", *words])
    commands = commands_of(text)
    also = ["-".join(["distrun", *words[:-1]])] if words else []
    also += [f"{name}-{command}" for command in commands]
    (folder / f"{name}.1").write_text(page_of(words, text, version, also), encoding="utf-8")
    for command in commands:
        write_pages(program, folder, version, [*words, command])


def main(program, folder):
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.1"):
        old.unlink()
    write_pages(program, folder, version, [])


if __name__ == "__main__":
    main(*sys.argv[1:])
