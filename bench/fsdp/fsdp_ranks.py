"""The Python ranks of fsdp_bench.py: as fsdp_ranks.cc, with fully_shard.  Rank 0 prints a line of JSON.

    distrun launch --nproc-per-node 2 fsdp_ranks.py WIDTH UNITS STEPS
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

BATCH = 8


def highest(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.item()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main():
    width, units, steps = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = torch.nn.Sequential()
    for _ in range(units):
        unit = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU())
        fully_shard(unit, mesh=mesh)
        unit.set_force_sum_reduction_for_comms(True)  # Gloo has no AVG.
        net.append(unit)
    fully_shard(net, mesh=mesh)
    net.set_force_sum_reduction_for_comms(True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    data = torch.randn(BATCH, width)
    times = []
    for step in range(steps + 1):
        dist.barrier()
        start = time.perf_counter()
        net(data).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        took = time.perf_counter() - start
        if step > 0:
            times.append(highest(1000 * took))
    resident = highest(resident_bytes())
    if dist.get_rank() == 0:
        print(json.dumps({"step_ms": sorted(times)[len(times) // 2], "resident": resident}))
    dist.barrier()
    dist.destroy_process_group()


main()
