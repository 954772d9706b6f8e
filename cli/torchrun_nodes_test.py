"""Starts the real torchrun on one node of a run, and `distrun launch` on the other: distrun says so at once.

    PYTHON cli/torchrun_nodes_test.py DISTRUN

PYTHON can import torch.  Without the message, each launcher waits for minutes, and the test fails at LIMIT_S.
"""

import contextlib
import socket
import subprocess
import sys
import unittest

DISTRUN = ""
LIMIT_S = 120  # torchrun takes seconds to start.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextlib.contextmanager
def running(command):
    """A launcher; killed at the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class TorchrunNodesTest(unittest.TestCase):
    def setUp(self):
        self.port = free_port()

    def static(self, rank, run="none"):
        """torchrun's flags that distrun has, too."""
        return ["--nnodes", "2", "--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port", self.port,
                "--rdzv-id", run]

    def c10d(self):
        return ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-id", "none"]

    def torchrun(self, flags):
        return running([*TORCHRUN, *flags, "--no-python", "sh", "-c", "echo started"])

    def distrun(self, rank):
        return running([DISTRUN, "launch", *self.static(rank), "--no-python", "sh", "-c", "echo started"])

    def end_of(self, process):
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def test_node_0_names_a_torchrun_that_joins(self):
        for flags in (self.static(1), self.c10d()):
            with self.subTest(flags), self.distrun(0) as node, self.torchrun(flags) as other:
                status, out, err = self.end_of(node)
                self.assertEqual((status, out), (125, ""), err)
                self.assertIn("distrun: a node at 127.0.0.1 runs torchrun; start distrun launch on every node\n", err)
                self.assertNotEqual(self.end_of(other)[0], 0)  # It does not wait either.

    def test_a_node_names_a_torchrun_at_the_address_of_node_0(self):
        for flags in (self.static(0), self.c10d()):
            with self.subTest(flags), self.torchrun(flags), self.distrun(1) as node:
                status, out, err = self.end_of(node)
                self.assertEqual((status, out), (125, ""), err)
                self.assertIn(f"distrun launch: node 0 at 127.0.0.1:{self.port} runs torchrun, or another program with a TCPStore "
                              "of PyTorch; start distrun launch on every node, with a port that is free on node 0 (--master-port)\n", err)

    def test_a_torchrun_of_another_run_does_not_disturb(self):
        with self.distrun(0) as first:
            with self.torchrun(self.static(1, run="other")) as other:
                self.assertNotEqual(self.end_of(other)[0], 0)
            with self.distrun(1) as second:
                self.assertEqual(self.end_of(second)[0], 0)
            status, out, err = self.end_of(first)
        self.assertEqual((status, out), (0, "started\n"), err)
        self.assertIn("distrun: a node at 127.0.0.1 was refused: it runs torchrun, with another --rdzv-id\n", err)


def main():
    global DISTRUN
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DISTRUN = sys.argv.pop(1)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
