#!/usr/bin/env python3
"""Compiles each file alone, so that none depends on its neighbours' includes in a unity build.

    cmake/tidy.py changed    uncommitted changes, and those since the last tag or in the last 20 commits
    cmake/tidy.py all        every source

clang-tidy checks the sources.  Tests are only compiled, because they do on purpose what clang-tidy rejects; so are
sources in which only includes changed.  Moved lines count as unchanged.  A header is checked with the source of its
name, or else with one that includes it.

TIDY_SECONDS (600; no limit for `all`) limits the time in which files are started, latest changes first; it reports the
number of files left out.  Requires build-tidy/compile_commands.json.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
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
    """The files whose lines a diff changes."""
    fields = git(*diff, "-M", "-z", "--numstat").split("\0")
    files = []
    while fields:
        counts = fields.pop(0).strip("\n").split("\t")
        if len(counts) != 3:
            continue
        # A renamed file has an empty name, followed by its old and new names.
        name = counts[2] or (fields.pop(0), fields.pop(0))[1]
        if counts[:2] != ["0", "0"]:
            files.append(name)
    return files


def recent_commits() -> list[str]:
    tag = subprocess.run(["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True)
    which = [f"{tag.stdout.strip()}..HEAD"] if tag.returncode == 0 else ["-n", "20"]
    return git("log", "--no-merges", "--format=%H", *which).split()


def recently_changed(*options: str) -> list[str]:
    files = files_changed("diff", "HEAD", *options)
    for commit in recent_commits():
        files += files_changed("show", "--format=", commit, *options)
    return list(dict.fromkeys(files))


def is_of_tests(file: str) -> bool:
    return bool(OF_TESTS.search(file))


def included_by() -> dict[str, list[str]]:
    """The files that include each header, by its name in #include."""
    users = collections.defaultdict(list)
    for file in [file for file in git("ls-files", "*.cc", "*.h").split() if (ROOT / file).exists()]:
        for header in re.findall(r'^#include ["<]([^">]+)[">]', (ROOT / file).read_text(), re.MULTILINE):
            users[header].append(file)
    return users


def reader_of(file: str, users: dict[str, list[str]]) -> str:
    """The source to check for a file: itself, unless it is a header."""
    test, seen, frontier = None, {file}, [file]
    while frontier and file.endswith(".h"):
        above = [user for header in frontier for user in users[header.removeprefix("include/")] if user not in seen]
        sources = [user for user in above if user.endswith(".cc")]
        sources.sort(key=lambda source: pathlib.PurePath(source).stem != pathlib.PurePath(file).stem)
        tidied = [source for source in sources if not is_of_tests(source)]
        if tidied:
            return tidied[0]
        test = test or next(iter(sources), None)
        seen.update(above)
        frontier = [user for user in above if user.endswith(".h")]
    return test or file


def to_read(what: str) -> list[tuple[str, bool]]:
    """Files, and whether clang-tidy checks them."""
    if what == "all":
        return [(file, not is_of_tests(file)) for file in git("ls-files", "*.cc").split()]
    users = included_by()
    apart_from_includes = [reader_of(file, users) for file in recently_changed("-I", r"^\s*#\s*include")]
    first = [(file, not is_of_tests(file)) for file in dict.fromkeys(apart_from_includes)]
    others = dict.fromkeys(reader_of(file, users) for file in recently_changed())
    return first + [(file, False) for file in others if file not in apart_from_includes]


def compile_command(command: str) -> list[str]:
    # Without the code generator, GCC reports the OpenMP pragmas in LibTorch's headers as unknown.
    return [*shlex.split(command), "-fsyntax-only", "-Wno-unknown-pragmas"]


def main() -> int:
    what = sys.argv[1]
    seconds = float("inf") if what == "all" else float(os.environ.get("TIDY_SECONDS", 600))
    commands = {entry["file"]: entry for entry in json.loads((ROOT / FOLDER / "compile_commands.json").read_text())}
    files = [(file, tidied) for file, tidied in to_read(what) if str(ROOT / file) in commands]

    end = time.monotonic() + seconds
    left_out, with_findings = [], []

    def run(file: str, tidied: bool) -> None:
        if time.monotonic() >= end:
            left_out.append(file)
            return
        entry = commands[str(ROOT / file)]
        command = [*CLANG_TIDY, file] if tidied else compile_command(entry["command"])
        done = subprocess.run(command, cwd=ROOT if tidied else entry["directory"], capture_output=True, text=True)
        if done.returncode != 0:
            with_findings.append(file)
            lines = (done.stdout + done.stderr).splitlines()
            print("\n".join(line for line in lines if not NOISE.search(line)), flush=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, *zip(*files)) if files else [])
    print(f"{len(files) - len(left_out)} files read alone, {len(with_findings)} with findings"
          + (f"; {len(left_out)} left out after {seconds:.0f} s (make check reads them)" if left_out else ""), file=sys.stderr)
    return 1 if with_findings else 0


if __name__ == "__main__":
    sys.exit(main())
