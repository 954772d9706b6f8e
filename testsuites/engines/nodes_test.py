#!/usr/bin/env python3
"""Runs `distrun test` on two nodes: network namespaces of this machine, with ssh servers.

    testsuites/engines/nodes_test.py [--all] DISTRUN [NodesTest.test_…]

Without --all, it leaves out what takes long.  Without root, sshd or ip, it prints so and exits with 77.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import ssh_hosts

NODES = ["a", "b"]
PORT = "29580"
LIMIT_S = 120
LEFT_LIMIT_S = 40
# A rank says that it runs.  The shell forwards nothing, so that the end of its sleep is distrun's work.
RANK = 'echo >"$UP/$RANK"; exec sleep 600'


class NodesTest(unittest.TestCase):
    distrun = ""
    all = False

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.hosts = cls.stack.enter_context(ssh_hosts.SshHosts(NODES))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def setUp(self):
        self.folder = self.hosts.folder / self.id().rpartition(".")[2]
        self.up = self.folder / "up"
        self.up.mkdir(parents=True)
        for node in NODES:
            (self.folder / node / "tmp").mkdir(parents=True)

    def start(self, number, *words):
        """distrun test on one node.  It is its own process group."""
        node = NODES[number]
        environment = dict(os.environ, TMPDIR=str(self.folder / node / "tmp"), XDG_CACHE_HOME=str(self.folder / node), UP=str(self.up))
        name = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', node]
        command = [*name, self.distrun, "test", "--nnodes", "2", "--node-rank", str(number), "--master-addr", "a",
                   "--master-port", PORT, *map(str, words)]
        return subprocess.Popen(self.hosts.inside(node, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment, cwd=self.folder, start_new_session=True)

    @contextlib.contextmanager
    def started(self, *words):
        nodes = [self.start(number, *words) for number in range(2)]
        try:
            yield nodes
        finally:
            for node in nodes:
                node.kill()
                node.communicate()

    @contextlib.contextmanager
    def running(self, *words, ranks=4):
        """Ranks of a program that all run, on both nodes."""
        with self.started("--nproc", str(ranks), *words, "--", "sh", "-c", RANK) as nodes:
            self.wait_until("all ranks run", lambda: len(list(self.up.iterdir())) == ranks)
            yield nodes

    def ends(self, nodes):
        """For each node: its exit status, stdout and stderr."""
        ends = []
        for node in nodes:
            out, err = node.communicate(timeout=LIMIT_S)
            ends.append((node.returncode, out, err))
        return ends

    def run_on_nodes(self, *words):
        with self.started(*words) as nodes:
            return self.ends(nodes)

    def wait_until(self, what, holds):
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"not in time: {what}")
            time.sleep(0.02)

    def assert_nothing_left(self):
        self.hosts.wait_until_empty(LEFT_LIMIT_S)
        for node in NODES:
            self.assertEqual(list((self.folder / node / "tmp").iterdir()), [])

    def pids_of(self, node, name):
        pids = []
        for pid in self.hosts.pids_in(self.hosts.namespace(node)):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    pids.append(pid)
        return pids

    def test_a_suite_passes(self):
        names = ["gloo"] if self.all else ["gloo.CommTest", "gloo.ReducerTest", "gloo.TimeoutTest"]
        (status, out, err), other = self.run_on_nodes("--json", "results.json", *names)
        self.assertEqual((status, err), (0, ""), out)
        self.assertEqual(other, (0, "", ""))
        self.assertIn(" 0 failed", out)
        tests = json.loads((self.folder / "results.json").read_text())["tests"]
        several = [test for test in tests if test["status"] == "passed" and len(test["ranks"]) > 1]
        self.assertGreater(len(several), 60 if self.all else 5)
        self.assertEqual({rank["host"] for test in several for rank in test["ranks"]}, {"a", "b"})
        self.assert_nothing_left()

    def test_shm_works_between_hosts(self):
        names = ["gloo", "join"] if self.all else ["gloo.CommTest"]
        (status, out, err), other = self.run_on_nodes("--backend", "shm", *names)
        self.assertEqual((status, err), (0, ""), out)
        self.assertEqual(other, (0, "", ""))
        self.assertIn(" 0 failed", out)

    def test_ranks_are_divided_and_know_their_place(self):
        tell = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $GLOO_SOCKET_IFNAME"'
        (status, out, err), other = self.run_on_nodes("--show-output", "--nproc", "3", "--", "sh", "-c", tell)
        self.assertEqual((status, err), (0, ""), out)
        self.assertEqual(other, (0, "", ""))
        for line in ("0/3 0/2 0/2 a eth0", "1/3 1/2 0/2 a eth0", "2/3 0/1 1/2 a eth0"):
            self.assertEqual(out.count(line), 1, out)

    def test_the_failure_of_a_rank_on_the_other_node_is_reported_once(self):
        fail = '[ "$RANK" != 3 ] || { echo "no luck"; exit 7; }; exec sleep 600'
        (status, out, err), other = self.run_on_nodes("--nproc", "4", "--", "sh", "-c", fail)
        self.assertEqual((status, err), (1, ""), out)
        self.assertEqual(other, (1, "", ""))
        self.assertIn("rank 3 failed: exit code 7", out)
        self.assertIn("no luck", out)
        self.assertIn("ran on node 0 (a): ranks 0, 1\n  ran on node 1 (b): ranks 2, 3\n", out)
        self.assertIn("0 passed, 1 failed", out)
        self.assert_nothing_left()

    def test_a_hang_shows_where_the_ranks_of_both_nodes_are(self):
        (status, out, err), other = self.run_on_nodes("--nproc", "2", "--timeout", "2", "--", "sleep", "600")
        self.assertEqual((status, err), (1, ""), out)
        self.assertEqual(other, (1, "", ""))
        self.assertIn("ranks 0, 1 hung", out)
        self.assertIn("where the ranks were:\n    nanosleep", out)
        self.assert_nothing_left()

    def test_processes_that_a_rank_of_the_other_node_leaves_fail_the_test(self):
        leave = '[ "$RANK" = 0 ] || { sleep 600 >/dev/null 2>&1 & }'
        (status, out, err), other = self.run_on_nodes("--nproc", "2", "--", "sh", "-c", leave)
        self.assertEqual((status, err), (1, ""), out)
        self.assertEqual(other, (1, "", ""))
        self.assertRegex(out, r"rank 1 failed: leaked processes: \d+ \(sleep\)")
        self.assert_nothing_left()

    def test_result_files_are_those_of_node_0(self):
        files = ["--json", "j", "--junit", "x", "--html", "h", "--trace", "t", "--record", "r"]
        (status, out, _), other = self.run_on_nodes(*files, "--nproc", "2", "--", "true")
        self.assertEqual(status, 0, out)
        self.assertEqual(other, (0, "", ""))
        results = json.loads((self.folder / "j").read_text())
        self.assertEqual([rank["rank"] for rank in results["tests"][0]["ranks"]], [0, 1])
        for name in "xhtr":
            self.assertGreater((self.folder / name).stat().st_size, 0)
        self.assertFalse((self.folder / "b" / "distrun").exists(), "node 1 has a history")

    def test_other_tests_on_a_node_are_an_error(self):
        build = pathlib.Path(self.distrun).parent
        nodes = [self.start(0, "--binary", build / "distrun-suites"), self.start(1, "--binary", build / "tests/distrun_selftest")]
        (status, _, err), other = self.ends(nodes)
        self.assertEqual(status, 2, err)
        self.assertRegex(err, r"node 1 does not have the test \S+; use the same build of the tests on all nodes")
        self.assertEqual(other, (2, "", ""))
        self.assert_nothing_left()

    def test_a_launch_is_not_a_node_of_tests(self):
        node = self.start(0, "--", "true")
        launch = [self.distrun, "launch", "--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "--master-port", PORT, "true"]
        done = subprocess.run(self.hosts.inside("b", launch), capture_output=True, text=True, check=False, timeout=LIMIT_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("it runs distrun launch, node 0 runs distrun test", done.stderr)
        node.send_signal(signal.SIGINT)
        (status, _, err), = self.ends([node])
        self.assertEqual(status, 130, err)

    def test_ctrl_c_on_node_0_ends_all_ranks(self):
        with self.running() as nodes:
            nodes[0].send_signal(signal.SIGINT)
            (status, out, err), other = self.ends(nodes)
        self.assertEqual(status, 130, err)
        self.assertEqual(other, (130, "", ""))
        self.assertRegex(out, "interrupted")
        self.assert_nothing_left()

    def test_a_signal_to_the_other_node_ends_all_ranks(self):
        with self.running() as nodes:
            nodes[1].send_signal(signal.SIGTERM)
            (status, out, err), other = self.ends(nodes)
        self.assertEqual(status, 143, err)
        self.assertEqual(other, (143, "", ""))
        self.assertRegex(out, "interrupted")
        self.assert_nothing_left()

    def test_a_signal_to_both_nodes_ends_the_tests_once(self):
        with self.running("--json", "results.json") as nodes:
            for node in nodes:
                node.send_signal(signal.SIGTERM)
            (status, out, err), other = self.ends(nodes)
        self.assertEqual((status, err), (143, ""), out)
        self.assertEqual(other, (143, "", ""))
        self.assertRegex(out, "interrupted")
        self.assertEqual(len(json.loads((self.folder / "results.json").read_text())["tests"]), 1)
        self.assert_nothing_left()

    def test_ctrl_c_reaches_the_hosts_and_gives_one_report(self):
        command = [self.distrun, "test", "--ssh", self.hosts.ssh, "--hosts", "a,b", "--pass-env", "UP", "--nproc", "4", "--", "sh", "-c", RANK]
        with self.hosts.start_on_desk(command, env=dict(os.environ, UP=str(self.up))) as run:
            self.wait_until("all ranks run", lambda: len(list(self.up.iterdir())) == 4)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=LIMIT_S)
        self.assertEqual((run.returncode, err), (130, ""), out)
        self.assertEqual(out.count("0 passed, 1 failed"), 1, out)
        self.assert_nothing_left()

    def test_another_command_on_a_node_is_refused(self):
        nodes = [self.start(0, "--", "true", "0"), self.start(1, "--", "true", "1")]
        (other_status, _, other_err), = self.ends(nodes[1:])
        self.assertEqual(other_status, 125, other_err)
        self.assertIn("it runs distrun test -- true 1, node 0 runs distrun test -- true 0: run the same command on every node", other_err)
        nodes[0].send_signal(signal.SIGINT)
        (status, _, err), = self.ends(nodes[:1])
        self.assertEqual(status, 130, err)

    def test_a_killed_rank_is_the_culprit(self):
        with self.running() as nodes:
            self.kill_ranks("b", 1)
            (status, out, err), other = self.ends(nodes)
        self.assertEqual((status, err), (1, ""), out)
        self.assertEqual(other, (1, "", ""))
        self.assertRegex(out, r"rank [23] (failed|crashed): signal SIGKILL")
        self.assert_nothing_left()

    def kill_ranks(self, node, count):
        for pid in self.pids_of(node, "sleep")[:count]:
            os.kill(pid, signal.SIGKILL)

    def test_a_killed_node_ends_the_tests(self):
        with self.running() as nodes:
            for pid in self.pids_of("b", "distrun"):
                os.kill(pid, signal.SIGKILL)
            (status, out, err), _ = self.ends(nodes)
        self.assertEqual(status, 125, err)
        self.assertRegex(err, r"distrun test: node 1 \(b\): lost: .*; no more tests start")
        self.assertRegex(out, r"rank 2 crashed: node 1 \(b\): lost: ")
        self.assert_nothing_left()

    def test_a_killed_node_0_ends_the_ranks_of_the_other(self):
        with self.running() as nodes:
            for pid in self.pids_of("a", "distrun"):
                os.kill(pid, signal.SIGKILL)
            _, (status, out, err) = self.ends(nodes)
        self.assertEqual((status, out), (125, ""))
        self.assertRegex(err, r"^distrun test: node 0 \(a\): lost: .*; the tests ended\n$")
        self.assert_nothing_left()

    def test_a_cut_connection_ends_both_nodes(self):
        with self.running("--heartbeat", "2") as nodes:
            self.hosts.cut("b")
            try:
                (status, _, err), (other_status, _, other_err) = self.ends(nodes)
            finally:
                self.hosts.mend("b")
        self.assertEqual((status, other_status), (125, 125), err + other_err)
        self.assertIn("it has been silent for 6 s", err)
        self.assertIn("it has been silent for 6 s", other_err)
        self.assert_nothing_left()

    def test_a_frozen_node_ends_the_tests(self):
        with self.running("--heartbeat", "2") as nodes:
            frozen = self.pids_of("b", "distrun")
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            (status, _, err), = self.ends(nodes[:1])
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
            (other_status, _, other_err), = self.ends(nodes[1:])
        self.assertEqual((status, other_status), (125, 125), err)
        self.assertIn("it has been silent for 6 s", err)
        self.assertRegex(other_err, r"node 1 \(b\): lost: it did nothing for .*; the tests ended\n$")
        self.assert_nothing_left()

    def test_hosts_run_the_tests_over_ssh(self):
        command = [self.distrun, "test", "--ssh", self.hosts.ssh, "--hosts", "a,b", "--show-output", "--nproc", "2", "--",
                   "sh", "-c", 'echo "$RANK on $(hostname)"']
        done = self.hosts.run(command)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("0 on a", done.stdout)
        self.assertIn("1 on b", done.stdout)
        self.assertIn("1 passed, 0 failed", done.stdout)
        self.assert_nothing_left()

    def test_hosts_pass_the_status_of_failed_tests(self):
        command = [self.distrun, "test", "--ssh", self.hosts.ssh, "--hosts", "a,b", "--nproc", "2", "--", "sh", "-c", 'exit "$RANK"']
        done = self.hosts.run(command)
        self.assertEqual((done.returncode, done.stderr), (1, ""), done.stdout)
        self.assertEqual(done.stdout.count("0 passed, 1 failed"), 1, done.stdout)
        self.assert_nothing_left()


def main():
    # A job in the background ignores SIGINT, and so would distrun.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = sys.argv[1:]
    NodesTest.all = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    if not arguments:
        sys.exit(__doc__)
    NodesTest.distrun = str(pathlib.Path(arguments[0]).resolve())
    missing = ssh_hosts.missing_programs()
    if os.geteuid() != 0 or missing:
        print(f"skipped: needs root and {', '.join(missing) or 'nothing else'}; install it with make engines")
        sys.exit(ssh_hosts.SKIPPED)
    ssh_hosts.enter_namespace(NODES)
    unittest.main(argv=[sys.argv[0], *arguments[1:]], verbosity=2)


if __name__ == "__main__":
    main()
