"""Training steps of very different lengths, which --hang-after must not take for a hang: jitter.py SECONDS."""
import random
import sys
import time

import torch
import torch.distributed as dist


def main():
    end = time.monotonic() + float(sys.argv[1])
    dist.init_process_group("gloo")
    chance = random.Random(dist.get_rank())
    longest = 4.0
    x, steps = torch.ones(1000), 0
    while True:
        # Mostly short; now and then one rank loads, computes or stalls.
        pause = chance.choice([0, 0, 0, 0.001, 0.01, 0.1, longest * chance.random() ** 4])
        time.sleep(pause)
        goes_on = torch.tensor([float(time.monotonic() < end)])
        dist.all_reduce(x)
        dist.all_reduce(goes_on, dist.ReduceOp.MIN)
        x /= dist.get_world_size()
        steps += 1
        if goes_on.item() == 0:
            break
    if dist.get_rank() == 0:
        print(f"{steps} steps")
    dist.destroy_process_group()


main()
