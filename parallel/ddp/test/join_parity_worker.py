"""Trains the Python ranks of join_parity_test.py with torch's Join, as join_parity_worker.cc trains those in C++.

    distrun launch --nproc-per-node 2 join_parity_worker.py FOLDER RUN SEED…

Reads the patterns, weights and data that C++ ranks have written to the folder.
"""

import contextlib
import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel

from ddp_parity_worker import Net, parts_used


class CounterHook(JoinHook):
    def main_hook(self):
        dist.all_reduce(torch.zeros(1, dtype=torch.int32))


class Counter(Joinable):
    """Counts the ranks that have not joined."""

    def __init__(self):
        super().__init__()

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD

    def join_hook(self, **kwargs):
        return CounterHook()

    def step(self):
        Join.notify_join_context(self)
        count = torch.ones(1, dtype=torch.int32)
        dist.all_reduce(count)
        return count.item()


def train(ddp, counter, pattern, data, rank):
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    losses, counts = [], []

    def count():
        if pattern["counter"]:
            counts.append(counter.step())

    for step in range(pattern["inputs"][rank]):
        if pattern["counter_first"]:
            count()
        reduces = step % pattern["sync_every"] == pattern["sync_every"] - 1
        with contextlib.nullcontext() if reduces else ddp.no_sync():
            out = ddp(data["sentences"][step][rank], *parts_used(pattern, step, rank))
            loss = torch.nn.functional.cross_entropy(out, data["topics"][step][rank])
            loss.backward()
        losses.append(loss.item())
        if not pattern["counter_first"]:
            count()
        if reduces:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return {"losses": losses, "counts": counts}


def run_pattern(folder, run, seed):
    # Python does not accept a dict written in C++ as mere weights.
    start, data = (torch.load(folder / f"{seed}.{what}.pt", weights_only=False) for what in ("start", "data"))
    pattern = json.loads((folder / f"{seed}.json").read_text())
    rank = dist.get_rank()
    net = Net(sparse=False)
    if rank == 0:  # Broadcast to the others.
        net.load_state_dict(start)
    ddp = DistributedDataParallel(net, **pattern["options"])
    if pattern["half"]:
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    counter = Counter()
    joinables = [ddp, counter] if pattern["counter"] else [ddp]
    if pattern["counter_first"]:
        joinables.reverse()
    with Join(joinables, divide_by_initial_world_size=pattern["divide_by_initial_world_size"]):
        told = train(ddp, counter, pattern, data, rank)
    to = f"{run}.{seed}.{rank}"
    torch.save(dict(net.state_dict()), folder / f"{to}.pt")
    (folder / f"{to}.json").write_text(json.dumps(told))


def main():
    folder, run, seeds = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # About options that will be renamed.
    dist.init_process_group("gloo")
    for seed in seeds:
        run_pattern(folder, run, seed)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Everything is written.  Skip finalization: torch's threads can abort the process during it ("terminate called
    # without an active exception", about once in twenty runs on busy cores).
    os._exit(0)
