"""Trains the same parameters with Python's ZeroRedundancyOptimizer and with ours, and expects the same assignment of
parameters to ranks and the same values.

    zero_redundancy_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/zero_redundancy_parity_worker.cc.
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "test"), str(Path(__file__).parent / "test")]

import mixed_ranks  # noqa: E402

mixed_ranks.require_torch(2, 13)
DISTRUN, CXX_RANKS = sys.argv[1:3]
CLOSE = 1e-5
SIZES = [[4, 6], [6], [5, 5, 2], [50], [3], [24], [7, 7], [1], [40], [2, 3]]


def variant(name, optimizer, view=False, groups=(10,), added=0):
    """`groups` are the numbers of parameters in the groups; the last `added` groups come after three steps."""
    return {"name": name, "optimizer": optimizer, "view": view, "groups": groups, "added": added}


VARIANTS = [
    variant("sgd", "SGD"),
    variant("adam", "Adam"),
    variant("adamw", "AdamW", view=True),
    variant("rmsprop", "RMSprop"),
    variant("adagrad", "Adagrad", view=True),
    variant("groups", "Adam", groups=(3, 5, 2)),
    variant("added groups", "SGD", view=True, groups=(2, 5, 3), added=2),
]


class ZeroRedundancyParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="zero_redundancy_parity.")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        torch.manual_seed(20)
        start = {str(i): torch.randn(sizes) for i, sizes in enumerate(SIZES)}
        torch.save(start, cls.folder / "start.pt")
        torch.save({name: torch.randn([6, *one.shape]) for name, one in start.items()}, cls.folder / "gradients.pt")
        (cls.folder / "variants.json").write_text(json.dumps(VARIANTS))

    def results(self, name, programs):
        mixed_ranks.launch(DISTRUN, programs, str(self.folder), name)
        return {one["name"]: torch.load(self.folder / f"{name}.{one['name']}.pt", weights_only=False)
                for one in VARIANTS}

    def expect_as_in_python(self, ranks):
        worker = str(Path(__file__).parent / "test" / "zero_redundancy_parity_worker.py")
        expected = self.results(f"python{ranks}", [[sys.executable, "-u", worker]] * ranks)
        actual = self.results(f"cxx{ranks}", [[CXX_RANKS, "zero_redundancy"]] * ranks)
        for name, one in expected.items():
            with self.subTest(variant=name):
                self.assertEqual(set(one), set(actual[name]))
                self.assertEqual(one["ranks"].tolist(), actual[name]["ranks"].tolist())
                differences = {key: mixed_ranks.difference(one[key], actual[name][key]) for key in one}
                self.assertEqual({key: by for key, by in differences.items() if not by <= CLOSE}, {})

    def test_one_rank_trains_as_in_python(self):
        self.expect_as_in_python(1)

    def test_two_ranks_train_as_in_python(self):
        self.expect_as_in_python(2)

    def test_three_ranks_train_as_in_python(self):
        self.expect_as_in_python(3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
