"""Trains the same stages with Python's schedules and with ours, from the same weights and on the same data, and
expects the same losses, outputs, gradients and parameters on every rank.

    pipeline_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/pipeline_parity_worker.cc.
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "test"), str(Path(__file__).parent / "test")]

import mixed_ranks  # noqa: E402
from pipeline_parity_worker import STEPS, WIDTH, Stage  # noqa: E402

mixed_ranks.require_torch(2, 13)
DISTRUN, CXX_RANKS = sys.argv[1:3]
RANKS_MAX, BATCH = 4, 12
CLOSE = 1e-5  # Of the largest value: summed losses have large gradients.
VARIANTS = [{"name": f"{schedule}-{microbatches}-{reduction}", "schedule": schedule, "microbatches": microbatches,
             "reduction": reduction}
            for schedule in ("gpipe", "1f1b")
            for microbatches, reduction in ((2, "mean"), (4, "mean"), (6, "mean"), (4, "sum"))]


class PipelineParityTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="pipeline_parity.")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        torch.manual_seed(30)
        state = {f"{rank}/{name}": value for rank in range(RANKS_MAX) for name, value in Stage().state_dict().items()}
        torch.save(state, cls.folder / "state.pt")
        torch.save({"inputs": torch.randn(STEPS, BATCH, WIDTH), "targets": torch.randn(STEPS, BATCH, WIDTH)},
                   cls.folder / "data.pt")
        (cls.folder / "variants.json").write_text(json.dumps(VARIANTS))

    def expect_as_in_python(self, ranks):
        python = [[sys.executable, "-u", str(Path(__file__).parent / "test" / "pipeline_parity_worker.py")]] * ranks
        mixed_ranks.launch(DISTRUN, python, str(self.folder), f"python{ranks}")
        mixed_ranks.launch(DISTRUN, [[CXX_RANKS, "pipeline"]] * ranks, str(self.folder), f"cxx{ranks}")
        compared = 0
        for variant in VARIANTS:
            for rank in range(ranks):
                expected, actual = (self.folder / f"{run}{ranks}.{variant['name']}.{rank}.pt" for run in ("python", "cxx"))
                self.assertTrue(actual.exists())
                if not expected.exists():  # Fewer micro-batches than stages.
                    continue
                with self.subTest(variant=variant["name"], rank=rank):
                    compared += 1
                    self.expect_close(torch.load(expected), torch.load(actual, weights_only=False))
        self.assertEqual(compared, ranks * sum(one["schedule"] == "gpipe" or one["microbatches"] >= ranks
                                               for one in VARIANTS))

    def expect_close(self, expected, actual):
        self.assertEqual(set(expected), set(actual))
        differences = {key: mixed_ranks.difference(value, actual[key]) / max(1, value.abs().max().item())
                       for key, value in expected.items()}
        self.assertEqual({key: by for key, by in differences.items() if not by <= CLOSE}, {})

    def test_one_rank_trains_as_in_python(self):
        self.expect_as_in_python(1)

    def test_two_ranks_train_as_in_python(self):
        self.expect_as_in_python(2)

    def test_four_ranks_train_as_in_python(self):
        self.expect_as_in_python(4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
