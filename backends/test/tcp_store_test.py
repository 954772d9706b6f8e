"""Tests the store of distrun launch with Python's TCPStore client, on two ranks:

    distrun launch --nproc-per-node 2 backends/test/tcp_store_test.py
"""

import datetime
import os
import unittest

from torch.distributed import DistNetworkError, DistStoreError, PrefixStore, TCPStore

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def connect():
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), WORLD_SIZE, is_master=False,
                    timeout=datetime.timedelta(seconds=30))


class TcpStoreTest(unittest.TestCase):
    """Keys of a rank begin with its number; what ranks share is named after the test."""

    def setUp(self):
        self.shared = connect()
        self.own = PrefixStore(f"rank{RANK}/{self._testMethodName}", self.shared)

    def test_sets_changes_and_deletes_values(self):
        self.own.set("k", "value")
        self.assertEqual(self.own.get("k"), b"value")
        self.own.append("k", "+")
        self.assertEqual(self.own.get("k"), b"value+")
        self.assertEqual(self.own.compare_set("k", "no", "other"), b"value+")
        self.assertEqual(self.own.compare_set("k", "value+", "other"), b"other")
        self.assertTrue(self.own.check(["k"]))
        self.assertFalse(self.own.check(["k", "none"]))
        self.assertTrue(self.own.delete_key("k"))
        self.assertFalse(self.own.delete_key("k"))

    def test_list_forms(self):
        self.own.multi_set(["a", "b"], ["1", "2"])
        self.assertEqual(self.own.multi_get(["b", "a"]), [b"2", b"1"])
        self.assertIn(f"rank{RANK}/test_list_forms/a", self.shared.list_keys())

    def test_stores_binary_values(self):
        value = bytes(range(256)) * 16
        self.own.set("k", value)
        self.assertEqual(self.own.get("k"), value)

    def test_ranks_count_together(self):
        self.shared.add("count", RANK + 1)
        self.shared.add("done", 1)
        while self.shared.add("done", 0) < WORLD_SIZE:
            pass
        self.assertEqual(self.shared.add("count", 0), sum(range(1, WORLD_SIZE + 1)))

    def test_one_rank_waits_for_the_other(self):
        if RANK == 0:
            self.assertEqual(self.shared.get("late"), b"here")
        else:
            self.shared.set("late", "here")

    def test_wait_that_times_out_leaves_the_client_usable(self):
        with self.assertRaises((DistStoreError, DistNetworkError)):
            self.own.wait(["never"], datetime.timedelta(milliseconds=50))
        self.own.set("never", "now")
        self.own.wait(["never"], datetime.timedelta(seconds=30))

    def test_passes_values_through_queues(self):
        if RANK == 0:
            self.shared.queue_push("q", "1")
            self.shared.queue_push("q", "2")
        else:
            self.assertEqual([self.shared.queue_pop("q"), self.shared.queue_pop("q")], [b"1", b"2"])
            self.assertEqual(self.shared.queue_len("q"), 0)


if __name__ == "__main__":
    unittest.main()
