#!/usr/bin/env python3
"""Runs `distrun launch --hosts` over real ssh, between network namespaces of this machine.

    testsuites/engines/ssh_test.py [--all] DISTRUN [SshTest.test_…]

Without --all, it leaves out what takes long.  Without root, sshd or ip, it prints so and exits with 77.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import ssh_hosts

HOSTS = ["a", "b"]
LEFT_LIMIT_S = 40  # The agent notices after 20 s that a connection is silent, and workers have 2 s then.


class SshTest(unittest.TestCase):
    distrun = ""
    all = False

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.hosts = cls.stack.enter_context(ssh_hosts.SshHosts(HOSTS))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def command(self, *words, hosts="a:2,b:2"):
        return [self.distrun, "launch", "--shutdown-timeout", "2", "--ssh", self.hosts.ssh, "--hosts", hosts, *words]

    def run_on_hosts(self, *words, hosts="a:2,b:2"):
        return self.hosts.run(self.command(*words, hosts=hosts))

    @contextlib.contextmanager
    def started(self, *words):
        """A run whose workers have all printed a line.  Later they print theirs every 0.1 s."""
        script = 'echo "started $RANK"; ' + " ".join(words)
        with self.hosts.start_on_desk(self.command("sh", "-c", script)) as run:
            try:
                lines = sorted(run.stdout.readline() for _ in range(4))
                self.assertEqual(lines, [f"started {rank}\n" for rank in range(4)])
                yield run
            finally:
                run.kill()

    def assert_nothing_left(self):
        self.hosts.wait_until_empty(LEFT_LIMIT_S)

    def needs_all(self):
        if not self.all:
            self.skipTest("takes half a minute; --all runs it")

    def test_workers_run_on_all_hosts(self):
        done = self.run_on_hosts("sh", "-c", 'echo "$RANK/$WORLD_SIZE $GROUP_RANK $(hostname) $MASTER_ADDR $GLOO_SOCKET_IFNAME"')
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["0/4 0 a a eth0", "1/4 0 a a eth0", "2/4 1 b a eth0", "3/4 1 b a eth0"])
        self.assert_nothing_left()

    def test_a_check_names_the_problems_of_all_hosts(self):
        command = [self.distrun, "check", "--ssh", self.hosts.ssh, "--hosts", "a:2,b"]
        done = self.hosts.run(["env", "NCCL_SOCKET_IFNAME==none", *command])
        self.assertEqual(done.returncode, 1, done.stderr)
        for node, host in enumerate(HOSTS):
            problem = rf"(?m)^distrun check: node {node} \({host}\): no interface .* fits NCCL_SOCKET_IFNAME==none: choose from eth0, lo$"
            self.assertEqual(len(re.findall(problem, done.stderr)), 1, done.stderr)
        self.assertNotIn("failed", done.stderr)
        self.assert_nothing_left()

    def test_distrun_is_copied_once(self):
        copies = []
        for _ in range(2):
            self.assertEqual(self.run_on_hosts("true").returncode, 0)
            files = list((self.hosts.folder / "cache-b/distrun/bin").iterdir())
            self.assertEqual(len(files), 1, files)
            copies.append(files[0].stat().st_mtime_ns)
        self.assertEqual(copies[0], copies[1])

    def test_a_failing_rank_is_told_once_and_gives_the_exit_status(self):
        done = self.run_on_hosts("sh", "-c", '[ "$RANK" != 3 ] || exit 7; exec sleep 600')
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(len(re.findall(r"distrun: node 1 \(b\): rank 3 failed: exit code 7\n", done.stderr)), 1, done.stderr)
        self.assert_nothing_left()

    def test_much_output_arrives_whole(self):
        done = self.run_on_hosts("sh", "-c", 'seq -f "$RANK %.0f" 20000')
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(4):
            numbers = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(f"{rank} ")]
            self.assertEqual(numbers, [str(number) for number in range(1, 20001)])

    def test_a_signal_lets_workers_write_checkpoints(self):
        with self.started('trap "echo checkpoint $RANK; exit 0" INT; sleep 600 & wait') as run:
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=ssh_hosts.RUN_LIMIT_S)
        self.assertEqual(run.returncode, 130, err)
        self.assertEqual(sorted(out.splitlines()), [f"checkpoint {rank}" for rank in range(4)])
        self.assert_nothing_left()

    def test_a_killed_distrun_leaves_nothing(self):
        with self.started("exec sleep 600") as run:
            run.kill()
        self.assert_nothing_left()

    def test_a_killed_agent_ends_the_run(self):
        with self.started("exec sleep 600") as run:
            agents = [line for line in self.hosts.left_on("b") if "host-agent" in line]
            self.assertEqual(len(agents), 1, agents)
            os.kill(int(agents[0].split(":")[0]), signal.SIGKILL)
            _, err = run.communicate(timeout=ssh_hosts.RUN_LIMIT_S)
        self.assertNotEqual(run.returncode, 0, err)
        self.assert_nothing_left()

    def test_a_lost_desk_leaves_nothing(self):
        self.needs_all()
        with self.started("exec sleep 600") as run:
            self.hosts.cut("desk")
            try:
                _, err = run.communicate(timeout=ssh_hosts.RUN_LIMIT_S)
                self.assertEqual(run.returncode, 255, err)
                self.assert_nothing_left()
            finally:
                self.hosts.mend("desk")

    def test_a_quiet_run_goes_on(self):
        self.needs_all()
        done = self.run_on_hosts("sh", "-c", "sleep 25; echo done")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n" * 4), done.stderr)

    def test_a_lost_host_ends_the_run(self):
        self.needs_all()
        with self.started("exec sleep 600") as run:
            self.hosts.cut("b")
            try:
                _, err = run.communicate(timeout=ssh_hosts.RUN_LIMIT_S)
                self.assertEqual(run.returncode, 125, err)
                self.assertIn("distrun: the connection to b is lost\n", err)
                self.assertRegex(err, r"node 1 \(b\)")
                self.assert_nothing_left()
            finally:
                self.hosts.mend("b")

    def test_a_host_without_server_starts_nothing(self):
        ran = self.hosts.folder / "ran"
        done = self.run_on_hosts("touch", ran, hosts="a:2,desk:2")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("Connection refused", done.stderr)
        self.assertIn("distrun launch: desk: ssh ended with exit code 255 before distrun was ready there", done.stderr)
        self.assertFalse(ran.exists())
        self.assert_nothing_left()

    def test_all_hosts_have_a_distrun_of_the_same_run_on_one_host(self):
        done = self.run_on_hosts("sh", "-c", 'echo "$RANK $GROUP_RANK $(hostname)"', hosts="a:1,a:1")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, ["0 0 a", "1 1 a"]), done.stderr)


def main():
    # A job in the background ignores SIGINT, and so would distrun.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        SshTest.all = True
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    SshTest.distrun = str(pathlib.Path(sys.argv.pop(1)).resolve())
    missing = ssh_hosts.missing_programs()
    if os.geteuid() != 0 or missing:
        print(f"skipped: needs root and {' '.join(missing)}" if missing else "skipped: needs root")
        sys.exit(ssh_hosts.SKIPPED)
    ssh_hosts.enter_namespace(HOSTS)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
