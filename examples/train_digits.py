"""The twin of train_digits.cc: same model, split, seeds and order.

    distrun launch --nproc-per-node 2 examples/train_digits.py examples/data/digits.csv
"""

import csv
import os
import sys

import torch

# Import it before the group exists.  Otherwise the optimizer imports it later, and then it keeps the group alive after
# destroy_process_group() (torch 2.13): a Gloo thread that outlives the interpreter can end in SIGABRT.
import torch._dynamo
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

EPOCHS = 10
BATCH = 32  # Of each rank.


def load(path):
    """Images (n × 64, 0 … 1) and digits, for training and for the test, which gets every fifth sample."""
    parts = [], []
    with open(path, newline="") as file:
        for row, numbers in enumerate(csv.reader(file)):
            parts[row % 5 == 0].append([float(number) for number in numbers])
    tensors = [torch.tensor(part) for part in parts]
    return [(t[:, :64] / 16, t[:, 64].long()) for t in tensors]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(64, 32)
        self.out = torch.nn.Linear(32, 10)

    def forward(self, images):
        return self.out(torch.relu(self.hidden(images)))


def train_and_test(path):
    (images, digits), (test_images, test_digits) = load(path)
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)
    net = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    step_samples = BATCH * world_size
    steps = len(digits) // step_samples
    if steps == 0:
        sys.exit("too many ranks for a batch of each")
    for epoch in range(1, EPOCHS + 1):
        order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(())
        for step in range(steps):
            mine = order.narrow(0, step * step_samples + rank * BATCH, BATCH)
            optimizer.zero_grad()
            loss = cross_entropy(net(images[mine]), digits[mine])
            loss.backward()  # Each rank's gradients become the mean of all.
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / (steps * world_size):.4f}")

    right = net(test_images).argmax(1).eq(test_digits)
    print(f"rank {rank} test_accuracy {right.float().mean().item():.4f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: train_digits.py DIGITS_CSV")
    # `distrun launch --store file:PATH` sets this variable; without it ranks meet at MASTER_ADDR.
    dist.init_process_group("gloo", init_method=os.environ.get("DISTRUN_INIT_METHOD"),
                            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    train_and_test(sys.argv[1])
    dist.destroy_process_group()
