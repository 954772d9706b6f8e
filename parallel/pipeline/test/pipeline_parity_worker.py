"""The Python ranks of pipeline_parity_test.py; pipeline_parity_worker.cc trains the same."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

WIDTH, STEPS = 6, 5


class Stage(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return torch.tanh(self.linear(self.norm(x))) + x


def train(variant, state, inputs, targets):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    net = Stage()
    net.load_state_dict(state[rank])
    stage = PipelineStage(net, rank, ranks, torch.device("cpu"))
    reduction = variant["reduction"]
    schedule = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[variant["schedule"]](
        stage, variant["microbatches"], scale_grads=reduction == "mean",
        loss_fn=lambda output, target: torch.nn.functional.mse_loss(output, target, reduction=reduction))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    results = {}
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = []
        output = schedule.step(*([inputs[step]] if rank == 0 else []), losses=losses,
                               target=targets[step] if rank == ranks - 1 else None)
        for name, parameter in net.named_parameters():
            results[f"{name}.grad{step}"] = parameter.grad.clone()
        if rank == ranks - 1:
            results[f"losses{step}"], results[f"output{step}"] = torch.stack(losses).detach(), output.detach()
        optimizer.step()
    with torch.no_grad():
        output = schedule.eval(*([inputs[0]] if rank == 0 else []), target=targets[0] if rank == ranks - 1 else None)
    if rank == ranks - 1:
        results["eval"] = output.detach()
    return {**results, **{name: value.detach() for name, value in net.state_dict().items()}}


def main():
    folder, run = sys.argv[1:3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data, state = torch.load(f"{folder}/data.pt"), torch.load(f"{folder}/state.pt")
    state = {r: {name.split("/")[1]: value for name, value in state.items() if name.startswith(f"{r}/")}
             for r in range(dist.get_world_size())}
    with open(f"{folder}/variants.json") as file:
        variants = json.load(file)
    for variant in variants:
        if variant["microbatches"] < dist.get_world_size() and variant["schedule"] == "1f1b":
            continue  # Python does not support it.
        results = train(variant, state, data["inputs"], data["targets"])
        torch.save(results, f"{folder}/{run}.{variant['name']}.{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
