"""Python's half of sharing_bench: nanoseconds from put() to get() of torch.multiprocessing.Queue.

    sharing_queue.py ROUNDS BYTES…      prints a line per BYTES: the times of all rounds
"""

import sys
import time

import torch
import torch.multiprocessing as mp


def receive(tensors, times):
    while True:
        tensor = tensors.get()
        now = time.monotonic_ns()
        if tensor is None:
            return
        times.put(now)


def main():
    rounds, sizes = int(sys.argv[1]), [int(size) for size in sys.argv[2:]]
    context = mp.get_context("fork")
    tensors, times = context.Queue(4), context.Queue(4)
    receiver = context.Process(target=receive, args=(tensors, times))
    receiver.start()
    for size in sizes:
        tensor = torch.ones(size, dtype=torch.uint8).share_memory_()
        taken = []
        for _ in range(rounds):
            start = time.monotonic_ns()
            tensors.put(tensor)
            taken.append(times.get() - start)
        print(*taken, flush=True)
    tensors.put(None)
    receiver.join()


if __name__ == "__main__":
    main()
