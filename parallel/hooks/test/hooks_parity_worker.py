"""Trains the Python ranks of hooks_parity_test.py with torch's hooks, as hooks_parity_worker.cc trains those in C++.

    distrun launch --nproc-per-node 2 hooks_parity_worker.py FOLDER RUN
"""

import json
import os
import sys
import warnings
from collections import OrderedDict
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    """Has parameters of one to three dimensions, some with the same sizes, all of one dtype."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv1d(3, 24, 3)
        self.middle0 = torch.nn.Linear(24, 24)
        self.middle1 = torch.nn.Linear(24, 24)
        self.wide = torch.nn.Linear(24, 40)
        self.middle2 = torch.nn.Linear(40, 24)
        self.middle3 = torch.nn.Linear(24, 24)
        self.last = torch.nn.Linear(24, 2)

    def forward(self, x):
        x = torch.tanh(self.first(x)).mean(2)
        x = torch.tanh(self.middle1(torch.tanh(self.middle0(x))))
        x = torch.tanh(self.middle2(torch.tanh(self.wide(x))))
        return self.last(torch.tanh(self.middle3(x)))


def register_hook(ddp, variant):
    state = None
    if variant["hook"] == "powerSGD_hook":
        state = powerSGD_hook.PowerSGDState(None, **variant["state"])
    if variant["hook"] == "post_localSGD_hook":
        arguments = dict(variant["state"])
        subgroup = dist.new_subgroups(arguments.pop("subgroup") or dist.get_world_size())[0]
        state = post_localSGD_hook.PostLocalSGDState(None, subgroup, **arguments)
    modules = (default_hooks, debugging_hooks, powerSGD_hook, post_localSGD_hook)
    hook = next(getattr(module, variant["hook"]) for module in modules if hasattr(module, variant["hook"]))
    if variant["wrapper"]:
        hook = getattr(default_hooks, f"{variant['wrapper']}_compress_wrapper")(hook)

    def by_another_name(state, bucket):  # By their names, DDP allows hooks for bfloat16 only with NCCL.
        return hook(state, bucket)

    ddp.register_comm_hook(state, by_another_name)
    return state


def with_averager(optimizer, averager):
    if averager is None:
        return optimizer
    warmup_steps = averager["warmup_steps"]
    sizes = OrderedDict((period, size or dist.get_world_size()) for period, size in averager["periods"])
    if len(sizes) == 1:
        return PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(next(iter(sizes)), warmup_steps))
    return PostLocalSGDOptimizer(optimizer, HierarchicalModelAverager(sizes, warmup_steps))


def run_variant(variant, folder, run):
    rank = dist.get_rank()
    net = Net()
    net.load_state_dict(torch.load(folder / "start.pt"))
    ddp = DistributedDataParallel(net, bucket_cap_mb=variant["bucket_cap_mb"])
    state = register_hook(ddp, variant)
    optimizer = with_averager(torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9), variant["averager"])
    losses = []
    for inputs in torch.load(folder / "data.pt")["inputs"][:, rank]:
        optimizer.zero_grad()
        loss = (ddp(inputs) - 1).pow(2).mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    results = dict(net.state_dict()) | {"losses": torch.tensor(losses)}
    if variant["hook"] == "powerSGD_hook":
        results["stats"] = torch.tensor([state.iter, *state.compression_stats()], dtype=torch.float64)
    torch.save(results, folder / f"{run}.{variant['name']}.{rank}.pt")


def main():
    folder, run = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    for variant in json.loads((folder / "variants.json").read_text()):
        run_variant(variant, folder, run)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    os._exit(0)  # Skip finalization: torch's threads can abort the process during it.
