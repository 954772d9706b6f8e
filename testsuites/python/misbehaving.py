"""Tests of PyTorch's classes that pass, fail, hang, crash, skip and leak: what python_test.py runs."""
import ctypes
import mmap
import multiprocessing.shared_memory
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase, TEST_SKIPS, skip_if_lt_x_gpu
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)

LEFT = "distrun_python_test_"  # The names of what tests leave behind; python_test.py removes it.


class TwoRanks(MultiProcessTestCase):
    @property
    def world_size(self):
        return 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def init(self):
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)


class GroupTest(TwoRanks):
    def test_passes(self):
        self.init()
        x = torch.ones(2) * (self.rank + 1)
        dist.all_reduce(x)
        self.assertEqual(x, torch.full((2,), 3.0))

    def test_rank_1_fails(self):
        self.init()
        dist.barrier()
        print(f"rank {self.rank} prints")
        if self.rank == 1:
            self.assertEqual(1, 2)
        dist.barrier()

    def test_rank_1_throws(self):
        if self.rank == 1:
            raise ValueError("no such thing")

    def test_rank_1_hangs(self):
        self.init()
        if self.rank == 1:
            wait_in_a_function()
        dist.barrier()

    def test_rank_1_takes_longer(self):
        if self.rank == 1:
            time.sleep(1.5)  # Longer than distrun waits for the output of a rank that has ended.

    def test_a_fork_comes_back(self):
        if self.rank == 0 and os.fork() == 0:
            return
        if self.rank == 0:
            os.wait()

    def test_rank_0_crashes(self):
        if self.rank == 0:
            os.kill(os.getpid(), signal.SIGSEGV)

    def test_rank_0_reads_null(self):
        if self.rank == 0:
            ctypes.string_at(0)

    def test_rank_1_exits_early(self):
        if self.rank == 1:
            os._exit(0)

    def test_rank_1_exits_with_3(self):
        if self.rank == 1:
            sys.exit(3)

    def test_leaves_a_process(self):
        if self.rank == 1:
            null = subprocess.DEVNULL
            subprocess.Popen(["sleep", "1000"], stdin=null, stdout=null, stderr=null, start_new_session=True)

    def test_leaves_shared_memory(self):
        if self.rank == 1:
            with open(tempfile.mktemp(prefix=LEFT, dir="/dev/shm"), "w+b") as file:
                file.write(b"x")
                file.flush()
                self.memory = mmap.mmap(file.fileno(), 1)

    def test_removes_shared_memory(self):
        memory = multiprocessing.shared_memory.SharedMemory(create=True, size=1)
        memory.unlink()

    def test_leaves_a_file(self):
        if self.rank == 1:
            with open(f"/tmp/{LEFT}{os.getpid()}", "w"):
                pass

    @skip_if_lt_x_gpu(8)
    def test_needs_gpus(self):
        pass

    def test_skips_by_exit_code(self):
        os._exit(TEST_SKIPS["small_worldsize"].exit_code)

    def test_skips_in_the_test(self):
        raise unittest.SkipTest("not today")

    @unittest.skip("decorated")
    def test_is_skipped(self):
        pass

    def test_rank_1_skips(self):
        if self.rank == 1:
            raise unittest.SkipTest("only this rank")

    @unittest.expectedFailure
    def test_is_expected_to_fail(self):
        if self.rank == 1:
            raise ValueError("as expected")

    @unittest.expectedFailure
    def test_passes_unexpectedly(self):
        pass

    @parametrize("size", [1, 2])
    def test_with_size(self, size):
        self.assertLess(size, 2)


instantiate_parametrized_tests(GroupTest)


class CollectivesTest(TwoRanks):
    @property
    def world_size(self):
        return 3

    def all_reduce(self, times=1):
        for _ in range(times):
            dist.all_reduce(torch.ones(8))

    def test_are_recorded(self):
        self.init()
        self.all_reduce(2)
        own = dist.new_group([0, 2], group_desc="own")
        if self.rank != 1:
            dist.broadcast(torch.ones(2, 3, dtype=torch.int64), 0, group=own)
        self.all_reduce()

    def test_dtypes_differ(self):
        self.init()
        tensor = torch.ones(4, dtype=torch.float64) if self.rank == 1 else torch.ones(8)
        dist.all_reduce(tensor)  # Gloo sees as many bytes.

    @unittest.expectedFailure
    def test_dtypes_differ_in_a_test_that_is_expected_to_fail(self):
        self.test_dtypes_differ()
        self.fail("as expected")

    def test_dtypes_may_differ(self):
        self.test_dtypes_differ()

    test_dtypes_may_differ.distrun_collectives_may_differ = True

    def test_rank_2_skips_one(self):
        self.init()
        self.all_reduce(4 if self.rank == 2 else 5)

    def test_rank_2_throws_later(self):
        self.init()
        self.all_reduce(2)
        if self.rank == 2:
            raise ValueError("later")
        self.all_reduce()

    def test_all_skip_later(self):
        self.init()
        self.all_reduce()
        dist.barrier()
        raise unittest.SkipTest("later")

    def test_rank_2_hangs(self):
        self.init()
        self.all_reduce(2)
        if self.rank == 2:
            wait_in_a_function()
        self.all_reduce()


class MayDifferTest(TwoRanks):
    """The attribute of a class is for all its tests."""

    distrun_collectives_may_differ = True

    def test_dtypes_differ(self):
        self.init()
        dist.all_reduce(torch.ones(4, dtype=torch.float64) if self.rank == 1 else torch.ones(8))


class FewAreKeptTest(TwoRanks):
    """What setUp() sets is in force."""

    def setUp(self):
        os.environ["TORCH_FR_BUFFER_SIZE"] = "10"
        super().setUp()

    def test_dtypes_differ_at_first(self):
        self.init()
        dist.all_reduce(torch.ones(4, dtype=torch.float64) if self.rank == 1 else torch.ones(8))
        for _ in range(10):
            dist.barrier()


def wait_in_a_function():
    signal.pause()


class ExitTest(TwoRanks):
    """Like PyTorch's TestDistBackend, whose ranks call sys.exit() after the test."""

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **_):
        case = cls(test_name)
        case.rank, case.file_name = rank, file_name
        case.run_test(test_name, pipe)
        sys.exit(0)

    def test_returns(self):
        pass

    def test_exits(self):
        sys.exit(0)


class SetUpTest(TwoRanks):
    """What setUp() does in the parent reaches the ranks."""

    def setUp(self):
        os.environ["SET_BY_PARENT"] = self._testMethodName
        MultiProcessTestCase.setUp(self)
        if self._testMethodName == "test_set_up_skips":
            self.skipTest("in setUp()")
        if self._testMethodName == "test_set_up_fails":
            raise RuntimeError("setUp() fails")
        if self._testMethodName == "test_set_up_dies":
            print("about to die", flush=True)
            os._exit(5)
        self.special_return_code_checks = {getattr(self.test_aborts, "__wrapped__", None): -signal.SIGABRT}
        self._spawn_processes()

    def tearDown(self):
        super().tearDown()
        if self._testMethodName == "test_tear_down_fails":
            raise RuntimeError("tearDown() fails")

    def test_variables_reach_the_ranks(self):
        self.assertEqual(os.environ["SET_BY_PARENT"], "test_variables_reach_the_ranks")
        self.assertNotIn("RANK", os.environ)

    def test_set_up_skips(self):
        pass

    def test_set_up_fails(self):
        pass

    def test_set_up_dies(self):
        pass

    def test_tear_down_fails(self):
        pass

    def test_aborts(self):
        os.abort()


class NoProcessesTest(MultiProcessTestCase):
    def test_starts_no_process(self):
        pass


def make_case(passes):
    class Made(TestCase):
        def test_made(self):
            self.assertTrue(passes)

    return Made


First = make_case(True)
Second = make_case(False)
setattr(First, "test_with [1, 2]", First.test_made)


class PlainTest(TestCase):
    def test_passes(self):
        self.assertTrue(__name__ in ("__main__", "__mp_main__"))

    def test_fails(self):
        self.assertEqual([1], [2])

    def test_skips(self):
        self.skipTest("plain")

    def test_uses_locks(self):
        for _ in range(20):
            self.assertTrue(multiprocessing.get_context("spawn").Lock().acquire())


if __name__ == "__main__":
    run_tests()
