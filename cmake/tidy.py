#!/usr/bin/env python3
"""Runs clang-tidy, each file alone: so it also finds includes that a file lacks and its neighbours in a unity build have.

    cmake/tidy.py changed    what is not committed, and what the commits since the last tag, or the 20 last, have changed
    cmake/tidy.py all        every source

Tests are left out: what they write on purpose is what the checks look for.  What only moved, or changed only in its
includes, counts as unchanged.  TIDY_SECONDS (600; `all`: no bound) bounds how
long new files are begun; those left out are counted, and the most recent changes come first.  Needs build-tidy/ with
a compile_commands.json.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

FOLDER = "build-tidy"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CLANG_TIDY = ["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", FOLDER]
OF_TESTS = re.compile(r"_test\.cc$|/test/|^testsuites/(?!harness/|testing/)|^bench/|^examples/library/|^store/fuzz/")
NOISE = re.compile(r"\d+ warnings? generated|^Suppressed \d|^Use -header-filter")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def files_changed(*diff: str) -> list[str]:
    """The files whose lines a diff changes, includes apart."""
    fields = git(*diff, "-M", "-z", "--numstat", "-I", r"^\s*#\s*include").split("\0")
    files = []
    while fields:
        counts = fields.pop(0).strip("\n").split("\t")
        if len(counts) != 3:
            continue
        # The name of a renamed file is empty: its old and new names are the next two fields.
        name = counts[2] or (fields.pop(0), fields.pop(0))[1]
        if counts[:2] != ["0", "0"]:
            files.append(name)
    return files


def recent_commits() -> list[str]:
    tag = subprocess.run(["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True)
    which = [f"{tag.stdout.strip()}..HEAD"] if tag.returncode == 0 else ["-n", "20"]
    return git("log", "--no-merges", "--format=%H", *which).split()


def changed_sources() -> list[str]:
    files = files_changed("diff", "HEAD")
    for commit in recent_commits():
        files += files_changed("show", "--format=", commit)
    return [file for file in dict.fromkeys(files) if file.endswith(".cc") and (ROOT / file).exists()]


def main() -> int:
    what = sys.argv[1]
    files = changed_sources()
    seconds = float(os.environ.get("TIDY_SECONDS", 600))
    if what == "all":
        files = git("ls-files", "*.cc").split()
        seconds = float("inf")
    files = [file for file in files if not OF_TESTS.search(file)]
    known = (ROOT / FOLDER / "compile_commands.json").read_text()
    files = [file for file in files if f"{ROOT}/{file}\"" in known]

    end = time.monotonic() + seconds
    left_out, with_findings = [], []

    def run(file: str) -> None:
        if time.monotonic() >= end:
            left_out.append(file)
            return
        done = subprocess.run([*CLANG_TIDY, file], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            with_findings.append(file)
            lines = (done.stdout + done.stderr).splitlines()
            print("\n".join(line for line in lines if not NOISE.search(line)), flush=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, files))
    print(f"clang-tidy: {len(files) - len(left_out)} files read, {len(with_findings)} with findings"
          + (f"; {len(left_out)} left out after {seconds:.0f} s (make check reads them)" if left_out else ""), file=sys.stderr)
    return 1 if with_findings else 0


if __name__ == "__main__":
    sys.exit(main())
