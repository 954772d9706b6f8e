"""Trains the Python ranks of ddp_parity_test.py with torch's DDP, as ddp_parity_worker.cc trains those in C++.

    distrun launch --nproc-per-node 2 ddp_parity_worker.py FOLDER RUN
"""

import contextlib
import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    """Has small and large parameters, two dtypes, buffers, and parts that not every forward uses."""

    def __init__(self, sparse):
        super().__init__()
        self.words = torch.nn.Embedding(40, 8, sparse=sparse)
        self.hidden = torch.nn.Linear(8, 64)
        self.norm = torch.nn.BatchNorm1d(64)
        self.middle = torch.nn.Linear(64, 64)
        self.extra = torch.nn.Linear(64, 16)
        self.spare = torch.nn.Linear(64, 16)
        self.last = torch.nn.Linear(64, 16)
        self.scale = torch.nn.Parameter(torch.ones(16, dtype=torch.float64))

    def forward(self, sentences, with_extra, with_spare):
        x = torch.relu(self.norm(self.hidden(self.words(sentences).mean(1))))
        x = x + torch.relu(self.middle(x))
        y = self.last(x)
        if with_extra:
            y = y + self.extra(x)
        if with_spare:
            y = y + self.spare(x)
        return y.to(torch.float64) * self.scale


def half_hook(state, bucket):
    """Does what the built-in FP16_COMPRESS does."""
    buffer = bucket.buffer()
    half = buffer.to(torch.float16).div_(dist.get_world_size())
    reduced = dist.all_reduce(half, async_op=True).get_future()
    return reduced.then(lambda done: done.value()[0].to(buffer.dtype))


def make_ddp(net, variant):
    ddp = DistributedDataParallel(net, **variant["options"])
    if variant["hook"] == "FP16_COMPRESS":
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    if variant["hook"] == "own":
        ddp.register_comm_hook(None, half_hook)
    return ddp


def parts_used(variant, step, rank):
    """(extra, spare)"""
    if variant["uses"] == "all":
        return True, True
    return variant["uses"] == "all but spare" or (step + rank) % 3 == 0, False


def train(ddp, variant, data, rank):
    optimizer = torch.optim.SGD(ddp.parameters(), lr=variant["lr"], momentum=variant["momentum"])
    losses = []
    for step, (sentences, topics) in enumerate(zip(data["sentences"][:, rank], data["topics"][:, rank])):
        synchronized = step % variant["sync_every"] == variant["sync_every"] - 1
        with contextlib.nullcontext() if synchronized else ddp.no_sync():
            out = ddp(sentences, *parts_used(variant, step, rank))
            loss = torch.nn.functional.cross_entropy(out, topics)
            loss.backward()
        losses.append(loss.item())
        if synchronized:
            optimizer.step()
            optimizer.zero_grad(set_to_none=variant["set_to_none"])
    return losses


def run_variant(variant, folder, run):
    rank = dist.get_rank()
    torch.manual_seed(rank)
    net = Net(variant["sparse"])
    if rank == 0:  # Broadcast to the others.
        net.load_state_dict(torch.load(folder / "start.pt"))
    ddp = make_ddp(net, variant)
    losses = train(ddp, variant, torch.load(folder / "data.pt"), rank)
    to = f"{run}.{variant['name']}.{rank}"
    torch.save(dict(net.state_dict()), folder / f"{to}.pt")
    (folder / f"{to}.json").write_text(json.dumps({"losses": losses, "logging": ddp._get_ddp_logging_data()}))


def main():
    folder, run = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # About options that will be renamed.
    dist.init_process_group("gloo")
    for variant in json.loads((folder / "variants.json").read_text()):
        run_variant(variant, folder, run)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Everything is written.  Skip finalization: torch's threads can abort the process during it ("terminate called
    # without an active exception", about once in twenty runs on busy cores).
    os._exit(0)
