#!/usr/bin/env python3
"""Measures a training step of PyTorch's DistributedDataParallel on the backends shm and gloo, and without it.

    bench/ddp/ddp_python_bench.py [--rounds N | --quick] [--shape WIDTHxLAYERS] BUILD PYTHON

PYTHON can import torch.  Two ranks train the network of ddp_bench in each way, in turns, one thread each.  The figures are
milliseconds, medians over the steps, each as long as on the slower rank.  `/alone` is the quotient by the step of ranks that do not
communicate, in the same round: its median and quartiles over the rounds.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 32
STEPS = 4  # In a turn.
# The backend, whether gradients are views of buckets, whether the hook reduces in place, and the size of buckets in MiB.
WAYS = {
    "alone": (None, False, False, 25),
    "shm, views, hook, one bucket": ("shm", True, True, 1000),
    "shm, views, hook": ("shm", True, True, 25),
    "shm, views": ("shm", True, False, 25),
    "shm": ("shm", False, False, 25),
    "gloo, views": ("gloo", True, False, 25),
    "gloo": ("gloo", False, False, 25),
}


def train(rounds, width, layers):
    """What each rank does."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import ddp_ranks
    import distrun.shm

    def make(way):
        backend, views, hook, mebibytes = WAYS[way]
        net = ddp_ranks.make_net(width, layers)
        if backend:
            net = DistributedDataParallel(net, process_group=dist.new_group(backend=backend), gradient_as_bucket_view=views,
                                          bucket_cap_mb=mebibytes)
        if hook:
            net.register_comm_hook(net.process_group, distrun.shm.allreduce_hook)
        return net, torch.optim.SGD(net.parameters(), lr=0.01)

    def step(net, optimizer):
        optimizer.zero_grad()
        net(data).square().mean().backward()
        optimizer.step()

    def by_round(steps):
        return steps.view(rounds, STEPS).median(dim=1).values

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = torch.randn(BATCH, width)
    # One way at a time in memory: models of several ways together would leave the caches and pages cold.
    times = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            made = make(way)
            step(*made)
            for _ in range(STEPS):
                dist.barrier()
                begin = time.perf_counter()
                step(*made)
                times[way].append(time.perf_counter() - begin)
            del made
    slower = torch.tensor(list(times.values()))
    dist.all_reduce(slower, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        for way, mine in zip(WAYS, slower):
            ratios = by_round(mine) / by_round(slower[0])
            first, median, third = torch.quantile(ratios, torch.tensor([0.25, 0.5, 0.75])).tolist()
            print(f"{way:28} {mine.median() * 1e3:8.1f} {median:8.2f}   {first:.2f}, {third:.2f}")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--shape", default="1024x25")
    parser.add_argument("--quick", action="store_true", help="one round of a small model: checks that it runs")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("python", type=pathlib.Path)
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.shape = 1, "256x2"
    given.build = given.build.resolve()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "packaging/python"), "DISTRUN_SHM_CACHE": str(given.build / "distrun-shm"),
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTHON_EXEC": str(given.python), "OMP_NUM_THREADS": "1"}
    subprocess.run([given.python, "-m", "distrun.shm"], env=environment, check=True, stdout=subprocess.DEVNULL)
    print(f"{'step of 2 ranks':28} {'ms':>8} {'/alone':>8}   quartiles", flush=True)
    command = [given.build / "distrun", "launch", "--nproc-per-node", "2", __file__, "--train", str(given.rounds), given.shape]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(int(sys.argv[2]), *map(int, sys.argv[3].split("x")))
    else:
        sys.exit(main())
