"""The Python ranks of zero_redundancy_parity_test.py; zero_redundancy_parity_worker.cc trains the same."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

STEPS, STEPS_BEFORE_ADDING = 6, 3
OPTIONS = {
    "SGD": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"lr": 0.05, "amsgrad": True},
    "AdamW": {"lr": 0.05, "weight_decay": 0.1},
    "RMSprop": {"lr": 0.05, "momentum": 0.5},
    "Adagrad": {"lr": 0.05},
}


def train(variant, start, gradients):
    parameters = [torch.nn.Parameter(one.clone()) for one in start.values()]
    groups, first = [], 0
    for i, count in enumerate(variant["groups"]):
        group = {"params": parameters[first:first + count]}
        groups.append(group if i == 0 else {**group, "lr": 0.02 * (i + 1)})
        first += count
    later = groups[len(groups) - variant["added"]:]
    optimizer = ZeroRedundancyOptimizer(
        groups[:len(groups) - variant["added"]], optimizer_class=getattr(torch.optim, variant["optimizer"]),
        parameters_as_bucket_view=variant["view"], **OPTIONS[variant["optimizer"]])
    for step in range(STEPS):
        if step == STEPS_BEFORE_ADDING:
            for group in later:
                optimizer.add_param_group(group)
        for one, gradient in zip(parameters, gradients.values()):
            one.grad = gradient[step].clone()
        optimizer.step()
    ranks = [optimizer._param_to_rank[one] for one in parameters]
    return {"ranks": torch.tensor(ranks), **{str(i): one.detach() for i, one in enumerate(parameters)}}


def main():
    folder, run = sys.argv[1:3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    start, gradients = torch.load(f"{folder}/start.pt"), torch.load(f"{folder}/gradients.pt")
    with open(f"{folder}/variants.json") as file:
        variants = json.load(file)
    for variant in variants:
        results = train(variant, start, gradients)
        if dist.get_rank() == dist.get_world_size() - 1:
            torch.save({key: one.clone() for key, one in results.items()}, f"{folder}/{run}.{variant['name']}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
