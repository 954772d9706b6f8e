#!/usr/bin/env python3
"""Runs `distrun check` on nodes that are broken in one way, and expects exactly that finding.

    testsuites/engines/check_test.py DISTRUN [CheckTest.test_…]

The nodes a, b and c are network namespaces of this machine, and each has its own mounts.  Without root or ip, it
prints so and exits with 77.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ssh_hosts

NODES = ["a", "b", "c"]
ADDRESS = {name: f"{ssh_hosts.NET}{number}" for number, name in enumerate([ssh_hosts.DESK, *NODES], 1)}
RUN_LIMIT_S = 60

# Makes a healthy node, whatever this machine is like.
HEALTHY = """
hostname "$1"; shift
mount -t tmpfs -o size=1g tmpfs /dev/shm
mount -t tmpfs -o size=1g tmpfs /mnt
export TMPDIR=/mnt OMP_NUM_THREADS=1 PYTHON_EXEC=/no/python
ulimit -n 4096
"""
# /dev in which a case can make files.
OWN_DEV = """
dev=$(mktemp -d); mount -t tmpfs tmpfs "$dev"
touch "$dev/null"; mount --bind /dev/null "$dev/null"
"""
OWN_SHM = 'mkdir "$dev/shm"; mount -t tmpfs -o size=1g tmpfs "$dev/shm"\n'
USE_DEV = 'mount --rbind "$dev" /dev\n'

ON_ALL = ": set the same value on all nodes"
PYTORCH_REMEDY = ": install the same version on all nodes, or give the Python that has it (PYTHON_EXEC)"
CONNECTION_REMEDY = (": allow connections on all ports between the nodes, or choose another network with GLOO_SOCKET_IFNAME and "
                     "NCCL_SOCKET_IFNAME")


class Nodes(ssh_hosts.SshHosts):
    """Without ssh."""

    def start(self):
        self.make_networks()


class CheckTest(unittest.TestCase):
    maxDiff = None
    distrun = ""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.nodes = cls.stack.enter_context(Nodes(NODES))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def start(self, name, setup, words):
        script = f'set -e\n{HEALTHY}{setup}\nexec "$0" check "$@"'
        command = ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-c", script, self.distrun, name, *words]
        return subprocess.Popen(self.nodes.inside(name, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def ends(self, runs):
        """The statuses and the texts."""
        with contextlib.ExitStack() as stack:
            for run in runs:
                stack.callback(run.wait)
                stack.callback(run.kill)
            outputs = [run.communicate(timeout=RUN_LIMIT_S) for run in runs]
        return [run.returncode for run in runs], [out + err for out, err in outputs]

    def check(self, **setups):
        """The lines of a check of all nodes, of which `setups` breaks some."""
        runs = [self.start(name, setups.get(name, ""), ["--nnodes", str(len(NODES)), "--node-rank", str(rank), "--master-addr", "a",
                                                        "--rdzv-conf", "timeout=30"])
                for rank, name in enumerate(NODES)]
        statuses, texts = self.ends(runs)
        self.assertEqual(texts[1:], ["", ""], texts)  # Only node 0 prints.
        self.assertEqual(statuses, [1 if texts[0] else 0] * len(NODES), texts)
        return texts[0].splitlines()

    def check_alone(self, setup):
        statuses, texts = self.ends([self.start("a", setup, [])])
        self.assertEqual(statuses, [1 if texts[0] else 0], texts)
        return texts[0].splitlines()

    def assert_found(self, lines, *findings):
        self.assertEqual(lines, [f"distrun check: {finding}" for finding in findings])

    def test_healthy_nodes_are_silent(self):
        self.assert_found(self.check())
        self.assert_found(self.check_alone("export GLOO_SOCKET_IFNAME=eth0"))

    def test_the_name_of_node_0_may_be_a_loopback_address_there(self):
        self.assert_found(self.check(a="echo '127.0.1.1 a' >/mnt/hosts; umount /etc/hosts; mount --bind /mnt/hosts /etc/hosts"))

    def test_small_shared_memory(self):
        self.assert_found(self.check(b="mount -t tmpfs -o size=64m tmpfs /dev/shm"),
                          "node 1 (b): /dev/shm has 64 MiB: data loaders of PyTorch and NCCL need more (docker run --shm-size=1g)")

    def test_full_shared_memory(self):
        self.assert_found(self.check(c="mount -t tmpfs -o size=260m tmpfs /dev/shm; fallocate -l 10m /dev/shm/left"),
                          "node 2 (c): /dev/shm has only 250 MiB free of 260 MiB: remove files that no program uses")

    def test_read_only_shared_memory(self):
        self.assert_found(self.check(a="mount -t tmpfs -o ro,size=1g tmpfs /dev/shm"),
                          "node 0 (a): /dev/shm is not writable: data loaders of PyTorch and NCCL write there (chmod 1777 /dev/shm)")

    def test_no_shared_memory(self):
        self.assert_found(self.check(b=OWN_DEV + USE_DEV),
                          "node 1 (b): /dev/shm does not exist: data loaders of PyTorch and NCCL need it; mount a tmpfs there")

    def test_no_folder_for_temporary_files(self):
        self.assert_found(self.check(b="export TMPDIR=/mnt/none"),
                          "node 1 (b): the folder for temporary files, /mnt/none (TMPDIR), does not exist: make it, or set TMPDIR to "
                          "another folder")

    def test_read_only_folder_for_temporary_files(self):
        self.assert_found(self.check(c="mount -t tmpfs -o ro,size=1g tmpfs /mnt"),
                          "node 2 (c): the folder for temporary files, /mnt (TMPDIR), is not writable: give this user access, or set "
                          "TMPDIR to another folder")

    def test_full_folder_for_temporary_files(self):
        self.assert_found(self.check(c="mount -t tmpfs -o size=20m tmpfs /mnt"),
                          "node 2 (c): the folder for temporary files, /mnt (TMPDIR), has only 20 MiB free: remove files, or set "
                          "TMPDIR to another folder")

    def test_low_limit_of_open_files(self):
        self.assert_found(self.check(c="ulimit -n 512"),
                          "node 2 (c): a process can open only 512 files: raise the limit (ulimit -n 16384)")

    def test_different_mtu(self):
        network = self.nodes.namespace("c")
        self.nodes.ip("-n", network, "link", "set", "eth0", "mtu", "1400")
        try:
            self.assert_found(self.check(), "the MTU of the network between the nodes differs: 1500 on nodes 0, 1, 1400 on node 2 (c): "
                                            "set the same MTU everywhere (ip link set eth0 mtu N)")
        finally:
            self.nodes.ip("-n", network, "link", "set", "eth0", "mtu", "1500")

    def test_route_that_drops_everything(self):
        network = self.nodes.namespace("b")
        self.nodes.ip("-n", network, "route", "add", "blackhole", f"{ADDRESS['c']}/32")
        try:
            self.assert_found(self.check(), "node 1 (b) and node 2 (c) cannot connect to each other (the route drops all packets)" +
                              CONNECTION_REMEDY)
        finally:
            self.nodes.ip("-n", network, "route", "del", "blackhole", f"{ADDRESS['c']}/32")

    def test_route_that_refuses(self):
        network = self.nodes.namespace("c")
        self.nodes.ip("-n", network, "route", "add", "unreachable", f"{ADDRESS['b']}/32")
        try:
            self.assert_found(self.check(), "node 1 (b) and node 2 (c) cannot connect to each other (no answer within 2 s)" +
                              CONNECTION_REMEDY)
        finally:
            self.nodes.ip("-n", network, "route", "del", "unreachable", f"{ADDRESS['b']}/32")

    def test_interface_of_gloo_that_is_down(self):
        self.assert_found(self.check(b="ip link add down0 type veth peer name down1; export GLOO_SOCKET_IFNAME=down0"),
                          "node 1 (b): the interface down0 of GLOO_SOCKET_IFNAME is down: choose from eth0, lo")

    def test_interface_of_nccl_that_does_not_exist(self):
        self.assert_found(self.check(c="export NCCL_SOCKET_IFNAME=ib"),
                          "node 2 (c): no interface that is up and has an IP address fits NCCL_SOCKET_IFNAME=ib: choose from eth0, lo")

    def test_own_name_that_does_not_resolve(self):
        self.assert_found(self.check_alone("hostname nowhere; : >/mnt/none; mount --bind /mnt/none /etc/resolv.conf"),
                          "the name of this machine, nowhere, does not resolve: Gloo looks it up; add it to /etc/hosts, or set "
                          "GLOO_SOCKET_IFNAME")

    def test_name_server_that_does_not_answer(self):
        # The switch has no such address.
        setup = f"hostname nowhere; echo 'nameserver {ssh_hosts.NET}99' >/mnt/names; mount --bind /mnt/names /etc/resolv.conf"
        self.assert_found(self.check_alone(setup),
                          "the name of this machine, nowhere, takes more than 1 s to resolve: Gloo looks it up; add it to /etc/hosts, or "
                          "set GLOO_SOCKET_IFNAME")

    def test_variable_that_differs(self):
        self.assert_found(self.check(b="export NCCL_IB_DISABLE=1"),
                          "NCCL_IB_DISABLE differs: not set on nodes 0, 2, 1 on node 1 (b)" + ON_ALL)

    def test_version_of_pytorch_that_differs(self):
        def python(version):
            return f"printf '#!/bin/sh\\necho {version}\\n' >/mnt/python; chmod +x /mnt/python; export PYTHON_EXEC=/mnt/python"

        self.assert_found(self.check(a=python("2.13.0"), b=python("2.13.0"), c=python("2.12.1")),
                          "the version of PyTorch differs: 2.13.0 on nodes 0, 1, 2.12.1 on node 2 (c)" + PYTORCH_REMEDY)
        self.assert_found(self.check(a=python("2.13.0")),
                          "the version of PyTorch differs: 2.13.0 on node 0 (a), none on nodes 1, 2" + PYTORCH_REMEDY)

    def test_missing_gpu(self):
        def gpus(count):
            return OWN_DEV + OWN_SHM + "".join(f'touch "$dev/nvidia{gpu}"\n' for gpu in range(count)) + USE_DEV

        self.assert_found(self.check(a=gpus(2), b=gpus(2), c=gpus(1)),
                          "the number of GPUs differs: 2 on nodes 0, 1, 1 on node 2 (c): look for missing GPUs with nvidia-smi, or give "
                          "each node its own --nproc-per-node")

    def test_several_findings_come_in_the_order_of_the_nodes(self):
        lines = self.check(c="ulimit -n 512", a="ulimit -n 256; export TMPDIR=/mnt/none")
        self.assertEqual([re.match(r"distrun check: (node \d)", line)[1] for line in lines], ["node 0", "node 0", "node 2"])


class CgroupTest(unittest.TestCase):
    """Without network namespaces, in which the folder of cgroups is not mounted."""

    def check_in(self, controller, limits):
        """The findings in a new cgroup.  None if this machine does not allow one."""
        root = pathlib.Path("/sys/fs/cgroup")
        parent = root if (root / "cgroup.controllers").exists() else root / controller
        group = parent / f"distrun-check-{os.getpid()}"
        try:
            if parent == root:
                (root / "cgroup.subtree_control").write_text(f"+{controller}", encoding="utf-8")
            group.mkdir()
        except OSError as error:
            self.skipTest(f"cannot make a cgroup: {error}")
        try:
            for file, value in limits.items():
                if (group / file).exists():
                    (group / file).write_text(value, encoding="utf-8")
            command = ["sh", "-c", 'echo $$ >"$1/cgroup.procs" && exec "$0" check', CheckTest.distrun, group]
            with tempfile.TemporaryDirectory() as folder:
                variables = {"TMPDIR": folder, "GLOO_SOCKET_IFNAME": "lo", "PYTHON_EXEC": "/no/python"}
                return subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_LIMIT_S,
                                      env={**os.environ, **variables}).stderr
        finally:
            group.rmdir()

    def test_few_processes(self):
        text = self.check_in("pids", {"pids.max": "100"})
        self.assertRegex(text, r"(?m)^distrun check: only \d\d more processes and threads can start: raise pids.max of the cgroup "
                               r"\(docker run --pids-limit=-1\)$")

    def test_little_memory(self):
        text = self.check_in("memory", {"memory.max": "300M", "memory.limit_in_bytes": "300M"})
        self.assertRegex(text, r"(?m)^distrun check: only 2\d\d MiB of memory are free under the limit of the cgroup: give the job or the "
                               r"container more memory$")

    def test_little_cpu_time(self):
        text = self.check_in("cpu", {"cpu.max": "50000 100000", "cpu.cfs_quota_us": "50000"})
        self.assertRegex(text, r"(?m)^distrun check: the cgroup allows 0.5 CPUs, but programs see \d+ and may start as many threads: set "
                               r"OMP_NUM_THREADS=1, or give the job or the container more CPUs$")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    CheckTest.distrun = str(pathlib.Path(sys.argv.pop(1)).resolve())
    missing = [program for program in ("ip", "unshare", "fallocate") if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None]
    if os.geteuid() != 0 or missing:
        print(f"skipped: needs root and {' '.join(missing)}" if missing else "skipped: needs root")
        sys.exit(ssh_hosts.SKIPPED)
    for variable in list(os.environ):
        if variable.startswith(("NCCL_", "GLOO_", "TORCH", "OMP_", "PET_", "SLURM_")):
            del os.environ[variable]
    ssh_hosts.enter_namespace(NODES)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
