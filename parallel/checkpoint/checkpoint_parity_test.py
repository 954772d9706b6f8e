"""Python reads checkpoints of save_checkpoint(), with PyTorch's reader and with safetensors, and load_checkpoint()
reads files that Python has written.

    checkpoint_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/checkpoint_parity_worker.cc.
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import mixed_ranks  # noqa: E402

mixed_ranks.require_torch(2, 13)
try:
    import safetensors.torch
except ModuleNotFoundError:
    print("needs the Python package safetensors")
    sys.exit(77)

from torch.distributed import checkpoint  # noqa: E402

DISTRUN, CXX_RANKS = sys.argv[1:3]


def tensors():
    torch.manual_seed(30)
    return {"net.weight": torch.randn(6, 8), "net.bias": torch.randn(8), "cube": torch.randn(2, 3, 7),
            "half": torch.randn(4, 4).half(), "bfloat16": torch.randn(3, 5).bfloat16(), "step": torch.tensor(12),
            "mask": torch.randn(9) > 0, "byte": torch.arange(6, dtype=torch.uint8).view(2, 3)}


class CheckpointParityTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="checkpoint_parity.")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.tensors = tensors()
        torch.save(self.tensors, self.folder / "tensors.pt")

    def run_ranks(self, ranks, run):
        mixed_ranks.launch(DISTRUN, [[CXX_RANKS, "checkpoint"]] * ranks, str(self.folder), run)

    def expect_tensors(self, actual, expected=None):
        expected = self.tensors if expected is None else expected
        self.assertEqual(set(actual), set(expected))
        for name, tensor in expected.items():
            self.assertEqual(actual[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(actual[name], tensor), name)

    def test_python_loads_what_cxx_ranks_have_saved(self):
        for ranks in 1, 3:
            with self.subTest(ranks=ranks):
                self.run_ranks(ranks, "save")
                loaded = {name: torch.zeros_like(tensor) for name, tensor in self.tensors.items()}
                checkpoint.load(loaded, storage_reader=checkpoint.HuggingFaceStorageReader(str(self.folder / "cxx")))
                self.expect_tensors(loaded)

    def test_python_loads_a_shared_parameter_by_both_names(self):
        self.run_ranks(2, "save_shared")
        net = torch.nn.Module()
        net.embedding = net.last = torch.nn.Parameter(torch.zeros(6, 8))
        checkpoint.load(net.state_dict(), storage_reader=checkpoint.HuggingFaceStorageReader(str(self.folder / "cxx")))
        self.assertTrue(torch.equal(net.last, self.tensors["net.weight"]))

    def test_safetensors_reads_each_file(self):
        self.run_ranks(3, "save")
        columns = {}
        for path in sorted((self.folder / "cxx").glob("*.safetensors")):
            with safetensors.safe_open(path, "pt") as file:
                sharding = json.loads(file.metadata()["DCP_SHARDING_INFO"])
                for name in file.keys():
                    columns.setdefault(name, {})[tuple(sharding[name]["saved_offsets"])] = file.get_tensor(name)
        whole = {name: torch.cat([parts[place] for place in sorted(parts)], -1) if len(parts) > 1
                 else next(iter(parts.values())) for name, parts in columns.items()}
        self.expect_tensors(whole)

    def test_cxx_ranks_load_what_python_has_saved(self):
        reading = {name: tensor.clone().contiguous() for name, tensor in self.tensors.items()}
        (self.folder / "whole").mkdir()
        names = sorted(reading)
        safetensors.torch.save_file({name: reading[name] for name in names[:4]}, self.folder / "whole" / "a.safetensors")
        safetensors.torch.save_file({name: reading[name] for name in names[4:]}, self.folder / "whole" / "b.safetensors")
        safetensors.torch.save_file(reading, self.folder / "one.safetensors")
        checkpoint.save(reading, storage_writer=checkpoint.HuggingFaceStorageWriter(
            str(self.folder / "sharded"), save_distributed=True), no_dist=True)
        self.run_ranks(2, "load")
        for name in "whole", "sharded", "one.safetensors":
            parts = [torch.load(self.folder / f"{name}.rank{rank}.pt", weights_only=False) for rank in range(2)]
            with self.subTest(saved=name):
                # Each rank has loaded its columns; the others are zeros.
                self.expect_tensors({key: self.joined(parts[0][key], parts[1][key]) for key in parts[0]})

    @staticmethod
    def joined(first, second):
        if first.dim() < 2:
            return first
        columns = first.shape[-1] // 2
        return torch.cat([first[..., :columns], second[..., columns:]], -1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
