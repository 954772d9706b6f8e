#!/usr/bin/env python3
"""Runs on a machine with GPUs what other machines skip, and writes a report.

    cmake/gpu_check.py build-cuda PYTHON        # PYTHON can import a CUDA build of torch.

The report is BUILD/gpu-results.md: the machine, and a line for each check.  Exits with 1 if a check failed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 240  # For each check.


def output_of(command, environment=None):
    """The exit status and the output of a command, which is ended after LIMIT_S."""
    try:
        with subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as run:
            try:
                text, _ = run.communicate(timeout=LIMIT_S)
                return run.returncode, text
            except BaseException as error:  # Also Ctrl-C, which does not reach the command.
                os.killpg(run.pid, signal.SIGKILL)  # Its workers keep the pipe open.
                text, _ = run.communicate()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                return 124, f"{text}\n{command[0]} took more than {LIMIT_S} s"
    except OSError as error:
        return 127, f"{command[0]}: {error.strerror}"


def gpus():
    """A line for each GPU; exits if there is none."""
    status, text = output_of(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    if status != 0 or not text.strip():
        sys.exit("gpu_check: this machine has no GPU that nvidia-smi shows; `make cuda-check` runs the tests that need none")
    return text.strip().splitlines()


def versions(python):
    status, text = output_of([python, "-c", "import torch; "
                              "print(f'torch {torch.__version__}, CUDA {torch.version.cuda}, NCCL',"
                              " '.'.join(map(str, torch.cuda.nccl.version())))"])
    return text.strip().splitlines()[-1] if status == 0 else f"versions unknown: {text.strip()}"


class Report:
    def __init__(self, build):
        self.build = build
        self.rows = []
        self.details = []
        self.failed = False

    def add(self, check, ok, result, detail=""):
        self.rows.append(f"| {check} | {'passed' if ok else '**failed**'} | {result} |")
        self.failed = self.failed or not ok
        if not ok:
            self.details.append(f"## {check}\n\n```text\n{detail.strip()[-6000:]}\n```\n")
        print(f"gpu_check: {'passed' if ok else 'FAILED'}: {check}: {result}", flush=True)

    def tests(self, check, arguments, environment=None):
        """Runs distrun test, and counts the results of the tests that ran."""
        path = self.build / "gpu-tests.json"
        path.unlink(missing_ok=True)
        status, text = output_of([str(self.build / "distrun"), "test", "--require-gpus", "1", "--json", str(path),
                                  *arguments], environment)
        if not path.exists():
            return self.add(check, False, f"exit status {status}", text)
        summary = json.loads(path.read_text())["summary"]
        result = f"{summary['passed']} passed, {summary['failed']} failed, {summary['skipped']} skipped"
        ran = summary["passed"] + summary["failed"] > 0
        self.add(check, status == 0 and ran, f"{result}, {summary['seconds']:.1f} s", text)

    def command(self, check, command, expected_status, expected_text=""):
        """Runs a command, and shows the line with the expected text (a regular expression)."""
        start = time.monotonic()
        status, text = output_of(command)
        found = re.search(f".*{expected_text}.*", text)
        ok = status == expected_status and found is not None
        shown = found.group().strip() if found and expected_text else f"exit status {status}"
        self.add(check, ok, f"{shown}, {time.monotonic() - start:.1f} s", f"exit status {status}\n{text}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, python = Path(sys.argv[1]).resolve(), sys.argv[2]
    found = gpus()
    report = Report(build)
    distrun = str(build / "distrun")

    report.tests("tests named `_cuda` and `_nccl`", ["-k", "cuda or nccl", "gloo", "spawn", "join", "fake"])
    report.tests("the same, ranks share GPUs", ["-k", "cuda and not nccl", "gloo", "spawn", "join", "fake"],
                 {"DISTRUN_SHARE_GPUS": "1"})
    report.tests("suite `nccl`", ["nccl"])
    report.tests("suite `nccl`, ranks share GPUs", ["-j", "2", "nccl"], {"DISTRUN_SHARE_GPUS": "1"})
    report.command("a worker for each GPU", [distrun, "launch", "--nproc-per-node", "gpu", "--no-python", "true"], 0)
    report.command("CPUs near the GPUs", [distrun, "launch", "--nproc-per-node", "gpu", "--numa-binding", "node",
                                          "--dry-run", "--no-python", "true"], 0, "on CPUs ")
    report.command("a rank stays away from a collective of NCCL",
                   [distrun, "launch", "--nproc-per-node", "2", "--hang-after", "10", "--no-python", python,
                    str(ROOT / "testsuites" / "nccl" / "missing_rank.py")],
                   75, "rank 1 has not entered all_?reduce")

    lines = [f"{len(found)} GPU{'s' if len(found) > 1 else ''}: {', '.join(sorted(set(found)))}", "", versions(python), "",
             "| check | | result |", "|---|---|---|", *report.rows, "", *report.details]
    path = build / "gpu-results.md"
    path.write_text("\n".join(lines))
    print(f"gpu_check: the report is {path}", flush=True)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
