"""The tests of empty_test.cc, in PyTorch's own harness."""

import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase


class Empty(MultiProcessTestCase):
    @property
    def world_size(self):
        return 4

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def test_4_ranks(self):
        self.assertEqual(self.world_size, 4)

    def test_group_of_4_ranks(self):
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        self.assertEqual(dist.get_world_size(), 4)
        dist.barrier()
        dist.destroy_process_group()
