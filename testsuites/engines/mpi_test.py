#!/usr/bin/env python3
"""Runs `distrun launch` as tasks of a real mpirun on this machine.

    testsuites/engines/mpi_test.py DISTRUN NAME FOLDER [MpiTest.test_…]

NAME is openmpi or mpich, and FOLDER has its bin/mpiexec (cmake/setup.sh mpi NAME).  Without it, the test prints so and
exits with 77.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
LIMIT_S = 120
FLAGS = {"openmpi": ["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"], "mpich": []}
ENGINES = {"openmpi": "Open MPI", "mpich": "MPICH"}
PLACE = 'echo "$RANK/$WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR"'
# Sums the ranks by MPI, and prints the sum and distrun's rank.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d %s %d\n", rank, getenv("RANK"), sum);
  MPI_Finalize();
  return 0;
}
"""


class MpiTest(unittest.TestCase):
    distrun = name = ""
    folder = pathlib.Path()

    def run_tasks(self, *command, tasks=3, program=None):
        launch = [self.distrun, "launch", *command]
        return subprocess.run([self.folder / "bin/mpiexec", *FLAGS[self.name], "-n", str(tasks), *(program or launch)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S,
                              restore_signals=False)  # SIGPIPE would end Hydra, if its tasks end at once.

    def assert_one(self, pattern, text):
        self.assertEqual(len(re.findall(pattern, text)), 1, text)

    def test_each_task_is_a_rank(self):
        done = self.run_tasks("sh", "-c", PLACE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank}/3 3 0/1 127.0.0.1" for rank in range(3)])
        self.assertEqual(done.stderr, "")

    def test_a_task_alone_starts_its_workers(self):
        done = self.run_tasks("--nproc-per-node", "2", "sh", "-c", PLACE, tasks=1)
        # Open MPI gives its tasks a terminal, on which lines have a prefix.
        lines = [re.sub(r".*\]:(\x1b\[0m)?", "", line) for line in done.stdout.splitlines()]
        self.assertEqual(sorted(lines), ["0/2 2 0/1 127.0.0.1", "1/2 2 0/1 127.0.0.1"], done.stderr)

    def test_a_check_names_a_problem_once(self):
        done = self.run_tasks(program=["env", "NCCL_SOCKET_IFNAME==none", self.distrun, "check"])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_one(r"distrun check: no interface .* fits NCCL_SOCKET_IFNAME==none: ", done.stderr)

    def test_runs_at_the_same_time_do_not_meet(self):
        command = [self.folder / "bin/mpiexec", *FLAGS[self.name], "-n", "2", self.distrun, "launch", "sh", "-c", PLACE]
        runs = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 restore_signals=False)
                for _ in range(4)]
        for run in runs:
            output, _ = run.communicate(timeout=LIMIT_S)
            self.assertEqual(sorted(output.splitlines()), ["0/2 2 0/1 127.0.0.1", "1/2 2 0/1 127.0.0.1"])

    def test_a_failing_rank_is_told_once_and_gives_the_exit_status(self):
        done = self.run_tasks("sh", "-c", '[ "$RANK" != 1 ] || exit 7; sleep 600')
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assert_one("distrun: .*: rank 1 failed: exit code 7\n", done.stderr)

    def test_a_contradiction_is_told(self):
        done = self.run_tasks("--nproc-per-node", "4", "true")
        self.assertEqual(done.returncode, 2, done.stderr)
        told = done.stderr.count(f"--nproc-per-node 4, but {ENGINES[self.name]} started 3 tasks on 1 node, 3 of them")
        if self.name == "openmpi":  # It may end a task before it has told, so each does.
            self.assertGreaterEqual(told, 1, done.stderr)
        else:
            self.assertEqual(told, 1, done.stderr)

    def test_env_explains_the_place(self):
        done = self.run_tasks(program=[self.distrun, "env", "--explain"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(f"engine  {ENGINES[self.name]}\n"), 3, done.stdout)
        self.assertRegex(done.stdout, r"place   one rank per task: rank 2 of 3, local rank \d of 3, node 0 of 1\n")

    def test_prterun_sets_only_variables_of_pmix(self):
        if self.name != "openmpi":
            self.skipTest("prterun belongs to Open MPI")
        prterun = [self.folder / "bin/prterun", *FLAGS["openmpi"], "-n", "2"]
        refused = subprocess.run([*prterun, self.distrun, "launch", "true"], capture_output=True, text=True, check=False, timeout=LIMIT_S)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("PMIX_RANK: PMIx started this process, and does not say how many tasks there are", refused.stderr)
        flags = f"--nnodes 2 --node-rank $PMIX_RANK --master-addr 127.23.{os.getpid() % 250}.7"
        done = subprocess.run([*prterun, "sh", "-c", f"exec '{self.distrun}' launch {flags} sh -c 'echo $RANK/$WORLD_SIZE'"],
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, ["0/2", "1/2"]), done.stderr)

    def test_workers_may_call_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "sum.c"), pathlib.Path(folder, "sum")
            source.write_text(PROGRAM, encoding="utf-8")
            subprocess.run([self.folder / "bin/mpicc", source, "-o", program], check=True, timeout=LIMIT_S,
                           env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"})
            done = self.run_tasks(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 0 3", "1 1 3", "2 2 3"])


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    MpiTest.distrun = str(pathlib.Path(sys.argv.pop(1)).resolve())
    MpiTest.name = sys.argv.pop(1)
    MpiTest.folder = pathlib.Path(sys.argv.pop(1)).resolve()
    if not (MpiTest.folder / "bin/mpiexec").exists():
        print(f"skipped: {MpiTest.name} is not installed; run cmake/setup.sh mpi {MpiTest.name}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
