"""Trains the same model with Python's communication hooks and model averagers and ours, from the same weights and on
the same data, and expects the same parameters.

    hooks_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/hooks_parity_worker.cc.
"""

import itertools
import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "test"), str(Path(__file__).parent / "test")]

import mixed_ranks  # noqa: E402
from hooks_parity_worker import Net  # noqa: E402

mixed_ranks.require_torch(2, 13)
DISTRUN, CXX_RANKS = sys.argv[1:3]
STEPS, RANKS_MAX, BATCH = 12, 3, 8
CLOSE = 1e-5


def variant(name, hook, wrapper="", bucket_cap_mb=25.0, averager=None, **state):
    """How the ranks train.  The members of `state` are the arguments of the hook's state."""
    return {"name": name, "hook": hook, "wrapper": wrapper, "bucket_cap_mb": bucket_cap_mb, "averager": averager,
            "state": state}


def power_sgd(name, wrapper="", **state):
    """With one bucket: several can deadlock in Python on Gloo, whose threads wait for each other's collectives."""
    return variant(name, "powerSGD_hook", wrapper, **({"start_powerSGD_iter": 3, "min_compression_rate": 1} | state))


def post_local(name, subgroup=1, averager=None, **state):
    """Each subgroup has `subgroup` ranks, or all if it is 0.  So have those of the periods."""
    return variant(name, "post_localSGD_hook", bucket_cap_mb=0.001, averager=averager,
                   **({"subgroup": subgroup, "start_localSGD_iter": 3} | state))


VARIANTS = [
    variant("mean", "allreduce_hook", bucket_cap_mb=0.001),
    variant("half", "fp16_compress_hook", bucket_cap_mb=0.001),
    variant("bfloat16", "bf16_compress_hook", bucket_cap_mb=0.001),
    variant("mean in half", "allreduce_hook", "fp16", bucket_cap_mb=0.001),
    variant("mean in bfloat16", "allreduce_hook", "bf16", bucket_cap_mb=0.001),
    variant("no reduction", "noop_hook"),
    power_sgd("rank 1"),
    power_sgd("rank 2", matrix_approximation_rank=2),
    power_sgd("rank 4", matrix_approximation_rank=4),  # QR
    power_sgd("default rate", matrix_approximation_rank=4, min_compression_rate=2),
    power_sgd("rate 0.2", min_compression_rate=0.2),  # Compresses vectors, too.
    power_sgd("another seed", random_seed=12345),
    power_sgd("without feedback", use_error_feedback=False),
    power_sgd("without warm start", warm_start=False),
    power_sgd("from the start", use_error_feedback=False, warm_start=False, start_powerSGD_iter=0),
    power_sgd("epsilon", orthogonalization_epsilon=1e-3),
    power_sgd("batches", batch_tensors_with_same_shape=True, matrix_approximation_rank=2),
    power_sgd("batches with QR", batch_tensors_with_same_shape=True, matrix_approximation_rank=3),
    power_sgd("rank 2 in half", "fp16", matrix_approximation_rank=2),
    power_sgd("rank 2 in bfloat16", "bf16", matrix_approximation_rank=2),
    post_local("local", averager={"periods": [[4, 0]], "warmup_steps": 3}),
    post_local("local in one group", subgroup=0, averager={"periods": [[2, 0]], "warmup_steps": 3}),
    post_local("not reduced", averager={"periods": [[3, 0]], "warmup_steps": 0}, post_local_gradient_allreduce=False),
    post_local("not averaged"),
    post_local("hierarchical", averager={"periods": [[2, 1], [4, 0]], "warmup_steps": 2}),
]


def python(ranks=1):
    return [[sys.executable, "-u", str(Path(__file__).parent / "test" / "hooks_parity_worker.py")]] * ranks


def cxx(ranks=1):
    return [[CXX_RANKS, "hooks"]] * ranks


class HooksParityTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="hooks_parity.")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        torch.manual_seed(20)
        torch.save(dict(Net().state_dict()), cls.folder / "start.pt")
        torch.save({"inputs": torch.randn(STEPS, RANKS_MAX, BATCH, 3, 6)}, cls.folder / "data.pt")
        (cls.folder / "variants.json").write_text(json.dumps(VARIANTS))

    def run_of(self, name, programs):
        mixed_ranks.launch(DISTRUN, programs, str(self.folder), name)
        return {(one["name"], rank): torch.load(self.folder / f"{name}.{one['name']}.{rank}.pt", weights_only=False)
                for one, rank in itertools.product(VARIANTS, range(len(programs)))}

    def expect_same(self, expected, actual):
        self.assertEqual(expected.keys(), actual.keys())
        for key, one in expected.items():
            with self.subTest(variant=key[0], rank=key[1]):
                self.assertEqual(set(one), set(actual[key]))
                differences = {name: mixed_ranks.difference(one[name], actual[key][name]) for name in one}
                self.assertEqual({name: by for name, by in differences.items() if not by <= CLOSE}, {})

    def test_one_rank_trains_as_in_python(self):
        self.expect_same(self.run_of("python1", python(1)), self.run_of("cxx1", cxx(1)))

    def test_ranks_in_cxx_train_as_those_in_python(self):
        expected = self.run_of("python2", python(2))
        self.expect_same(expected, self.run_of("cxx2", cxx(2)))
        self.expect_same(expected, self.run_of("mixed2", python() + cxx()))

    def test_a_rank_in_python_trains_among_those_in_cxx(self):
        self.expect_same(self.run_of("cxx3", cxx(3)), self.run_of("mixed3", cxx() + python() + cxx()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
