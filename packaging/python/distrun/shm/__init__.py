"""The backend shm for torch.distributed: collectives of CPU tensors, through shared memory on each host.

    import distrun.shm
    torch.distributed.init_process_group("shm")    # Or "cpu:shm,cuda:nccl".

DistributedDataParallel copies less with the communication hook of this module:

    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    ddp.register_comm_hook(None, distrun.shm.allreduce_hook)

The first import compiles the backend for the installed PyTorch, and later ones load it; `python -m distrun.shm` compiles
it ahead of time.  docs/shm.md describes the backend.
"""

import datetime
import os
from typing import Optional

try:
    import torch
    import torch.distributed as _dist
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("distrun.shm requires PyTorch 2.11 or newer, which is not installed: pip install torch") from None

from distrun.shm import build as _build

LIBRARY = str(_build.library())
"""The path of the compiled backend."""


def _load(path: str) -> None:
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(f"distrun.shm: cannot load {path}: {error}; delete it to compile it again, or set DISTRUN_SHM_CACHE to another "
                          "folder") from error


def _gloo_devices(address: str) -> list:
    """Where Gloo listens.  It connects to all ranks at once, because only connections that exist can be closed."""
    gloo = _dist.ProcessGroupGloo
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME")
    if interfaces:
        return [gloo.create_device(interface=name, lazy_init=False) for name in interfaces.split(",")]
    return [gloo.create_device(hostname=address, lazy_init=False) if address else gloo.create_default_device(lazy_init=False)]


def _make_gloo(group: _dist.ProcessGroup, ranks: list, name: str, timeout: datetime.timedelta, address: str):
    """Connects the ranks of the group.  All ranks must call this."""
    options = _dist.ProcessGroupGloo._Options()
    options.group_name = name
    options.global_ranks_in_group = ranks
    options._timeout = timeout
    options._devices = _gloo_devices(address)
    options._threads = 2 * len(options._devices)  # As in PyTorch.
    return _dist.ProcessGroupGloo(group.get_group_store(), group.rank(), group.size(), options)


def _make(options, _) -> "torch._C._distributed_c10d.Backend":
    """Meets the other ranks of the group, and returns its backend."""
    ops = torch.ops.distrun_shm
    cpu = torch.device("cpu")
    # PyTorch passes no ranks for the default group.
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    milliseconds = round(options.timeout.total_seconds() * 1000)
    # The operator can set the backend of a group, and Python can get it from there.
    group = _dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    meeting = ops.meet(group.boxed(), ranks, milliseconds, options.group_id, _dist.is_gloo_available())
    # If the ranks are on several hosts.
    for boxed, its_ranks in zip(ops.gloo_groups(meeting), ops.gloo_ranks(meeting), strict=True):
        part = _dist.ProcessGroup.unbox(boxed)
        gloo = _make_gloo(part, its_ranks, options.group_id, options.timeout, ops.gloo_address(meeting))
        part._register_backend(cpu, _dist.ProcessGroup.BackendType.GLOO, gloo)
    ops.set_backend(meeting)
    return group._get_backend(cpu)


def allreduce_hook(process_group: Optional[_dist.ProcessGroup], bucket: _dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DistributedDataParallel whose ranks reduce each other's buckets in place.

    It averages gradients, as DistributedDataParallel does without a hook.  `process_group` is the state that
    register_comm_hook() takes: the group of the DistributedDataParallel, or None for the default group.
    """
    group = _dist.group.WORLD if process_group is None else process_group
    if not isinstance(group, _dist.ProcessGroup):
        raise TypeError(f"distrun.shm.allreduce_hook: its state is a {type(group).__name__}; expected a process group or None")
    buffer = bucket.buffer()
    if buffer.is_sparse:
        work = _dist.all_reduce(buffer.div_(group.size()), group=group, async_op=True)
    else:
        torch.ops.distrun_shm.share(buffer, group.boxed())
        work = _dist.all_reduce(buffer, op=_dist.ReduceOp.AVG, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


_load(LIBRARY)
_dist.Backend.register_backend("shm", _make, extended_api=True, devices=["cpu"])
