"""A rank that stays away from a collective of NCCL: what a hung run must say about it.

    distrun launch --nproc-per-node 2 --hang-after 10 -- testsuites/nccl/missing_rank.py

All ranks run two all_reduce.  The last rank then stops; the others wait in the third.  With fewer GPUs than ranks, ranks
share GPUs."""

import os
import signal

local_rank = os.environ["LOCAL_RANK"]
# NCCL lets ranks of one host share no GPU, so each rank says that it has a host of its own.
os.environ["NCCL_HOSTID"] = f"host{local_rank}"
os.environ["NCCL_SOCKET_IFNAME"] = "lo"

import torch  # noqa: E402: NCCL reads the environment when it is loaded.
import torch.distributed as dist  # noqa: E402

torch.cuda.set_device(int(local_rank) % torch.cuda.device_count())
dist.init_process_group("nccl")
x = torch.ones(1000, device="cuda")
for _ in range(2):
    dist.all_reduce(x)
torch.cuda.synchronize()
if dist.get_rank() == dist.get_world_size() - 1:
    signal.pause()
dist.all_reduce(x)
torch.cuda.synchronize()
