"""Compares outputs, gradients, and gradients of gradients of Python's autograd collectives with ours.

    functional_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/functional_parity_worker.cc.
"""

import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import mixed_ranks  # noqa: E402

DISTRUN, CXX_RANKS = sys.argv[1:3]
CLOSE = 1e-12  # All tensors are doubles.
CXX = [CXX_RANKS, "functional"]
PYTHON = [sys.executable, "-u", str(Path(__file__).parent / "test" / "functional_parity_worker.py")]
COLLECTIVES = {"all_reduce", "mean", "broadcast", "reduce", "all_gather", "gather", "scatter",
               "reduce_scatter", "all_to_all", "all_to_all_single"}


class FunctionalParityTest(unittest.TestCase):
    def tensors(self, *programs):
        """Returns the results of each rank."""
        with tempfile.TemporaryDirectory(prefix="functional_parity.") as folder:
            mixed_ranks.launch(DISTRUN, programs, folder, "run")
            return [torch.load(f"{folder}/run.{rank}.pt", weights_only=False) for rank in range(len(programs))]

    def expect_same(self, expected, actual):
        self.assertEqual({name.split(".")[0] for name in expected[0]}, COLLECTIVES)
        for rank, (one, other) in enumerate(zip(expected, actual, strict=True)):
            with self.subTest(rank=rank):
                self.assertEqual(set(one), set(other))
                differences = {name: mixed_ranks.difference(one[name], other[name]) for name in one}
                self.assertEqual({name: by for name, by in differences.items() if not by <= CLOSE}, {})

    def test_two_ranks_agree_with_python(self):
        self.expect_same(self.tensors(PYTHON, PYTHON), self.tensors(CXX, CXX))

    def test_three_ranks_agree_with_python(self):
        self.expect_same(self.tensors(PYTHON, PYTHON, PYTHON), self.tensors(CXX, CXX, CXX))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
