"""Trains the same model with Python's DistributedDataParallel and ours, from the same weights and on the same
data, and expects the same parameters and buffers.

    ddp_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/ddp_parity_worker.cc.  The ranks of a run train every variant of VARIANTS
and write their results to files.
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
from ddp_parity_worker import Net  # noqa: E402

mixed_ranks.require_torch(2, 13)
DISTRUN, CXX_RANKS = sys.argv[1:3]
STEPS, RANKS_MAX, BATCH, WORDS = 20, 3, 12, 6
CLOSE = 1e-6


def variant(name, hook="", uses="all", sparse=False, sync_every=1, set_to_none=True, momentum=0.9, **options):
    """How the ranks train.  The options have the names of DistributedDataParallel's."""
    return {"name": name, "hook": hook, "uses": uses, "sparse": sparse, "sync_every": sync_every,
            "set_to_none": set_to_none, "momentum": momentum, "lr": 0.05, "options": options}


UNEVEN = 0.001  # MiB: less than one parameter, more than several others together.
VARIANTS = [
    variant("plain"),
    variant("uneven", bucket_cap_mb=UNEVEN),
    variant("bucket for each", bucket_cap_mb=0),
    variant("unused", uses="some", find_unused_parameters=True),
    variant("unused, uneven", uses="some", find_unused_parameters=True, bucket_cap_mb=UNEVEN),
    variant("unused, views", uses="some", find_unused_parameters=True, gradient_as_bucket_view=True,
            set_to_none=False, bucket_cap_mb=UNEVEN),
    variant("static graph", uses="all but spare", static_graph=True),
    variant("static graph, uneven", uses="all but spare", static_graph=True, bucket_cap_mb=UNEVEN,
            find_unused_parameters=True),
    variant("views", gradient_as_bucket_view=True, bucket_cap_mb=UNEVEN),
    variant("views, zeroed", gradient_as_bucket_view=True, set_to_none=False),
    variant("built-in half", hook="FP16_COMPRESS", bucket_cap_mb=UNEVEN),
    variant("own half", hook="own", bucket_cap_mb=UNEVEN),
    variant("own buffers", broadcast_buffers=False),
    variant("every second step", sync_every=2, bucket_cap_mb=UNEVEN),
    variant("sparse", sparse=True, momentum=0.0, bucket_cap_mb=UNEVEN),
]

# Depends on the run or the program.
NOT_COMPARED = {"module_name", "master_port"}


def is_compared(key):
    return key not in NOT_COMPARED and not key.endswith(("_time", "_time_start", "_time_end"))


def python(ranks=1):
    return [[sys.executable, "-u", str(Path(__file__).parent / "test" / "ddp_parity_worker.py")]] * ranks


def cxx(ranks=1):
    return [[CXX_RANKS, "ddp"]] * ranks


def write_inputs(folder):
    torch.manual_seed(20)
    (folder / "variants.json").write_text(json.dumps(VARIANTS))
    start = dict(Net(sparse=False).state_dict())
    start["norm.running_mean"] += 1  # A trained model has buffers, which must be sent.
    start["norm.num_batches_tracked"] += 7
    torch.save(start, folder / "start.pt")
    torch.save({"sentences": torch.randint(40, (STEPS, RANKS_MAX, BATCH, WORDS)),
                "topics": torch.randint(16, (STEPS, RANKS_MAX, BATCH))}, folder / "data.pt")


class Run:
    """The results of one `distrun launch`, in which each rank has its own program."""

    def __init__(self, folder, name, programs):
        self.folder, self.name, self.ranks = folder, name, len(programs)
        mixed_ranks.launch(DISTRUN, programs, str(folder), name)

    def path(self, variant, rank, suffix):
        return self.folder / f"{self.name}.{variant['name']}.{rank}.{suffix}"

    def tensors(self, variant, rank):
        # Python does not accept a dict written in C++ as mere weights.
        return torch.load(self.path(variant, rank, "pt"), weights_only=False)

    def told(self, variant, rank):
        return json.loads(self.path(variant, rank, "json").read_text())


class DdpParityTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="ddp_parity.")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        write_inputs(cls.folder)
        cls.python2 = Run(cls.folder, "python2", python(2))

    def expect_same(self, expected, actual):
        self.assertEqual(expected.ranks, actual.ranks)
        for variant, rank in itertools.product(VARIANTS, range(actual.ranks)):
            with self.subTest(variant=variant["name"], rank=rank):
                self.expect_same_tensors(expected.tensors(variant, rank), actual.tensors(variant, rank))
                self.expect_same_told(expected.told(variant, rank), actual.told(variant, rank))

    def expect_same_tensors(self, expected, actual):
        self.assertEqual(expected.keys(), actual.keys())
        differences = {name: mixed_ranks.difference(expected[name], actual[name]) for name in expected}
        self.assertEqual({name: by for name, by in differences.items() if not by <= CLOSE}, {})

    def expect_same_told(self, expected, actual):
        for step, (one, other) in enumerate(zip(expected["losses"], actual["losses"], strict=True)):
            self.assertAlmostEqual(one, other, delta=CLOSE, msg=f"loss of step {step}")
        logging = [{key: value for key, value in one["logging"].items() if is_compared(key)}
                   for one in (expected, actual)]
        self.assertEqual(*logging)

    def test_ranks_in_cxx_train_as_those_in_python(self):
        self.expect_same(self.python2, Run(self.folder, "cxx2", cxx(2)))

    def test_a_rank_in_cxx_trains_with_one_in_python(self):
        self.expect_same(self.python2, Run(self.folder, "mixed2", python() + cxx()))

    def test_a_rank_in_python_trains_among_those_in_cxx(self):
        self.expect_same(Run(self.folder, "cxx3", cxx(3)), Run(self.folder, "mixed3", cxx() + python() + cxx()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
