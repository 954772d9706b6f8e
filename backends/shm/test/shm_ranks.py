"""The ranks of distrun_shm_test.py:

    shm_ranks.py CASE [ARGUMENT…]

CASE is a function of this file.  RANK, WORLD_SIZE and the rendezvous are in the environment, or INIT_METHOD is a URL.
"""

import datetime
import inspect
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

if sys.argv[1:2] == ["without_gloo"]:  # As in a PyTorch that was built so.
    dist.is_gloo_available = lambda: False
    del dist.ProcessGroupGloo

import distrun.shm  # noqa: E402, F401

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
FLOATING = [dtype for dtype in DTYPES if dtype.is_floating_point]
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
BITS = {"and": dist.ReduceOp.BAND, "or": dist.ReduceOp.BOR, "xor": dist.ReduceOp.BXOR}


def start(backend="shm", seconds=60, **options):
    options.setdefault("init_method", os.environ.get("INIT_METHOD"))
    dist.init_process_group(backend, rank=RANK, world_size=SIZE, timeout=datetime.timedelta(seconds=seconds), **options)


def value(index, dtype=torch.float32, rows=3):
    """Small whole numbers, whose sums and products are exact in all dtypes; they depend on the rank and the index."""
    return ((torch.arange(rows * 2).view(rows, 2) + RANK + 2 * index) % 4).to(dtype)


def room(count=1, dtype=torch.float32, rows=3):
    return [torch.full((rows, 2), 9, dtype=dtype) for _ in range(count)]


class Calls:
    """Makes the same calls in a group of each backend.  Each returns the tensors that it wrote."""

    def __init__(self, group, is_async):
        self.group, self.is_async = group, is_async

    def _done(self, work):
        if self.is_async:
            work.wait()

    def _run(self, call, *arguments, **options):
        self._done(call(*arguments, **options, group=self.group, async_op=self.is_async))

    def all_reduce(self):
        for dtype in DTYPES:
            for op in [*OPS.values(), *(BITS.values() if dtype not in FLOATING else [])]:
                tensor = value(0, dtype)
                self._run(dist.all_reduce, tensor, op)
                yield tensor

    def all_reduce_large(self):
        tensor = value(0, rows=200_000)
        self._run(dist.all_reduce, tensor)
        yield tensor

    def all_reduce_strided(self):
        tensor = value(0).t()
        self._run(dist.all_reduce, tensor)
        yield tensor

    def all_reduce_coalesced(self):
        tensors = [value(0), value(1)]
        self._run(dist.all_reduce_coalesced, tensors)
        yield from tensors

    def all_reduce_sparse(self):
        tensor = value(0).to_sparse()
        self._run(dist.all_reduce, tensor)
        yield tensor.coalesce().to_dense()

    def broadcast(self):
        for dtype in [*DTYPES, torch.bool]:
            for root in range(SIZE):
                tensor = value(0, dtype)
                self._run(dist.broadcast, tensor, root)
                yield tensor

    def reduce(self):
        for root in range(SIZE):
            tensor = value(0)
            self._run(dist.reduce, tensor, root)
            if root == RANK:
                yield tensor

    def all_gather(self):
        tensors = room(SIZE)
        self._run(dist.all_gather, tensors, value(0))
        yield from tensors

    def all_gather_into_tensor(self):
        [tensor] = room(rows=3 * SIZE)
        self._run(dist.all_gather_into_tensor, tensor, value(0))
        yield tensor

    def gather(self):
        for root in range(SIZE):
            tensors = room(SIZE) if root == RANK else None
            self._run(dist.gather, value(0), tensors, root)
            yield from tensors or []

    def scatter(self):
        for root in range(SIZE):
            [tensor] = room()
            self._run(dist.scatter, tensor, [value(index) for index in range(SIZE)] if root == RANK else None, root)
            yield tensor

    def reduce_scatter(self):
        [tensor] = room()
        self._run(dist.reduce_scatter, tensor, [value(index) for index in range(SIZE)])
        yield tensor

    def reduce_scatter_tensor(self):
        [tensor] = room()
        self._run(dist.reduce_scatter_tensor, tensor, value(0, rows=3 * SIZE))
        yield tensor

    def all_to_all_single(self):
        [tensor] = room(rows=2 * SIZE)
        self._run(dist.all_to_all_single, tensor, value(0, rows=2 * SIZE))
        yield tensor
        # Rank r sends r + 1 rows to each.
        [tensor] = room(rows=sum(range(1, SIZE + 1)))
        self._run(dist.all_to_all_single, tensor, value(1, rows=(RANK + 1) * SIZE), list(range(1, SIZE + 1)), [RANK + 1] * SIZE)
        yield tensor

    def all_to_all(self):
        tensors = room(SIZE)
        self._run(dist.all_to_all, tensors, [value(index) for index in range(SIZE)])
        yield from tensors

    def objects(self):
        yield gathered(RANK, self.group)
        objects = [{"from": RANK}]
        dist.broadcast_object_list(objects, SIZE - 1, group=self.group)
        yield objects
        received = [None]
        dist.scatter_object_list(received, [f"for {rank}" for rank in range(SIZE)] if RANK == 0 else None, 0, group=self.group)
        yield received

    def functional(self):
        yield functional.all_reduce(value(0), "sum", self.group)
        yield functional.all_gather_tensor(value(0), 0, self.group)
        yield functional.reduce_scatter_tensor(value(0, rows=SIZE), "sum", 0, self.group)
        yield functional.all_to_all_single(value(0, rows=SIZE), None, None, self.group)

    def messages(self):
        if SIZE == 1:
            return
        [tensor] = room()
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, value(0), (RANK + 1) % SIZE, self.group),
                                        dist.P2POp(dist.irecv, tensor, (RANK - 1) % SIZE, self.group)])
        for work in works:
            work.wait()
        yield tensor
        if RANK == 0:
            for tag in (7, 3):  # In another order than that in which they were sent.
                for rank in range(1, SIZE):
                    [tensor] = room()
                    yield dist.recv(tensor, rank, tag=tag, group=self.group), tensor
            senders = []
            for _ in range(1, SIZE):
                [tensor] = room()
                sender = dist.recv(tensor, tag=9, group=self.group)
                senders.append((sender, tensor.sum().item()))
            yield sorted(senders)
        else:
            for work in [dist.isend(value(index), 0, tag=tag, group=self.group) for index, tag in enumerate((3, 7, 9))]:
                work.wait()


def gathered(mine, group=None):
    everything = [None] * dist.get_world_size(group)
    dist.all_gather_object(everything, mine, group=group)
    return everything


def expect_equal(name, one, other):
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), f"{name}: shm: {one}; gloo: {other}"
    elif isinstance(one, tuple):
        for each, its in zip(one, other, strict=True):
            expect_equal(name, each, its)
    else:
        assert one == other, f"{name}: shm: {one}; gloo: {other}"


def collectives():
    start()
    assert dist.get_backend() == "shm"
    gloo = dist.new_group(backend="gloo")
    names = [name for name in vars(Calls) if not name.startswith("_")]
    for is_async in (False, True):
        for name in names:
            if name == "all_to_all" and SIZE == 1:
                continue
            of_shm = list(getattr(Calls(dist.group.WORLD, is_async), name)())
            if name == "all_reduce_strided":  # Gloo rejects such tensors.
                expected = [(sum(gathered(value(0), gloo))).t()]
            else:
                expected = list(getattr(Calls(gloo, is_async), name)())
            assert len(of_shm) == len(expected), name
            for one, other in zip(of_shm, expected):
                expect_equal(name, one, other)
    mean = value(0)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert torch.allclose(mean, sum(gathered(value(0))) / SIZE)
    dist.barrier()
    dist.destroy_process_group()
    print(f"compared {len(names)} calls", flush=True)


def overlapping():
    """Asynchronous calls; callbacks; other threads of Python run while a rank waits."""
    start()
    tensors = [value(index) for index in range(20)]
    expected = [sum(each) for each in zip(*gathered([tensor.clone() for tensor in tensors]))]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    halved = works[5].get_future().then(lambda done: done.value()[0] / 2)
    for work in reversed(works):
        work.wait()
    assert all(work.is_completed() for work in works)
    assert all(map(torch.equal, tensors, expected))
    assert torch.equal(halved.wait(), expected[5] / 2)

    if RANK == 0:
        ticked, waits = threading.Event(), threading.Event()

        def tick():
            waits.wait()
            dist.send(torch.ones(1), 1)  # Rank 1 enters the barrier when it has received this.
            ticked.set()

        thread = threading.Thread(target=tick)
        thread.start()
        waits.set()
        dist.barrier()
        thread.join()
        assert ticked.is_set()
    else:
        if RANK == 1:
            dist.recv(torch.zeros(1), 0)
        dist.barrier()


def groups(backend):
    start(backend)
    assert "cpu:shm" in dist.get_backend_config(), dist.get_backend_config()
    for _ in range(2):  # The second time, the store has the keys of the first.
        made = {"all": dist.new_group(), "ends": dist.new_group([0, SIZE - 1], backend="shm"),
                "alone": dist.new_group([RANK], backend="shm", use_local_synchronization=True)}
        if "sort_ranks" in inspect.signature(dist.new_group).parameters:  # In newer versions of PyTorch.
            made["reversed"] = dist.new_group(list(range(SIZE))[::-1], backend="shm", sort_ranks=False)
        for name, group in made.items():
            if group is dist.GroupMember.NON_GROUP_MEMBER:
                continue
            # The sums show which ranks took part, and their numbers in the group.
            tensor = torch.tensor([2.0**RANK, 100.0**dist.get_rank(group)])
            dist.all_reduce(tensor, group=group)
            members = dist.get_process_group_ranks(group)
            expected = torch.tensor([sum(2.0**rank for rank in members), sum(100.0**i for i in range(len(members)))])
            assert torch.equal(tensor, expected), (name, tensor, expected)
            root = torch.tensor([float(RANK)])
            dist.broadcast(root, group_src=len(members) - 1, group=group)
            assert root.item() == members[-1], (name, root, members)
        # split_group() requires an accelerator, and then calls this.
        half = dist.group.WORLD.split_group([SIZE - 1, 0], timeout=datetime.timedelta(seconds=60), group_name="split")
        assert (half is None) == (0 < RANK < SIZE - 1)
        if half is not None:
            tensor = torch.tensor([2.0**RANK])
            half.allreduce(tensor).wait()
            assert tensor.item() == 1 + 2.0 ** (SIZE - 1), tensor
            del half
        dist.destroy_process_group()
        start()


def training(backend):
    """Rank 0 saves the trained parameters."""
    start(backend)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0005)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1 + RANK)
    for step in range(10):
        optimizer.zero_grad()
        inputs = torch.randn(6, 8)
        if step % 2:
            loss = torch.nn.functional.mse_loss(ddp(inputs), inputs[:, :4])
            loss.backward()
            optimizer.step()
        else:
            with ddp.no_sync():
                ddp(inputs).sum().backward()
    both = gathered([parameter.detach() for parameter in ddp.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(both[0], both[RANK]))
    if RANK == 0:
        torch.save(both[0], sys.argv[3])
    dist.barrier()
    dist.destroy_process_group()


def in_place():
    """DistributedDataParallel whose buckets of more than 1 MiB are reduced in place."""
    start()
    torch.manual_seed(0)
    plain = torch.nn.Linear(600, 600)
    ddp = torch.nn.parallel.DistributedDataParallel(plain, gradient_as_bucket_view=True)
    ddp.register_comm_hook(None, distrun.shm.allreduce_hook)
    torch.manual_seed(1 + RANK)
    for _ in range(3):
        inputs = torch.randn(4, 600)
        expected = torch.autograd.grad(plain(inputs).square().sum(), plain.parameters())
        for each in expected:
            dist.all_reduce(each.div_(SIZE))
        ddp(inputs).square().sum().backward()
        for parameter, each in zip(plain.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, each, rtol=1e-4, atol=1e-4)
            assert mapped_file(parameter.grad.data_ptr()) == "/memfd:distrun shm (deleted)"
        ddp.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


def sparse():
    """DistributedDataParallel with the hook, and gradients that are sparse."""
    start()
    embedding = torch.nn.Embedding(6, 2, sparse=True)
    ddp = torch.nn.parallel.DistributedDataParallel(embedding)
    ddp.register_comm_hook(dist.group.WORLD, distrun.shm.allreduce_hook)
    ddp(torch.tensor([0, 1 + RANK])).sum().backward()
    expected = torch.zeros(6, 2)
    expected[0] = 1
    expected[1:1 + SIZE] = 1 / SIZE
    torch.testing.assert_close(embedding.weight.grad.to_dense(), expected)
    dist.barrier()
    dist.destroy_process_group()


def mapped_file(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            place, *_, name = line.rstrip("\n").split(maxsplit=5)
            begin, end = (int(number, 16) for number in place.split("-"))
            if begin <= address < end:
                return name
    return None


def failures(killed):
    """A rank is killed while the others wait for it; each of them prints the error."""
    start()
    dist.barrier()
    if RANK == int(killed):
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(torch.ones(2))
    except dist.DistBackendError as error:
        print(f"rank {RANK}: {error}", flush=True)
    try:
        dist.barrier()
    except dist.DistBackendError as error:
        print(f"rank {RANK}, later: {error}", flush=True)


def absence():
    """Rank 1 does not come."""
    try:
        start(seconds=0.5)
    except dist.DistBackendError as error:
        print(f"init: {error}", flush=True)


def lateness():
    """Rank 2, which is rank 1 of the group, does not enter a collective."""
    start()
    group = dist.new_group([0, 2])  # The ranks may need time to meet.
    options = dist.distributed_c10d.AllreduceOptions()
    options.timeout = datetime.timedelta(milliseconds=300)
    if RANK > 0:
        sys.stdin.read()
    else:
        try:
            group.allreduce([torch.ones(2)], options).wait()
        except dist.DistBackendError as error:
            print(f"rank {RANK}: {error}", flush=True)


def splitting():
    """Ranks on different hosts, which PyTorch's split_group() would split so."""
    start()
    try:
        dist.group.WORLD.split_group([0, 1], timeout=datetime.timedelta(seconds=60), group_name="split")
    except dist.DistBackendError as error:
        print(error, flush=True)
    dist.barrier()


def late_between_hosts():
    """Rank 2, which is not its host's leader, does not enter a collective of all ranks."""
    start()
    options = dist.distributed_c10d.AllreduceOptions()
    options.timeout = datetime.timedelta(milliseconds=300)
    if RANK == 2:
        sys.stdin.read()
        return
    try:
        dist.group.WORLD.allreduce([torch.ones(2)], options).wait()
    except dist.DistBackendError as error:
        print(f"rank {RANK}: {error}", flush=True)


def without_gloo():
    """Prints a sum, or the error of ranks on several hosts."""
    try:
        start()
    except dist.DistBackendError as error:
        print(f"init: {error}", flush=True)
        return
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    print(f"sum: {tensor.item():g}", flush=True)


def summing():
    start()
    tensor = torch.full((100_000,), RANK + 1.0)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((100_000,), SIZE * (SIZE + 1) / 2)), tensor
    dist.barrier()


def misuse():
    start()
    for call, kind in ((lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), ValueError),
                       (lambda: dist.broadcast(torch.ones(1).expand(3), 0), ValueError),
                       (lambda: dist.all_reduce(torch.ones(2 + RANK)), dist.DistBackendError)):
        try:
            call()
        except kind as error:
            print(f"{type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


def leaving():
    """Ends without destroy_process_group(), as many scripts do."""
    start()
    tensor = torch.ones(2)
    work = dist.all_reduce(tensor, async_op=True)
    work.get_future().then(lambda _: None)
    work.wait()
    dist.barrier()


def mixed():
    """The calls of mixed_shm_rank.cc."""
    start()

    def show(name, tensor):
        print(f"rank {RANK}: {name}", *(f"{each:g}" for each in tensor.tolist()), flush=True)

    def mine():
        return torch.full((2,), RANK + 1.0, dtype=torch.float64)

    tensor = mine()
    dist.all_reduce(tensor)
    show("sum", tensor)
    everything = [torch.zeros(2, dtype=torch.float64) for _ in range(SIZE)]
    dist.all_gather(everything, mine())
    show("last", everything[-1])
    tensor = torch.zeros(2, dtype=torch.float64)
    sent = dist.isend(mine(), (RANK + 1) % SIZE)
    sender = dist.recv(tensor)
    sent.wait()
    show("received", tensor + sender)
    pair = dist.new_group([0, 1])
    if RANK in (0, 1):
        tensor = mine()
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT, group=pair)
        show("product", tensor)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:3])
