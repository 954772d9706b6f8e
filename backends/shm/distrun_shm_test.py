"""Tests `import distrun.shm`: how it compiles the backend shm, and what the backend does in torch.distributed.

    PYTHON backends/shm/distrun_shm_test.py DISTRUN MIXED_SHM_RANK

PYTHON can import torch.  The ranks import a copy of the package with only the sources that a wheel contains.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

DISTRUN, MIXED_RANK = sys.argv[1:3]
FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
RANKS = str(FOLDER / "test" / "shm_ranks.py")
LIMIT_S = 300  # Of each run, which may compile on a busy machine.


class Place:
    """A folder with the package, as pip installs it, and a cache."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="distrun_shm.")
        self.path = pathlib.Path(self.folder.name)
        self.package = self.path / "site" / "distrun"
        shutil.copytree(ROOT / "packaging" / "python" / "distrun", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in (self.package / "shm" / "sources.txt").read_text().split():
            target = self.package / "shm" / "sources" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        self.environment = {**os.environ, "PYTHONPATH": str(self.package.parent), "DISTRUN_SHM_CACHE": str(self.path / "cache"),
                            "PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.pop("CXX", None)

    def run(self, *command, **changes):
        environment = {key: each for key, each in {**self.environment, **changes}.items() if each is not None}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)

    def python(self, program, **changes):
        return self.run(sys.executable, "-c", program, **changes)

    def launch(self, ranks, *arguments, **changes):
        return self.run(DISTRUN, "launch", "--timeout", "280", "--nproc-per-node", str(ranks), *arguments, **changes)

    def launch_on_hosts(self, ranks, *arguments, **changes):
        """Ranks with even numbers say that they are on one host, and those with odd numbers on another."""
        return self.launch(ranks, "sh", "-c", 'export DISTRUN_HOST_ID=$((RANK % 2)); exec "$PYTHON_EXEC" "$0" "$@"', RANKS, *arguments, **changes)

    def alone(self, size, *arguments, ranks=None, hosts=1):
        """Starts ranks without a launcher, which would end all of them when one fails.  Rank `r` is on host `r % hosts`."""
        environment = {**self.environment, "WORLD_SIZE": str(size), "INIT_METHOD": f"file://{tempfile.mktemp(dir=self.path)}"}
        return [subprocess.Popen([sys.executable, RANKS, *arguments], text=True,
                                 env={**environment, "RANK": str(rank), "DISTRUN_HOST_ID": str(rank % hosts)},
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for rank in (range(size) if ranks is None else ranks)]


class DistrunShmTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        """Four processes import the package at once, and one of them compiles the backend."""
        cls.place = Place()
        cls.addClassCleanup(cls.place.folder.cleanup)
        cls.first = cls.place.launch(4, "-m", "distrun.shm")

    def ok(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def finish(self, processes):
        done = []
        for process in processes:
            out, err = process.communicate(timeout=LIMIT_S)
            done.append((process.returncode, out, err))
        return done

    def wait_for_sleepers(self, cache, count):
        """Returns when so many processes wait for the lock in the cache."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            locks = {str(file.stat().st_ino) for file in cache.glob("*/lock")}
            waiting = [line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines() if " -> " in line]
            if sum(words[6].split(":")[-1] in locks for words in waiting) == count:
                return
            time.sleep(0.05)
        self.fail("no process waits for the lock")

    # Compiling.

    def test_of_four_imports_at_once_one_compiles(self):
        paths = self.ok(self.first).split()
        self.assertEqual(len(set(paths)), 1, paths)
        self.assertEqual(len(paths), 4)
        self.assertEqual(len(re.findall("compiling the backend for PyTorch", self.first.stderr)), 1, self.first.stderr)
        [folder] = (self.place.path / "cache").iterdir()
        self.assertEqual({each.name for each in folder.iterdir()}, {"lock", "distrun_shm.so"})

    def test_what_a_killed_process_left_is_removed(self):
        changes = {"DISTRUN_SHM_CACHE": str(self.place.path / "killed"), "CXX": "false"}
        import_it = "try:\n import distrun.shm\nexcept ImportError: pass"
        self.ok(self.place.python(import_it, **changes))
        [folder] = (self.place.path / "killed").iterdir()
        (folder / "tmpleft").mkdir()
        self.ok(self.place.python(import_it, **changes))
        self.assertEqual({each.name for each in folder.iterdir()}, {"lock", "failed"})

    def test_a_later_import_compiles_nothing_and_is_silent(self):
        done = self.place.python("import distrun.shm", CXX="/nowhere/c++")
        self.ok(done)
        self.assertEqual(done.stdout + done.stderr, "")

    def test_the_library_needs_only_libtorch_and_the_system(self):
        library = self.ok(self.first).split()[0]
        needed = set(re.findall(r"NEEDED.*\[(ld-linux|[a-z_0-9+]+)", self.ok(self.place.run("readelf", "-d", library))))
        self.assertLessEqual(needed, {"libtorch_cpu", "libc10", "libstdc++", "libgcc_s", "libc", "libm", "libpthread", "ld-linux"})

    def test_says_what_is_missing(self):
        no_program = self.place.path / "no_program"
        no_program.touch(0o755)
        import_it = "import distrun.shm"
        for program, changes, expected in (
                ("import sys; sys.modules['torch'] = None; " + import_it, {},
                 "ImportError: distrun.shm requires PyTorch 2.11 or newer, which is not installed: pip install torch"),
                ("import torch; torch.__version__ = '2.10.1'; " + import_it, {},
                 "distrun.shm: requires PyTorch 2.11 or newer; this is 2.10.1"),
                (import_it, {"DISTRUN_SHM_CACHE": str(self.place.path / "new"), "CXX": "nothing-here -O1"},
                 "distrun.shm: there is no compiler nothing-here, which the environment variable CXX names"),
                (import_it, {"DISTRUN_SHM_CACHE": str(self.place.path / "new"), "CXX": "g++ '"},
                 "distrun.shm: the environment variable CXX is not a command: No closing quotation"),
                (import_it, {"DISTRUN_SHM_CACHE": str(self.place.path / "new"), "CXX": str(no_program)},
                 "distrun.shm: cannot run the compiler"),
                ("import os, torch; os.environ['PATH'] = '/nowhere'; " + import_it, {"DISTRUN_SHM_CACHE": str(self.place.path / "new")},
                 "distrun.shm: there is no C++ compiler: install GCC 12 or newer (apt-get install g++), or set CXX"),
                (import_it, {"DISTRUN_SHM_CACHE": "/dev/null/cache"},
                 "set DISTRUN_SHM_CACHE to a folder that can be written"),
                (import_it, {"DISTRUN_SHM_CACHE": None, "XDG_CACHE_HOME": "/dev/null"}, "cannot write to /dev/null/distrun/shm"),
                (import_it, {"DISTRUN_SHM_CACHE": None, "XDG_CACHE_HOME": None, "HOME": "/dev/null"},
                 "cannot write to /dev/null/.cache/distrun/shm")):
            with self.subTest(expected=expected):
                done = self.place.python(program, **changes)
                self.assertEqual(done.returncode, 1)
                self.assertIn(expected, done.stderr.splitlines()[-1])

    def test_a_failed_compilation_shows_the_compilers_output_and_is_tried_once(self):
        calls, go, compiler = (self.place.path / name for name in ("calls", "go", "failing_compiler"))
        compiler.write_text(f'#!/bin/sh\necho call >>{calls}\nuntil [ -e {go} ]; do sleep 0.1; done\necho "no such luck" >&2\nexit 1\n')
        compiler.chmod(0o755)
        changes = {"CXX": str(compiler), "DISTRUN_SHM_CACHE": str(self.place.path / "failing")}
        import_it = "try:\n import distrun.shm\nexcept ImportError as error:\n print(error)"
        processes = [subprocess.Popen([sys.executable, "-c", import_it], env={**self.place.environment, **changes}, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        try:
            self.wait_for_sleepers(self.place.path / "failing", 2)
        finally:
            go.touch()
        for status, out, err in self.finish(processes):
            self.assertEqual(status, 0, err)
            self.assertRegex(out, r"distrun.shm: the backend cannot be compiled; the compiler's output is in /\S+/failed, and ends with:\n")
            self.assertTrue(out.endswith("no such luck\n"), out)
        self.assertEqual(len(calls.read_text().split()), 4)  # It compiles four files.
        # A later import tries again.
        self.assertIn("no such luck", self.ok(self.place.python(import_it, **changes)))

    # The backend.

    def test_collectives_compute_what_gloo_computes(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.assertIn("compared", self.ok(self.place.launch(ranks, RANKS, "collectives")))

    def test_collectives_with_comparison_of_calls(self):
        self.assertIn("compared", self.ok(self.place.launch(2, RANKS, "collectives", TORCH_DISTRIBUTED_DEBUG="DETAIL")))

    def test_asynchronous_calls_overlap(self):
        self.ok(self.place.launch(3, RANKS, "overlapping"))

    def test_groups_have_their_own_ranks(self):
        self.ok(self.place.launch(3, RANKS, "groups", "cpu:shm,cuda:gloo"))

    def test_training_computes_what_gloo_computes(self):
        import torch

        results = {}
        for backend in ("shm", "gloo"):
            file = self.place.path / f"{backend}.pt"
            self.ok(self.place.launch(3, RANKS, "training", backend, str(file)))
            results[backend] = torch.load(file)
        for one, other in zip(results["shm"], results["gloo"], strict=True):
            torch.testing.assert_close(one, other)

    def test_training_reduces_in_place(self):
        self.ok(self.place.launch(2, RANKS, "in_place"))
        self.ok(self.place.launch(2, RANKS, "sparse"))

    def test_a_killed_rank_is_named(self):
        [rank_0, killed, rank_2] = self.finish(self.place.alone(3, "failures", "1"))
        self.assertEqual(killed[0], -9)
        for status, out, err in (rank_0, rank_2):
            self.assertEqual(status, 0, err)
            self.assertEqual(re.findall("rank 1 has ended", out), ["rank 1 has ended"] * 2, out)

    def test_ranks_that_do_not_come_are_named(self):
        [(status, out, err)] = self.finish(self.place.alone(2, "absence", ranks=[0]))
        self.assertEqual((status, out), (0, "init: shm: rank 1 did not come within 500ms\n"), err)

    def test_a_late_rank_is_named(self):
        [rank_0, *others] = self.place.alone(3, "lateness")
        try:
            self.assertRegex(rank_0.stdout.readline(), r"^rank 0: timed out after \d+ms: rank 2 did not come$")
        finally:
            self.finish([*others, rank_0])

    def test_misuse_is_rejected(self):
        rank_0 = self.finish(self.place.alone(2, "misuse"))[0]
        lines = rank_0[1].splitlines()
        self.assertEqual(len(lines), 3, rank_0)
        self.assertEqual(lines[0], "ValueError: all_reduce: shm has no such reduction of Float")
        self.assertIn("ValueError: broadcast: elements of a tensor share memory", lines[1])
        self.assertIn("DistBackendError: the ranks make different calls: rank 0", lines[2])

    def test_ends_without_destroying_the_group(self):
        done = self.place.launch(2, RANKS, "leaving")
        self.ok(done)
        self.assertEqual(done.stderr, "")

    def test_the_hook_requires_a_group_as_its_state(self):
        done = self.place.python("import distrun.shm\ntry: distrun.shm.allreduce_hook('world', None)\nexcept TypeError as error: print(error)")
        self.assertEqual(self.ok(done), "distrun.shm.allreduce_hook: its state is a str; expected a process group or None\n")

    def test_ranks_in_cxx_and_python_meet(self):
        python = f'exec "{sys.executable}" "{RANKS}" mixed'
        for ranks_in_cxx, host in (("0", 0), ("[12]", 0), ("0", "$((RANK % 2))"), ("[12]", "$((RANK / 2))")):
            done = self.place.launch(3, "sh", "-c", f'export DISTRUN_HOST_ID={host}; case $RANK in {ranks_in_cxx}) exec "{MIXED_RANK}";; esac; {python}')
            expected = []
            for rank in range(3):
                sender = (rank - 1) % 3
                expected += [f"rank {rank}: sum 6 6", f"rank {rank}: last 3 3", f"rank {rank}: received {2 * sender + 1} {2 * sender + 1}"]
                expected += [f"rank {rank}: product 2 2"] if rank < 2 else []
            self.assertEqual(sorted(self.ok(done).splitlines()), sorted(expected))

    # The backend on several hosts.

    def test_collectives_between_hosts_compute_what_gloo_computes(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.assertIn("compared", self.ok(self.place.launch_on_hosts(ranks, "collectives")))

    def test_asynchronous_calls_between_hosts_overlap(self):
        self.ok(self.place.launch_on_hosts(3, "overlapping"))

    def test_groups_between_hosts_have_their_own_ranks(self):
        # Not cuda:gloo: PyTorch knows the ranks of a default group only in the first Gloo backend of a process, which is here one of shm.
        self.ok(self.place.launch_on_hosts(3, "groups", "shm"))

    def test_training_between_hosts_reduces_in_place_on_each(self):
        self.ok(self.place.launch_on_hosts(3, "in_place"))
        self.ok(self.place.launch_on_hosts(3, "sparse"))

    def test_a_killed_rank_is_named_on_every_host(self):
        """Alone on its host, its leader, or led by rank 1."""
        for size, killed, expected in ((3, 1, "the connection to rank 1 was lost"), (4, 0, "rank 0 has ended|the connection to rank 0 was lost"),
                                       (4, 3, "rank 3 has ended")):
            with self.subTest(size=size, killed=killed):
                done = self.finish(self.place.alone(size, "failures", str(killed), hosts=2))
                self.assertEqual(done.pop(killed)[0], -9)
                for status, out, err in done:
                    self.assertEqual(status, 0, err)
                    self.assertEqual(len(re.findall(expected, out)), 2, out)

    def test_a_late_rank_is_named_on_its_host(self):
        """Rank 0 names it.  Ranks of the other host learn that from it, or time out first."""
        [rank_0, rank_1, rank_2, rank_3] = self.place.alone(4, "late_between_hosts", hosts=2)
        try:
            self.assertRegex(rank_0.stdout.readline(), r"^rank 0: timed out after \d+ms: rank 2 did not come$")
            for rank in (rank_1, rank_3):
                self.assertRegex(rank.stdout.readline(), "rank 2 did not come|[Tt]imed out")
        finally:
            self.finish([rank_1, rank_2, rank_3, rank_0])

    def test_ranks_between_hosts_end_without_destroying_the_group(self):
        done = self.place.launch_on_hosts(3, "leaving")
        self.ok(done)
        self.assertEqual(done.stderr, "")

    def test_a_group_between_hosts_is_split_only_by_new_group(self):
        done = self.place.launch_on_hosts(2, "splitting")
        self.assertEqual(self.ok(done).splitlines(), ["shm: Python cannot split a group into parts that span hosts; use new_group()"] * 2)

    def test_without_gloo_ranks_can_use_only_one_host(self):
        for status, out, err in self.finish(self.place.alone(2, "without_gloo")):
            self.assertEqual((status, out), (0, "sum: 2\n"), err)
        for status, out, err in self.finish(self.place.alone(2, "without_gloo", hosts=2)):
            self.assertEqual(status, 0, err)
            self.assertRegex(out, "^init: shm: rank [01] and rank [01] are on different hosts or in different network namespaces, and a rank cannot "
                                  "span hosts: its PyTorch has no Gloo, or Python splits a group$")

    def test_hosts_whose_names_resolve_to_loopback_connect(self):
        done = self.place.run(str(FOLDER.parent / "test" / "two_hosts_test.sh"), sys.executable, RANKS, "summing", RANKS_PER_HOST="2", TIMEOUT_S="200")
        if done.returncode == 77:
            self.skipTest(done.stdout)
        self.ok(done)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
