#!/usr/bin/env python3
"""`make build-times`: measures a build from scratch, without a compiler cache.

Builds in build-times/, which it removes first, in a newcomer's order: `make launcher`, `make demo`, `make build`.
Prints the CPU time (user + sys) and wall time up to each of them next to its aim, then the CPU time of each target and
the ten slowest files.  Requires the packages and LibTorch.

    cmake/build_times.py [LIBTORCH [TORCH_PYTHON]]
"""

import collections
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

FOLDER = "build-times"
# Targets, and the goal for a build from scratch in minutes of CPU.
STEPS = [("make launcher", ["distrun"], 2), ("make demo", ["distrun", "train_digits"], 6), ("make build", ["all"], 20)]
# The target of an object or unity file.
OF_TARGET = re.compile(r"(?:^|/)CMakeFiles/([^/]+)\.dir/")


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def print_table(rows: list, columns: str) -> None:
    print(f"\n{columns}")
    for seconds, name in rows:
        print(f"{seconds:8.1f}  {name}")


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    os.chdir(root)
    shutil.rmtree(FOLDER, ignore_errors=True)
    log = root / FOLDER / "commands.log"
    settings = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={root}/cmake/timed_compile.sh",
                f"-DCMAKE_CXX_LINKER_LAUNCHER={root}/cmake/timed_compile.sh"]
    settings += [f"-D{name}={value}" for name, value in zip(["DISTRUN_LIBTORCH", "DISTRUN_TORCH_PYTHON"], sys.argv[1:])]
    environment = os.environ | {"DISTRUN_BUILD_LOG": str(log), "CCACHE_DISABLE": "1"}
    begin, cpu_before = time.monotonic(), cpu_of_children()
    subprocess.run(["cmake", "--preset", "release", "-B", FOLDER, *settings], check=True, stdout=subprocess.DEVNULL)
    print("CPU min  aim  wall min  from scratch")
    for step, targets, aim in STEPS:
        if step == "make demo" and len(sys.argv) < 2:
            print("no LibTorch: skips what needs it")
            targets = ["all"]
        subprocess.run(["ninja", "-C", FOLDER, "--quiet", *targets], check=True, env=environment)
        cpu, wall = (cpu_of_children() - cpu_before) / 60, (time.monotonic() - begin) / 60
        print(f"{cpu:7.1f} {aim:4d} {wall:9.1f}  {step}", flush=True)

    by_target, by_file = collections.Counter(), []
    for line in log.read_text().splitlines():
        user, system, output = line.split(" ", 2)
        found = OF_TARGET.search(output)
        by_target[found.group(1) if found else f"{pathlib.Path(output).name} (linking)"] += float(user) + float(system)
        by_file.append((float(user) + float(system), output))
    print_table([(seconds, name) for name, seconds in by_target.most_common() if seconds >= 1], "CPU s     target")
    print_table(sorted(by_file, reverse=True)[:10], "CPU s     the ten slowest files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
