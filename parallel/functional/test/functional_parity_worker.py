"""Computes the Python results of functional_parity_test.py: outputs, gradients, and gradients of gradients of
autograd collectives.

    distrun launch --nproc-per-node 2 functional_parity_worker.py FOLDER RUN
"""

import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as F

warnings.simplefilter("ignore", FutureWarning)  # Each call warns that it is deprecated.
torch.set_num_threads(1)
dist.init_process_group("gloo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
LAST = RANKS - 1
told = {}


def value(index, rows=2):
    """Returns a tensor that depends on the rank."""
    numbers = torch.arange(rows * 3, dtype=torch.float64).view(rows, 3)
    return torch.sin(numbers * 0.3 + RANK * 1.7 + index * 0.9).requires_grad_()


def values(rows=2):
    return [value(index, rows) for index in range(RANKS)]


def case(name, inputs, outputs, is_defined=True):
    loss = sum((RANK + 1) * (i + 1) * y.sin().sum() for i, y in enumerate(outputs))
    gradients = torch.autograd.grad(loss, inputs, create_graph=True)
    sum(g.sin().sum() for g in gradients).backward()
    if is_defined:
        told.update({f"{name}.y{i}": y.detach() for i, y in enumerate(outputs)})
    told.update({f"{name}.x{i}": g.detach() for i, g in enumerate(gradients)})
    told.update({f"{name}.xx{i}": x.grad for i, x in enumerate(inputs)})


x = value(0)
case("all_reduce", [x], [F.all_reduce(x)])
x = value(0)
case("mean", [x], [F.all_reduce(x, dist.ReduceOp.AVG)])
x = value(0)
case("broadcast", [x], [F.broadcast(x, LAST)])
x = value(0)
case("reduce", [x], [F.reduce(x, LAST)], is_defined=RANK == LAST)
x = value(0)
case("all_gather", [x], F.all_gather(x))
x = value(0)
case("gather", [x], F.gather(x, LAST))
xs = values()
case("scatter", xs, [F.scatter(xs, LAST)])
xs = values()
case("reduce_scatter", xs, [F.reduce_scatter(torch.empty(2, 3, dtype=torch.float64), xs)])
xs = values()
case("all_to_all", xs, F.all_to_all([torch.empty_like(x) for x in xs], xs))
# Rank r sends r + 1 rows to every rank.
x = value(0, (RANK + 1) * RANKS)
rows = [r + 1 for r in range(RANKS)]
case("all_to_all_single", [x],
     [F.all_to_all_single(torch.empty(sum(rows), 3, dtype=torch.float64), x, rows, [RANK + 1] * RANKS)])

folder, run = sys.argv[1:]
torch.save(told, Path(folder) / f"{run}.{RANK}.pt")
dist.barrier()
dist.destroy_process_group()
# Everything is written.  Skip finalization: torch's threads can abort the process during it ("terminate called
# without an active exception", about once in twenty runs on busy cores).
os._exit(0)
