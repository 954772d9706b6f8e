"""all_reduce over Gloo, on every rank of a run."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ranks = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(ranks)
assert ranks.item() == sum(range(1, dist.get_world_size() + 1)), ranks
print(f"{dist.get_world_size()} ranks have met")
dist.destroy_process_group()
