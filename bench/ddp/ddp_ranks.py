"""The Python ranks of ddp_bench.cc: does what ddp_ranks.cc does, with torch's DDP."""

import gc
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCH = 32


def make_net(width, layers):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def take_turns(rounds, act):
    """Runs act on the two pairs of ranks in turns; the pair that starts alternates."""
    for turn in range(2 * rounds):
        dist.barrier()
        if (turn // 2 + turn) % 2 == dist.get_rank() // 2:
            act()
    dist.barrier()


def tell(times):
    mine = torch.tensor(times, dtype=torch.float64)
    dist.all_gather([torch.empty_like(mine) for _ in range(dist.get_world_size())], mine)


def time_constructions(net, pair, rounds, each):
    times = []

    def construct():
        for _ in range(each):
            dist.barrier(pair)  # A rank may spend longer on garbage collection.
            start = time.perf_counter()
            ddp = DistributedDataParallel(net, process_group=pair)
            times.append(time.perf_counter() - start)
            del ddp
            gc.collect()

    take_turns(rounds, construct)
    tell(times)


def time_steps(net, width, pair, rounds, steps):
    ddp = DistributedDataParallel(net, process_group=pair)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    data = torch.randn(BATCH, width)
    times = []

    def some_steps():
        for _ in range(steps):
            start = time.perf_counter()
            optimizer.zero_grad()
            ddp(data).square().mean().backward()
            optimizer.step()
            times.append(time.perf_counter() - start)

    take_turns(rounds, some_steps)
    tell(times)


def main():
    rounds = int(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    pair = pairs[dist.get_rank() // 2]
    for shape in sys.argv[5:]:
        width, layers, steps = map(int, shape.split("x"))
        net = make_net(width, layers)
        time_constructions(net, pair, rounds, (steps + 3) // 4)
        time_steps(net, width, pair, rounds, steps)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
