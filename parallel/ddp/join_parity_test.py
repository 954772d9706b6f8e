"""Trains ranks with uneven inputs under Python's Join and under ours, with the same patterns, weights and data,
and expects the same parameters, buffers and losses.

    join_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/join_parity_worker.cc.
"""

import itertools
import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import mixed_ranks  # noqa: E402

mixed_ranks.require_torch(2, 13)
DISTRUN, CXX_RANKS = sys.argv[1:3]
CLOSE = 1e-6
# Seeds for each number of ranks, so that each property of a pattern is on and off. They exclude
# patterns in which Python differs: it fails if a rank has no input for a static graph; and if no
# rank uses a parameter after a rank has joined, its gradient is zero, not None, and the optimizer
# continues to change it.
SEEDS = {2: ["0", "10", "19"], 3: ["5", "12", "16"], 4: ["5", "19", "20", "24"]}

PYTHON = [sys.executable, "-u", str(Path(__file__).parent / "test" / "join_parity_worker.py")]
CXX = [CXX_RANKS, "join"]


class Run:
    """The results of one `distrun launch`, in which each rank has its own program."""

    def __init__(self, folder, name, programs):
        self.folder, self.name, self.ranks = folder, name, len(programs)
        self.seeds = SEEDS[self.ranks]
        mixed_ranks.launch(DISTRUN, programs, str(folder), name, *self.seeds)

    def path(self, seed, rank, suffix):
        return self.folder / f"{self.name}.{seed}.{rank}.{suffix}"

    def tensors(self, seed, rank):
        return torch.load(self.path(seed, rank, "pt"), weights_only=False)

    def told(self, seed, rank):
        return json.loads(self.path(seed, rank, "json").read_text())


class JoinParityTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="join_parity.")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def expect_same(self, expected, actual):
        for seed, rank in itertools.product(expected.seeds, range(expected.ranks)):
            with self.subTest(pattern=(self.folder / f"{seed}.json").read_text(), rank=rank):
                self.expect_same_tensors(expected.tensors(seed, rank), actual.tensors(seed, rank))
                told = [one.told(seed, rank) for one in (expected, actual)]
                self.assertEqual(*(one["counts"] for one in told))
                for step, losses in enumerate(zip(*(one["losses"] for one in told), strict=True)):
                    self.assertAlmostEqual(*losses, delta=CLOSE, msg=f"loss of step {step}")

    def expect_same_tensors(self, expected, actual):
        self.assertEqual(expected.keys(), actual.keys())
        differences = {name: mixed_ranks.difference(expected[name], actual[name]) for name in expected}
        self.assertEqual({name: by for name, by in differences.items() if not by <= CLOSE}, {})

    def expect_as_python(self, ranks):
        cxx = Run(self.folder, "cxx", [CXX] * ranks)
        self.expect_same(Run(self.folder, "python", [PYTHON] * ranks), cxx)

    def test_two_ranks_end_as_in_python(self):
        self.expect_as_python(2)

    def test_three_ranks_end_as_in_python(self):
        self.expect_as_python(3)

    def test_four_ranks_end_as_in_python(self):
        self.expect_as_python(4)

    def test_ranks_in_python_and_in_cxx_join_together(self):
        cxx = Run(self.folder, "cxx", [CXX] * 3)
        self.expect_same(cxx, Run(self.folder, "mixed", [CXX, PYTHON, CXX]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
