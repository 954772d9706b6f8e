#!/usr/bin/env python3
"""Measures how long `distrun launch` takes to show where its ranks are.

    python3 bench/launch/stacks.py [--rounds N | --quick] BUILD [PYTHON]

PYTHON has torch.  The ranks hang; SIGUSR1 asks for their stacks.  The time is from the signal to the first line of the answer, as a median.
The first answer is apart: distrun then reads the symbols of the libraries.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ANSWER = "distrun: where the workers are"

PROGRAMS = {
    "python": "import time\nprint('here', flush=True)\ntime.sleep(1000)\n",
    "torch, in all_reduce": "import time, torch, torch.distributed as dist\n"
                            "dist.init_process_group('gloo')\n"
                            "x = torch.ones(4)\n"
                            "dist.all_reduce(x)\n"
                            "print('here', flush=True)\n"
                            "time.sleep(1000) if dist.get_rank() == 1 else dist.all_reduce(x)\n",
}


def measure(distrun, python, script, ranks, rounds):
    """The times of all answers, in seconds."""
    environment = os.environ | {"PYTHON_EXEC": python}
    with subprocess.Popen([distrun, "launch", "--nproc-per-node", str(ranks), script], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            here = 0
            while here < ranks:
                line = run.stdout.readline()
                if not line:
                    sys.exit(f"the run has ended:\n{run.stderr.read()}")
                here += "here" in line
            times = []
            for _ in range(rounds):
                begin = time.monotonic()
                run.send_signal(signal.SIGUSR1)
                while not run.stderr.readline().startswith(ANSWER):
                    if run.poll() is not None:
                        sys.exit("the run has ended")
                times.append(time.monotonic() - begin)
            return times
        finally:
            run.send_signal(signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="2 rounds, at most 16 ranks")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("python", nargs="?", default="")
    given = parser.parse_args()
    rounds, sizes = (2, (4, 16)) if given.quick else (given.rounds, (4, 16, 64))
    distrun = str(given.build / "distrun")
    print(f"{os.cpu_count()} cores; seconds: first answer, then the median of the next {rounds}")
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "hang.py")
        for name, text in PROGRAMS.items():
            with_torch = name.startswith("torch")
            if with_torch and not given.python:
                print(f"{name}: left out without a PYTHON that has torch")
                continue
            script.write_text(text)
            python = given.python if with_torch else sys.executable
            for ranks in sizes:
                first, *later = measure(distrun, python, str(script), ranks, rounds + 1)
                print(f"{name:22} {ranks:3} ranks  {first:6.3f}  {statistics.median(later):6.3f}")


if __name__ == "__main__":
    main()
