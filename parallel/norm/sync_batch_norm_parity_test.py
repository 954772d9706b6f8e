"""Trains a model with SyncBatchNorm on several C++ ranks, and expects the losses, parameters and running statistics of
one Python process, whose BatchNorm has the batches of all ranks.

    sync_batch_norm_parity_test.py DISTRUN RANKS_PROGRAM

RANKS_PROGRAM is parity_worker, here test/sync_batch_norm_parity_worker.cc.  Python's SyncBatchNorm does not accept
tensors on a CPU, so it cannot be the reference.
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import mixed_ranks  # noqa: E402

DISTRUN, CXX_RANKS = sys.argv[1:3]
STEPS, CHANNELS, WIDTH, CLOSE = 6, 4, 5, 1e-9  # All tensors are doubles.


def variant(name, momentum=0.1, affine=True, track_running_stats=True):
    return {"name": name, "momentum": momentum, "affine": affine, "track_running_stats": track_running_stats}


VARIANTS = [
    variant("plain"),
    variant("cumulative", momentum=None),
    variant("not affine", affine=False),
    variant("untracked", track_running_stats=False),
]


class Net(torch.nn.Module):
    def __init__(self, momentum, affine, track_running_stats):
        super().__init__()
        options = {"momentum": momentum, "affine": affine, "track_running_stats": track_running_stats}
        self.first = torch.nn.BatchNorm2d(CHANNELS, **options)
        self.conv = torch.nn.Conv2d(CHANNELS, WIDTH, 2)
        self.second = torch.nn.BatchNorm2d(WIDTH, **options)
        self.last = torch.nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.last(torch.relu(self.second(self.conv(self.first(x)))).mean((2, 3)))


def train_alone(options, start, inputs):
    options = {key: value for key, value in options.items() if key != "name"}
    net = Net(**options).double()
    net.load_state_dict(start, strict=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (net(inputs[step]) - 1).pow(2).mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    net.eval()
    return {"losses": torch.tensor(losses, dtype=torch.float64), "evaluated": net(inputs[0]).detach(),
            **net.state_dict()}


class SyncBatchNormParityTest(unittest.TestCase):
    maxDiff = None

    def expect_as_in_python(self, rows):
        with tempfile.TemporaryDirectory(prefix="sync_batch_norm_parity.") as name:
            folder = Path(name)
            torch.manual_seed(30)
            start = dict(Net(0.1, True, True).double().state_dict())
            inputs = torch.randn(STEPS, sum(rows), CHANNELS, 4, 3, dtype=torch.float64) * 2 + 3
            torch.save(start, folder / "start.pt")
            torch.save({"inputs": inputs}, folder / "inputs.pt")
            (folder / "variants.json").write_text(json.dumps({"rows": rows, "variants": VARIANTS}))
            mixed_ranks.launch(DISTRUN, [[CXX_RANKS, "sync_batch_norm"]] * len(rows), name, "cxx")
            for one in VARIANTS:
                with self.subTest(variant=one["name"]):
                    expected = train_alone(one, start, inputs)
                    actual = torch.load(folder / f"cxx.{one['name']}.pt", weights_only=False)
                    self.assertEqual(set(expected), set(actual))
                    differences = {key: mixed_ranks.difference(expected[key], actual[key]) for key in expected}
                    self.assertEqual({key: by for key, by in differences.items() if not by <= CLOSE}, {})

    def test_one_rank_trains_as_in_python(self):
        self.expect_as_in_python([5])

    def test_two_ranks_train_as_in_python(self):
        self.expect_as_in_python([2, 5])

    def test_three_ranks_train_as_in_python_with_an_empty_batch(self):
        self.expect_as_in_python([3, 0, 4])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
