#!/usr/bin/env python3
"""Runs the suites and compares them with required_tests.tsv.  Each test listed there must exist with its numbers of
ranks and GPUs.  Tests that need no GPU must pass on every rank, each with an assertion.  Each rank must run the
collectives of the last column, if there are any: c10d's flight recorder saw them in PyTorch's test of that name.
For example: "1 barrier; 3 broadcast [2, 2] Float", or "none".

  required_tests.py build/distrun [FLAG OF `distrun test`]...
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def collectives_of(rank):
    made = (" ".join(map(str, [c["count"], c["op"], *c["sizes"], c["dtype"]])).strip() for c in rank["collectives"])
    return "; ".join(sorted(made)) or "none"


def shortfall(row, listed, ran):
    test = listed.get(row["id"])
    if test is None:
        return "is not there"
    for field in ("ranks", "min_gpus"):
        if test[field] != int(row[field]):
            return f"{field}: {test[field]}, should be {row[field]}"
    if row["min_gpus"] != "0":
        return ""
    result = ran.get(row["id"])
    if result is None:
        return "did not run"
    good = sum(rank["status"] == "passed" and rank["assertions"] > 0 for rank in result["ranks"])
    if result["status"] != "passed" or good != int(row["ranks"]):
        return f"{result['status']}: {good} of {row['ranks']} ranks passed: {result['reason']}"
    for rank in result["ranks"]:
        if row["collectives"] and (made := collectives_of(rank)) != row["collectives"]:
            return f"rank {rank['rank']} made {made}, should make {row['collectives']}"
    return ""


def main() -> int:
    distrun, flags = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        # Does not use the user's times of earlier runs.
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        run = subprocess.run([distrun, "test", "--json", file, *flags], env=environment, check=False)
        if not file.exists():
            print(f"no results: distrun test has ended with {run.returncode}")
            return 1
        ran = {test["id"]: test for test in json.loads(file.read_text())["tests"]}
    listing = subprocess.run([distrun, "test", "--list", "--json"], check=True, capture_output=True)
    listed = {test["id"]: test for test in json.loads(listing.stdout)["tests"]}
    short = 0
    with open(pathlib.Path(__file__).with_name("required_tests.tsv")) as tsv:
        for row in csv.DictReader(tsv, delimiter="\t"):
            if problem := shortfall(row, listed, ran):
                print(f"{row['id']}: {problem}")
                short += 1
    return 1 if short or run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
