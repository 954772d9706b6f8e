"""Cases of followed.cc in Python: followed.py CASE."""
import os
import signal
import site
import sys
import time

# As in an environment in which the wheel is installed: its .pth file starts the recording.
site.addsitedir(os.path.join(os.path.dirname(__file__), "..", "..", "packaging", "python"))

import torch
import torch.distributed as dist


def miss(before=5):
    x = torch.ones(10, 100)
    for _ in range(before):
        dist.all_reduce(x)
    if dist.get_rank() == 1:
        time.sleep(3600)
    dist.all_reduce(x)


def be_killed():
    x, y = torch.ones(10, 100), torch.ones(10, 100)
    for _ in range(5):
        dist.all_reduce(x)
    dist.barrier()  # All ranks have ended the steps.
    if dist.get_rank() != 1:
        time.sleep(3600)
    works = [dist.all_reduce(tensor, async_op=True) for tensor in (x, y)]
    os.kill(os.getpid(), signal.SIGKILL)
    del works


def disagree():
    others_have_entered = dist.new_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(8))
    is_odd = dist.get_rank() == 2
    x = torch.ones(4, dtype=torch.double) if is_odd else torch.ones(8)
    if is_odd:
        dist.barrier(others_have_entered)
    work = dist.all_reduce(x, async_op=True)
    if not is_odd:
        dist.barrier(others_have_entered)
    work.wait()


def skip():
    for step in range(5):
        if dist.get_rank() != 2 or step != 1:
            dist.all_reduce(torch.ones(8))


def leave():
    """Ends without destroy_process_group(), as many programs do: threads of Gloo are still there."""
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(30)]
    for work in works:
        work.wait()


def fail():
    """Rank 0 fails in a collective that the last rank enters only while Python ends on rank 0."""
    if dist.get_rank() == dist.get_world_size() - 1:
        while not os.path.exists(os.environ["ENDS"]):
            time.sleep(0.01)

    class AtTheEnd:
        def __del__(self):
            with open(os.environ["ENDS"], "w"):
                pass
            time.sleep(5)

    work = dist.all_reduce(torch.ones(8), async_op=True)
    if dist.get_rank() == 0:
        sys.at_the_end = AtTheEnd()
        raise ValueError("no such thing")
    work.wait()


def digest_slowly():
    """The digest is complete before wait() returns, and before backward() does: programs may change the tensors then."""
    import distrun.collectives as recording

    block_digests, complete = recording.block_digests, []

    def slow_digests(tensors):
        time.sleep(0.3)
        blocks = block_digests(tensors)
        complete.append(True)
        return blocks

    recording.block_digests = slow_digests
    x = torch.ones(1 << 20)
    for count in (1, 2):
        dist.all_reduce(x)
        assert len(complete) == count, complete
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert len(complete) == 3, complete
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 7))
    complete.clear()
    model(torch.ones(4, 300)).sum().backward()
    assert len(complete) == 1, complete  # Of the only bucket.


def run_again():
    x = torch.ones(8)
    dist.all_reduce(x)
    try:
        if dist.get_rank() != 2:
            dist.all_reduce(x)
    except RuntimeError:  # Rank 2 has closed its connections.
        pass
    rank, ranks = dist.get_rank(), dist.get_world_size()
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.PrefixStore("again", store), rank=rank, world_size=ranks)
    for size in (1, 2, 3, 4):
        dist.all_reduce(torch.ones(size))


def exchange_dtypes():
    rank = dist.get_rank()
    with torch.inference_mode(rank in (1, 2)):
        for size in (1, 2, 3):
            dist.all_reduce(torch.ones(size))
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32,
                      torch.int64, torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.complex64,
                      torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
                      torch.float8_e8m0fnu):
            x, group = [torch.empty(16, dtype=dtype)], dist.group.WORLD
            (group.send(x, rank + 1, 0) if rank % 2 == 0 else group.recv(x, rank - 1, 0)).wait()


def exchange_values():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for size in (0, 1, 2, 3, 17, 1000, 4099):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
            x = torch.arange(size).to(dtype) + rank
            dist.all_reduce(x)
            dist.broadcast(x, 0)
            dist.all_gather([torch.empty_like(x) for _ in range(ranks)], x + rank)
    dist.barrier()
    if "MIXED" in os.environ:  # A C++ and a Python DDP compare their models in different ways.
        return
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 7))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.full((4, 300), 0.01 * (rank + step))).square().mean().backward()
        optimizer.step()


dist.init_process_group("gloo")
{"missing": miss, "absent": lambda: miss(before=0), "killed": be_killed, "values": exchange_values, "disagree": disagree, "skip": skip, "again": run_again,
 "alike": exchange_dtypes, "leave": leave, "fail": fail, "slow_digest": digest_slowly}[sys.argv[1]]()
if sys.argv[1] != "leave":
    dist.destroy_process_group()
