#!/usr/bin/env python3
"""Compares our FullyShardedDataParallel with Python's fully_shard over Gloo: time of a step, and memory.

    bench/fsdp/fsdp_bench.py [--rounds N | --quick] [--ranks 1,2,4] BUILD [PYTHON]

PYTHON has torch; without it, only ours runs.  Both train the same model: equal units, each a linear layer and a relu,
with Adam.  In a round, the two take turns.  Bytes are counted by the allocator of tensors.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(distrun, ranks, program, shape):
    command = [distrun, "launch", "--nproc-per-node", str(ranks), "--no-python", *program, *map(str, shape)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def show_memory(ours, width, units, ranks):
    unit = 4 * (width * width + width) / 1e6
    rows = [("parameters", ours["parameters"], units * unit / ranks),
            ("gradients", ours["gradients"], units * unit / ranks),
            ("optimizer state", ours["state"], 2 * units * unit / ranks),
            # While the last unit but one computes: it, the next one, its gradients, and the shards of the others.
            # With several ranks also Gloo's copy of the next one, and the gradients of the previous one, sent and
            # received.
            ("peak of a backward", ours["peak"], ((3 if ranks == 1 else 6) + (units - 2) / ranks) * unit)]
    for name, counted, formula in rows:
        counted /= 1e6
        print(f"    {name:20} {counted:8.1f} MB   formula {formula:8.1f} MB   {counted / formula:5.2f}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--units", type=int, default=24)
    parser.add_argument("--quick", action="store_true", help="one round of a small model: checks that it runs")
    parser.add_argument("build")
    parser.add_argument("python", nargs="?")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.steps, given.width = 1, 1, 256
    distrun = f"{given.build}/distrun"
    shape = (given.width, given.units, given.steps)
    print(f"FSDP: {given.units} units, {given.units * 4 * (given.width**2 + given.width) / 1e6:.0f} MB; "
          f"medians of {given.rounds} rounds")
    for ranks in map(int, given.ranks.split(",")):
        ours, theirs = [], []
        for _ in range(given.rounds):
            ours.append(run(distrun, ranks, [f"{given.build}/bench/fsdp_ranks"], shape))
            if given.python:
                theirs.append(run(distrun, ranks, [given.python, str(HERE / "fsdp_ranks.py")], shape))
        step = statistics.median(one["step_ms"] for one in ours)
        print(f"  {ranks} rank{'s' if ranks > 1 else ''}: step {step:.0f} ms", end="")
        if theirs:
            ratio = statistics.median(other["step_ms"] / one["step_ms"] for one, other in zip(ours, theirs))
            print(f", Python {statistics.median(one['step_ms'] for one in theirs):.0f} ms, Python/d {ratio:.2f}", end="")
        print(f"; resident {ours[-1]['resident'] / 1e6:.0f} MB" +
              (f", Python {theirs[-1]['resident'] / 1e6:.0f} MB" if theirs else ""))
        show_memory(ours[-1], given.width, given.units, ranks)


if __name__ == "__main__":
    main()
