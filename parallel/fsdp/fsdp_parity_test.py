"""Trains the same model with Python's fully_shard and with our FullyShardedDataParallel, from the same weights and
on the same data, and expects the same losses and parameters.  Also compares both with one Python process.

    fsdp_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/fsdp_parity_worker.cc.
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "test"), str(Path(__file__).parent / "test")]

import mixed_ranks  # noqa: E402
from fsdp_parity_worker import STEPS, Net  # noqa: E402

mixed_ranks.require_torch(2, 13)
DISTRUN, CXX_RANKS = sys.argv[1:3]
RANKS_MAX, BATCH = 4, 6
CLOSE, CLOSE_IN_BFLOAT16 = 1e-5, 2e-2


def variant(name, reshard_after_forward=True, param_dtype="", max_norm=0.0, sync_every=1):
    return {"name": name, "reshard_after_forward": reshard_after_forward, "param_dtype": param_dtype,
            "max_norm": max_norm, "sync_every": sync_every}


VARIANTS = [
    variant("plain"),
    variant("stay gathered", reshard_after_forward=False),
    variant("clipped", max_norm=0.05),
    variant("every second step", sync_every=2),
    variant("bfloat16", param_dtype="bfloat16"),
]


def train_alone(start, inputs, ranks):
    """One process, which has the inputs of all ranks."""
    net = Net()
    net.load_state_dict(start)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        (net(inputs[step][:ranks].flatten(0, 1)) - 1).pow(2).mean().backward()
        optimizer.step()
    return net.state_dict()


class FsdpParityTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="fsdp_parity.")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        torch.manual_seed(20)
        cls.start, cls.inputs = dict(Net().state_dict()), torch.randn(STEPS, RANKS_MAX, BATCH, 5)
        torch.save(cls.start, cls.folder / "start.pt")
        torch.save({"inputs": cls.inputs}, cls.folder / "inputs.pt")
        (cls.folder / "variants.json").write_text(json.dumps(VARIANTS))

    def results(self, name, programs):
        mixed_ranks.launch(DISTRUN, programs, str(self.folder), name)
        return {one["name"]: torch.load(self.folder / f"{name}.{one['name']}.pt", weights_only=False)
                for one in VARIANTS}

    def expect_close(self, expected, actual, close, keys):
        differences = {key: mixed_ranks.difference(expected[key], actual[key]) for key in keys}
        self.assertEqual({key: by for key, by in differences.items() if not by <= close}, {})

    def expect_as_in_python(self, ranks):
        python = [[sys.executable, "-u", str(Path(__file__).parent / "test" / "fsdp_parity_worker.py")]] * ranks
        expected = self.results(f"python{ranks}", python)
        actual = self.results(f"cxx{ranks}", [[CXX_RANKS, "fsdp"]] * ranks)
        for name, one in expected.items():
            with self.subTest(variant=name):
                self.assertEqual(set(one), set(actual[name]))
                close = CLOSE_IN_BFLOAT16 if name == "bfloat16" else CLOSE
                self.expect_close(one, actual[name], close, set(one))
        self.expect_close(train_alone(self.start, self.inputs, ranks), actual["plain"], CLOSE, set(self.start))

    def test_one_rank_trains_as_in_python(self):
        self.expect_as_in_python(1)

    def test_two_ranks_train_as_in_python(self):
        self.expect_as_in_python(2)

    def test_four_ranks_train_as_in_python(self):
        self.expect_as_in_python(4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
