"""The backend shm for torch.distributed: collectives of the CPU tensors of one host, through shared memory.

    import distrun.shm
    torch.distributed.init_process_group("shm")    # Or "cpu:shm,cuda:nccl".

The first import compiles the backend for the installed PyTorch, and later ones load it; `python -m distrun.shm` compiles
it ahead of time.  docs/shm.md describes the backend.
"""

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


def _make(options, _) -> "torch._C._distributed_c10d.Backend":
    """Meets the other ranks of the group, and returns its backend."""
    # PyTorch passes no ranks for the default group.
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    milliseconds = round(options.timeout.total_seconds() * 1000)
    # The operator can set the backend of a group, and Python can get it from there.
    group = _dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    torch.ops.distrun_shm.set_backend(group.boxed(), ranks, milliseconds, options.group_id)
    return group._get_backend(torch.device("cpu"))


_load(LIBRARY)
_dist.Backend.register_backend("shm", _make, extended_api=True, devices=["cpu"])
