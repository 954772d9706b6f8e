"""Hangs in one of the ways that hangs_test.py lists: hangs.py CASE.  hangs.cc is the same in C++."""
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist


def step(x):
    dist.all_reduce(x)


def reduce_first(x):
    dist.all_reduce(x)
    dist.barrier()


def meet_first(x):
    dist.barrier()
    dist.all_reduce(x)


def load_batch():
    os.read(os.pipe()[0], 1)


def be_stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def spin():
    count = 0
    while True:
        count += 1


def wait_for_key():
    dist.distributed_c10d._get_default_store().get("nobody/sets/this")


def log_all():
    to = os.pipe()[1]
    while True:
        os.write(to, b"x" * 4096)


def take_lock(lock):
    with lock:
        pass


def hold(lock, held):
    with lock:
        held.set()
        os.read(os.pipe()[0], 1)


def locked():
    lock, held = threading.Lock(), threading.Event()
    threading.Thread(target=hold, args=(lock, held), daemon=True).start()
    held.wait()
    take_lock(lock)


def main():
    case = sys.argv[1]
    dist.init_process_group("gloo")
    rank, x = dist.get_rank(), torch.ones(4)
    step(x)
    if case == "order":
        return reduce_first(x) if rank == 0 else meet_first(x)
    culprit, act = {
        "absent": (2, load_batch),
        "stopped": (1, be_stopped),
        "spinning": (3, spin),
        "key": (1, wait_for_key),
        "pipe": (2, log_all),
        "lock": (0, locked),
    }[case]
    if rank == culprit:
        act()
    step(x)


main()
