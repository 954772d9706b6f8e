#!/usr/bin/env python3
"""Holds every #include "folder/…" against the architecture: an include only points down.

The list is that of docs/architecture.md, lowest first.  The link dependencies say the
same; this catches what a header alone could do.
"""

import pathlib
import re
import subprocess
import sys

FOLDERS = ["common", "store", "launcher", "backends", "sharing", "parallel", "testsuites", "cli"]
# They may use everything and nothing may use them.
TOP = ["examples", "bench", "cmake"]
# Linked into distrun: nothing of LibTorch here.
WITHOUT_LIBTORCH = {"common", "store", "launcher", "cli"}
# Of testsuites/, too.
HARNESS = "testsuites/harness/"
LIBTORCH = re.compile(r"(torch|ATen|c10)/")


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc", "*.h"],
                           cwd=root, check=True, capture_output=True, text=True).stdout.split()
    level = {folder: i for i, folder in enumerate(FOLDERS)} | {folder: len(FOLDERS) for folder in TOP}
    wrong = 0
    for file in files:
        folder = file.split("/")[0]
        if folder not in level:
            print(f"{file}: {folder}/ is not a folder of the architecture")
            wrong += 1
            continue
        for number, line in enumerate((root / file).read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not found:
                continue
            target = found.group(2).split("/")[0]
            in_harness = file.startswith(HARNESS)
            of_suites = target == "testsuites" and not found.group(2).startswith(HARNESS)
            problem = ""
            if found.group(1) == '"' and target not in level:
                problem = "is not written from the project's root"
            elif found.group(1) == '"' and target != folder and level[target] >= level[folder]:
                problem = f"points up: {folder}/ is below {target}/"
            elif of_suites and (in_harness or folder == "cli"):
                problem = f"is not of {HARNESS}, which is all that distrun links"
            elif (folder in WITHOUT_LIBTORCH or in_harness) and LIBTORCH.match(found.group(2)):
                problem = f"brings LibTorch into {folder}/"
            if problem:
                print(f"{file}:{number}: {line.strip()} {problem}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
