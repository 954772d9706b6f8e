#!/usr/bin/env python3
"""Runs `distrun launch` in steps of a real Slurm of four nodes, which it starts on this machine.

    testsuites/engines/slurm_test.py [--all] [--train-digits PROGRAM] [--python PYTHON] [--wheel FILE] DISTRUN [SlurmTest.test_…]

PROGRAM is the example train_digits; PYTHON can import torch; FILE is distrun's wheel.  --all also runs what takes minutes.  Requires root and Slurm (cmake/setup.sh packages engines); without them, it prints why and exits with 77.
"""

import argparse
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

import slurm_cluster
from slurm_cluster import SlurmCluster

DISTRUN = ""
TRAIN_DIGITS = ""  # Empty: not built.
PYTHON = ""
WHEEL = ""
ALL = False
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NODES = 4
SKIPPED = 77
LIMIT_S = 60  # For what happens within seconds.
# Prints what each worker has, one line each.
PLACE = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR"'
# Says that it is up, and after SIGTERM writes a checkpoint.
TRAINER = """
trap 'echo "rank $RANK wrote a checkpoint"; exit 0' TERM
trap 'echo "rank $RANK got USR1"' USR1
echo "rank $RANK is up"
while :; do sleep 0.1; done
"""


def processes_with(word):
    """The processes whose command line contains a word, as {pid: name}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            pass  # It has ended.
    return found


class SlurmTest(unittest.TestCase):
    cluster: SlurmCluster

    def setUp(self):
        # Part of the commands, to find the processes of this test.
        self.word = f"distrun-{os.getpid()}-{self.id().rsplit('.', maxsplit=1)[-1]}"
        self.frozen = []

    def tearDown(self):
        self.signal_all(self.frozen, signal.SIGCONT)
        self.cluster.wait_until_idle()
        self.wait_for("the end of all processes", lambda: not processes_with(self.word))

    def wait_for(self, what, holds):
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"{what}: {processes_with(self.word)}")
            time.sleep(0.05)

    def launch(self, *flags, program):
        """The words of a launch whose processes carry this test's word."""
        return [DISTRUN, "launch", *flags, "sh", "-c", program, self.word]

    def srun(self, *flags):
        """A step on the first nodes."""
        nodes = flags[1] if flags[0] == "--nodes" else 1
        return ["srun", "--nodelist", f"n[0-{nodes - 1}]", *flags]

    def read_until(self, process, text, count=1):
        """Lines of a process until `text` has come so often."""
        lines = []
        for line in process.stdout:
            lines.append(line)
            count -= text in line
            if count == 0:
                return lines
        raise AssertionError(f"{text!r} did not come:\n{''.join(lines)}")

    def agents(self):
        """The distrun launch of each node, by node: the processes that Slurm started."""
        found = {}
        for pid, name in processes_with(self.word).items():
            if name not in ("distrun", "second-guard"):
                continue
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
            except OSError:
                continue  # It has ended.
            node = next((line.partition("=")[2] for line in variables if line.startswith("SLURM_NODEID=")), None)
            if node is not None:  # Else it is a zombie.
                found.setdefault(int(node), []).append(pid)
        return {node: sorted(its) for node, its in found.items()}

    def assert_one_summary(self, output, summary):
        self.assertEqual(len(re.findall(summary, output)), 1, output)

    def test_one_task_per_node_is_its_agent(self):
        done = self.cluster.run(*self.srun("--nodes", 4, "--ntasks-per-node", 1),
                                *self.launch("--nproc-per-node", "2", program=PLACE))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"{rank}/8 {rank % 2}/2 {rank // 2}/4 n0" for rank in range(8)])
        self.assertEqual(done.stderr, "")

    def test_several_tasks_on_a_node_are_ranks(self):
        done = self.cluster.run(*self.srun("--nodes", 2, "--ntasks", 3), *self.launch(program=PLACE))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0/3 0/2 0/2 n0", "1/3 1/2 0/2 n0", "2/3 0/1 1/2 n0"])

    def test_a_check_names_the_problems_of_each_node_once(self):
        for flags in (("--nodes", 2, "--ntasks-per-node", 1), ("--nodes", 2, "--ntasks", 3)):
            done = self.cluster.run(*self.srun(*flags), DISTRUN, "check", variables={"NCCL_SOCKET_IFNAME": "=none"})
            self.assertEqual(done.returncode, 1, done.stderr)
            for node in range(2):
                self.assert_one_summary(done.stderr, rf"(?m)^distrun check: node {node} \(n{node}\): no interface .* fits NCCL_SOCKET_IFNAME==none")
            self.assertNotIn("rank", done.stderr)
            self.assertNotIn("OMP_NUM_THREADS", done.stderr, "distrun's own value")

    def test_tests_run_on_all_nodes(self):
        done = self.cluster.run(*self.srun("--nodes", 2, "--ntasks-per-node", 1), DISTRUN, "test", "--show-output", "--nproc", "4",
                                "--", "sh", "-c", PLACE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(sorted(re.findall(r"\d/4 .*", done.stdout)), [f"{rank}/4 {rank % 2}/2 {rank // 2}/2 n0" for rank in range(4)])
        self.assert_one_summary(done.stdout, "(?m)^1 passed, 0 failed, 0 skipped$")

    def test_tests_that_fail_on_another_node_are_told_once(self):
        done = self.cluster.run(*self.srun("--nodes", 2, "--ntasks-per-node", 1), DISTRUN, "test", "--nproc", "2",
                                "--", "sh", "-c", 'exit "$RANK"')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_one_summary(done.stdout, "(?m)^0 passed, 1 failed, 0 skipped$")
        self.assert_one_summary(done.stdout, "(?m)^FAIL .*: rank 1 failed: exit code 1$")

    def test_tests_want_one_task_on_each_node(self):
        done = self.cluster.run(*self.srun("--nodes", 2, "--ntasks", 3), DISTRUN, "test", "--", "true")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assert_one_summary(done.stderr, "--ntasks-per-node=1")

    def test_a_task_alone_runs_on_its_node(self):
        done = self.cluster.run(*self.srun("--ntasks", 1), *self.launch("--nproc-per-node", "2", program=PLACE))
        self.assertEqual(sorted(done.stdout.splitlines()), ["0/2 0/2 0/1 127.0.0.1", "1/2 1/2 0/1 127.0.0.1"], done.stderr)

    def train_digits(self, *program):
        """Trains on 4 nodes with 2 ranks each.  Expects falling loss, and a good model that is the same on all ranks."""
        done = self.cluster.run(*self.srun("--nodes", 4, "--ntasks-per-node", 1), DISTRUN, "launch", "--nproc-per-node", "2",
                                *program, EXAMPLES / "data" / "digits.csv", variables={"PYTHON_EXEC": PYTHON})
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(loss) for loss in re.findall(r"(?m)^epoch .* (\S+)$", done.stdout)]
        self.assertEqual(len(losses), 10, done.stdout)
        self.assertLess(losses[-1], losses[0] / 2)
        accuracy = dict(re.findall(r"(?m)^rank (\d) test_accuracy (\S+)$", done.stdout))
        self.assertEqual(sorted(accuracy), [str(rank) for rank in range(8)], done.stdout)
        self.assertEqual(len(set(accuracy.values())), 1, accuracy)
        self.assertGreater(float(accuracy["0"]), 0.85)

    def test_digits_are_trained_in_cpp(self):
        if not TRAIN_DIGITS:
            self.skipTest("no example train_digits: build with LibTorch, and give --train-digits")
        self.train_digits(TRAIN_DIGITS)

    def test_digits_are_trained_in_python(self):
        if not PYTHON:
            self.skipTest("no Python with torch: configure with DISTRUN_TORCH_PYTHON, and give --python")
        if not ALL:
            self.skipTest("takes half a minute; --all runs it")
        self.train_digits(EXAMPLES / "train_digits.py")

    def test_a_wheel_on_every_node(self):
        if not WHEEL:
            self.skipTest("no wheel: make wheel, and give --wheel")
        wheel = pathlib.Path(WHEEL).resolve()
        tell = "import distrun, os; print(os.environ['RANK'], distrun.__file__)"
        with tempfile.TemporaryDirectory() as folder:
            install = (f'python3 -m venv {folder}/$SLURM_NODEID && '
                       f'{folder}/$SLURM_NODEID/bin/pip install -q --no-index --disable-pip-version-check {wheel}')
            run = f'PATH={folder}/$SLURM_NODEID/bin:$PATH exec distrun launch --nproc-per-node 2 python3 -c "$0"'
            step = self.srun("--nodes", 2, "--ntasks-per-node", 1)
            done = self.cluster.run(*step, "sh", "-c", install)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.cluster.run(*step, "sh", "-c", run, tell)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            found = dict(line.split() for line in done.stdout.splitlines())
            self.assertEqual(sorted(found), ["0", "1", "2", "3"])
            for rank, path in found.items():
                self.assertTrue(path.startswith(f"{folder}/{int(rank) // 2}/"), found)

    def test_a_failing_rank_is_told_once_and_gives_the_exit_status(self):
        done = self.cluster.run(*self.srun("--nodes", 4, "--ntasks-per-node", 1), *self.launch(
            "--nproc-per-node", "2", program='[ "$RANK" != 5 ] || { echo oops >&2; exit 7; }; sleep 600'))
        self.assertEqual(done.returncode, 7)
        self.assert_one_summary(done.stderr, r"distrun: node 2 \(n2\): rank 5 failed: exit code 7\n")
        self.assert_one_summary(done.stderr, r"  last lines:\n    oops\n")

    def test_a_failing_rank_of_ranks_is_told_once(self):
        done = self.cluster.run(*self.srun("--nodes", 2, "--ntasks", 4), *self.launch(
            program='[ "$RANK" != 3 ] || kill -KILL $$; sleep 600'))
        self.assertEqual(done.returncode, 137)
        self.assert_one_summary(done.stderr, r"distrun: n1: rank 3 failed: signal SIGKILL \(9\)\n")

    def test_contradictions_are_told_once_and_at_once(self):
        for flags, tasks, said in [
                (["--nproc-per-node", "8"], ["--nodes", 2, "--ntasks", 8], "--nproc-per-node 8, but Slurm started 8 tasks on 2 nodes"),
                (["--nnodes", "3"], ["--nodes", 2, "--ntasks-per-node", 1], "--nnodes 3, but Slurm started 2 tasks on 2 nodes"),
                (["--rdzv-endpoint", "localhost:29500"], ["--nodes", 2, "--ntasks", 4],
                 "--rdzv-endpoint localhost:29500 is a loopback address, but Slurm started 4 tasks on 2 nodes")]:
            done = self.cluster.run(*self.srun(*tasks), *self.launch(*flags, program="echo started"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assert_one_summary(done.stderr, re.escape(said))
            self.assertEqual(done.stdout, "")

    def test_heterogeneous_jobs_are_refused(self):
        done = self.cluster.run("srun", "--ntasks", 1, *self.launch(program=PLACE), ":", "--ntasks", 1,
                                *self.launch(program=PLACE))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("heterogeneous jobs are not supported", done.stderr)

    def test_env_explains_the_place(self):
        done = self.cluster.run(*self.srun("--nodes", 2, "--ntasks-per-node", 1), "--label", DISTRUN, "env", "--explain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^1: engine  Slurm \(job \d+, step 0\)$")
        self.assertRegex(done.stdout, r"(?m)^1: place   one task per node: node 1 of 2$")
        self.assertRegex(done.stdout, r"(?m)^1: --node-rank 1 +SLURM_PROCID$")
        self.assertRegex(done.stdout, r"(?m)^0: --master-addr n0 +SLURM_STEP_NODELIST$")

    def run_batch(self, script, *flags):
        """Submits a script whose output goes to a file; returns the job's id and the file."""
        with tempfile.NamedTemporaryFile(prefix="slurm-output-", delete=False) as output:
            pass
        self.addCleanup(os.unlink, output.name)
        with tempfile.NamedTemporaryFile("w", prefix="slurm-script-") as file:
            file.write("#!/bin/sh\n" + script)
            file.flush()
            done = self.cluster.run("sbatch", "--parsable", "--output", output.name, "--open-mode", "append", *flags, file.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip(), pathlib.Path(output.name)

    def train(self, *flags):
        """The line of a batch script that trains on two nodes."""
        with tempfile.NamedTemporaryFile("w", prefix=self.word, suffix=".sh", delete=False) as program:
            program.write(TRAINER)
        self.addCleanup(os.unlink, program.name)
        return f"exec srun {DISTRUN} launch --nproc-per-node 2 {' '.join(flags)} sh {program.name}\n"

    def test_scancel_lets_the_ranks_write_checkpoints(self):
        job, output = self.run_batch(self.train(), "--nodes", "2", "--ntasks-per-node", "1")
        self.wait_for("all ranks", lambda: output.read_text().count("is up") == 4)
        self.assertEqual(self.cluster.run("scancel", job).returncode, 0)
        self.cluster.wait_until_idle()
        text = output.read_text()
        self.assertEqual(sorted(re.findall(r"rank \d wrote a checkpoint", text)),
                         [f"rank {rank} wrote a checkpoint" for rank in range(4)])
        self.assert_one_summary(text, r"distrun: node \d \(n\d\): ended by signal SIGTERM")

    def test_the_signal_of_sbatch_reaches_the_ranks(self):
        job, output = self.run_batch(self.train("--forward-signals", "USR1"), "--nodes", "2", "--ntasks-per-node", "1")
        self.wait_for("all ranks", lambda: output.read_text().count("is up") == 4)
        self.assertEqual(self.cluster.run("scancel", "--signal", "USR1", job).returncode, 0)
        self.wait_for("the signal", lambda: output.read_text().count("got USR1") == 4)
        self.cluster.run("scancel", job)

    def test_a_requeued_job_starts_again(self):
        if not ALL:
            self.skipTest("takes two minutes; --all runs it")
        script = 'echo "restarts: ${SLURM_RESTART_COUNT:-0}"\n' + self.train()
        job, output = self.run_batch(script, "--requeue", "--nodes", "2", "--ntasks-per-node", "1")
        self.wait_for("all ranks", lambda: output.read_text().count("is up") == 4)
        self.assertEqual(self.cluster.run("scontrol", "requeue", job).returncode, 0)
        # Slurm waits two minutes before it runs a requeued job again.
        deadline = time.monotonic() + 200
        while output.read_text().count("is up") < 8 and time.monotonic() < deadline:
            time.sleep(0.5)
        self.assertIn("restarts: 1", output.read_text())
        self.assertEqual(output.read_text().count("is up"), 8, output.read_text())
        self.cluster.run("scancel", job)

    def start_sleepers(self, *flags, errors="/dev/null"):
        """A step whose tasks write stderr to files: when a task is killed, Slurm may drop what srun has not read."""
        step = self.cluster.start(*self.srun("--nodes", 4, "--ntasks-per-node", 1), "--error", errors, *self.launch(
            "--shutdown-timeout", "2", *flags, program="echo rank $RANK is up; sleep 600"))
        self.addCleanup(step.stdout.close)
        self.read_until(step, "is up", count=4)
        return step

    def end_of(self, step, folder):
        """The exit status, and what all tasks wrote to stderr."""
        step.communicate(timeout=LIMIT_S)
        return step.returncode, "".join(file.read_text() for file in sorted(pathlib.Path(folder).iterdir()))

    def signal_all(self, pids, number):
        for pid in reversed(pids):  # Children first: orphans that are stopped would go on.
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, number)

    def test_a_killed_agent_is_the_culprit(self):
        for node in (0, 2):
            with tempfile.TemporaryDirectory() as folder:
                step = self.start_sleepers(errors=f"{folder}/%t")
                agent = self.agents()[node]
                self.signal_all(agent, signal.SIGSTOP)  # Its processes die together, as with their machine.
                self.signal_all(agent, signal.SIGKILL)
                status, text = self.end_of(step, folder)
            self.assertIn(status, (125, 137), text)
            self.assert_one_summary(text, rf"distrun: node {node} \(n{node}\): lost: ")

    def test_a_frozen_node_is_the_culprit(self):
        for node in (0, 1, 2):
            with tempfile.TemporaryDirectory() as folder:
                step = self.start_sleepers("--heartbeat", "0.5", errors=f"{folder}/%t")
                self.frozen = self.agents()[node]
                self.signal_all(self.frozen, signal.SIGSTOP)
                self.wait_for("the end of the other nodes", lambda: set(self.agents()) == {node})
                self.signal_all(self.frozen, signal.SIGCONT)
                status, text = self.end_of(step, folder)
            self.assertEqual(status, 125, text)
            self.assert_one_summary(text, "lost: ")
            self.assertIn(f"distrun: node {node} (n{node}): lost: it has been silent for 1.5 s\n", text)


def main():
    global DISTRUN, TRAIN_DIGITS, PYTHON, WHEEL, ALL
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--train-digits", default="")
    parser.add_argument("--python", default="")
    parser.add_argument("--wheel", default="")
    parser.add_argument("distrun")
    given, tests = parser.parse_known_args()
    ALL, TRAIN_DIGITS, PYTHON, WHEEL = given.all, given.train_digits, given.python, given.wheel
    DISTRUN = str(pathlib.Path(given.distrun).resolve())
    missing = slurm_cluster.missing_programs()
    if os.geteuid() != 0 or missing:
        print("skipped: " + (f"not installed: {', '.join(missing)}; run cmake/setup.sh packages engines" if missing else "not root"))
        sys.exit(SKIPPED)
    slurm_cluster.enter_namespace(NODES)
    with SlurmCluster(NODES) as SlurmTest.cluster:
        program = unittest.main(argv=[sys.argv[0], *tests], exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
