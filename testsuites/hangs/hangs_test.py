#!/usr/bin/env python3
"""Whether `distrun launch --hang-after` names the rank that hangs, and its place.

    hangs_test.py DISTRUN CASE PROGRAM…        such as: hangs_test.py build/distrun absent python3 hangs.py

PROGRAM hangs in the way that CASE names.  HANG_AFTER sets the seconds: longer than the program takes to start.
"""
import os
import re
import subprocess
import sys
import time

# The expected line: {} is a namespace, {at} source and line, {key} a prefix.
CASES = {
    "order": "rank 0 waits in {}all_reduce, called by {}reduce_first {at}; ranks 1-3 wait in {}barrier, called by {}meet_first {at}",
    "absent": "rank 2 in {}load_batch {at}; ranks 0, 1, 3 wait in {}all_reduce, called by {}step {at}",
    "stopped": "rank 1 stopped (SIGSTOP); ranks 0, 2, 3 wait in {}all_reduce, called by {}step {at}",
    "spinning": "rank 3 in {}spin {at}; ranks 0-2 wait in {}all_reduce, called by {}step {at}",
    "key": "rank 1 waits for {key}nobody/sets/this in {}wait_for_key {at}; ranks 0, 2, 3 wait in {}all_reduce, called by {}step {at}",
    "pipe": "rank 2 in {}log_all {at}; ranks 0, 1, 3 wait in {}all_reduce, called by {}step {at}",
    "lock": "rank 0 in {}take_lock {at}; ranks 1-3 wait in {}all_reduce, called by {}step {at}",
}


def pattern(text):
    """A regular expression for a line of CASES: functions may have a namespace."""
    text = re.escape(text)
    for part, stands_for in ((r"\{\}", r"(?:\w+::)*"), (r"\{at\}", r"\([^ ]+:\d+\)"), (r"\{key\}", r"(?:\S+/)?")):
        text = text.replace(part, stands_for)
    return text


def main():
    distrun, case, *program = sys.argv[1:]
    limit = os.environ.get("HANG_AFTER", "15" if program[-1].endswith(".py") else "4")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    begin = time.monotonic()
    run = subprocess.run(
        [distrun, "launch", "--nproc-per-node", "4", "--hang-after", limit, "--shutdown-timeout", "1", *program, case],
        env=environment, capture_output=True, text=True, timeout=float(limit) + 200, check=False)
    if run.returncode != 75:
        sys.exit(f"exit status {run.returncode}, not 75:\n{run.stderr}")
    line = "distrun: where the workers are: " + pattern(CASES[case])
    first = next(text for text in run.stderr.splitlines() if "where the workers are" in text)
    if not re.fullmatch(line, first):
        sys.exit(f"expected  {CASES[case]}\nbut it is  {first}\n{run.stderr}")
    print(f"{case}: {time.monotonic() - begin:.1f} s: {first}")


if __name__ == "__main__":
    main()
