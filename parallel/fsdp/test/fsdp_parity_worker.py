"""The Python ranks of fsdp_parity_test.py; fsdp_parity_worker.cc trains the same."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.device_mesh import init_device_mesh

WIDTH, BLOCKS, STEPS = 10, 3, 10


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.narrow = torch.nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, WIDTH)
        for i in range(BLOCKS):
            setattr(self, f"block{i}", Block())
        self.last = torch.nn.Linear(WIDTH, 2)

    def forward(self, x):
        x = self.first(x)
        for i in range(BLOCKS):
            x = getattr(self, f"block{i}")(x)
        return self.last(x)


def sharded(variant, start):
    policy = MixedPrecisionPolicy()
    if variant["param_dtype"]:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    outer = MixedPrecisionPolicy(policy.param_dtype, policy.reduce_dtype, torch.float32)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = Net()
    for i in range(BLOCKS):
        fully_shard(getattr(net, f"block{i}"), mesh=mesh, mp_policy=policy,
                    reshard_after_forward=variant["reshard_after_forward"])
    fully_shard(net, mesh=mesh, mp_policy=outer)
    for module in net.modules():
        if hasattr(module, "set_force_sum_reduction_for_comms"):  # Gloo has no AVG.
            module.set_force_sum_reduction_for_comms(True)
    set_model_state_dict(net, start, options=StateDictOptions(full_state_dict=True))
    return net


def train(variant, start, inputs):
    net = sharded(variant, start)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        net.set_requires_gradient_sync((step + 1) % variant["sync_every"] == 0)
        loss = (net(inputs[step][dist.get_rank()]) - 1).pow(2).mean()
        loss.backward()
        losses.append(loss.item())
        if (step + 1) % variant["sync_every"] == 0:
            if variant["max_norm"]:
                torch.nn.utils.clip_grad_norm_(net.parameters(), variant["max_norm"])
            optimizer.step()
            optimizer.zero_grad()
    state = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    return {"losses": torch.tensor(losses, dtype=torch.float64), **state}


def main():
    folder, run = sys.argv[1:3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    start, inputs = torch.load(f"{folder}/start.pt"), torch.load(f"{folder}/inputs.pt")["inputs"]
    with open(f"{folder}/variants.json") as file:
        variants = json.load(file)
    for variant in variants:
        results = train(variant, start, inputs)
        if dist.get_rank() == 0:
            torch.save(results, f"{folder}/{run}.{variant['name']}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
