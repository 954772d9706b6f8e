"""Hosts with ssh servers on this machine, for tests: network namespaces, joined by a bridge in another one.

    with SshHosts(["a", "b"]) as hosts:
        done = hosts.run([distrun, "launch", "--ssh", hosts.ssh, "--hosts", "a:2,b:2", "hostname"])

The program runs on a host of its own, the desk.  Requires root.  Names resolve in a mount namespace of this process
(enter_namespace()).
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from hosts_file import bind_hosts_file

SKIPPED = 77
START_LIMIT_S = 30
RUN_LIMIT_S = 120
PROGRAMS = ("sshd", "ssh", "ssh-keygen", "ip", "unshare")
DESK = "desk"
NET = "10.73.0."

SERVER = """
Port 22
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv XDG_CACHE_HOME={folder}/cache-{host}
"""
CLIENT = """
Host *
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking no
  LogLevel ERROR
"""


def missing_programs():
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def enter_namespace(names):
    """Adds the hosts' names to this process's /etc/hosts, and to that of its children, but of no other process.

    Where that is not permitted, prints so and exits with 77."""
    try:
        bind_hosts_file("".join(f"{NET}{number} {name}\n" for number, name in enumerate([DESK, *names], 1)))
    except OSError as error:
        print(f"skipped: cannot {error.strerror}: {error}")
        sys.exit(SKIPPED)


class SshHosts:
    def __init__(self, names):
        self.names = names
        self.mark = f"d{os.getpid()}"
        self.folder = None
        self.servers = []
        self.namespaces = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ssh-hosts-"))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
            server.wait()
        for namespace in self.namespaces:
            for pid in self.pids_in(namespace):
                os.kill(pid, 9)
            self.ip("netns", "del", namespace)
        shutil.rmtree(self.folder)

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=START_LIMIT_S).stdout

    def pids_in(self, namespace):
        return [int(pid) for pid in self.ip("netns", "pids", namespace).split()]

    def namespace(self, name):
        return f"{self.mark}-{name}"

    def inside(self, name, command):
        return ["ip", "netns", "exec", self.namespace(name), *map(str, command)]

    def start(self):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key"], check=True, timeout=START_LIMIT_S)
        (self.folder / "client").write_text(CLIENT.format(folder=self.folder), encoding="utf-8")
        self.make_networks()
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        for name in self.names:
            settings = self.folder / f"server-{name}"
            settings.write_text(SERVER.format(folder=self.folder, host=name), encoding="utf-8")
            # sshd wants its whole path.
            server = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
            command = ["unshare", "--uts", "sh", "-c", 'hostname "$1" && exec "$2" -D -e -f "$3"', "sh", name, server, settings]
            with (self.folder / f"log-{name}").open("w") as log:
                self.servers.append(subprocess.Popen(self.inside(name, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for name in self.names:
            self.wait_for_server(name)

    def make_networks(self):
        switch = self.namespace("switch")
        self.add_namespace("switch")
        self.ip("-n", switch, "link", "add", "bridge0", "type", "bridge")
        self.ip("-n", switch, "link", "set", "bridge0", "up")
        for number, name in enumerate([DESK, *self.names], 1):
            self.add_namespace(name)
            namespace = self.namespace(name)
            self.ip("-n", switch, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
            self.ip("-n", switch, "link", "set", f"to-{name}", "master", "bridge0", "up")
            self.ip("-n", namespace, "addr", "add", f"{NET}{number}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                self.ip("-n", namespace, "link", "set", link, "up")

    def add_namespace(self, name):
        self.ip("netns", "add", self.namespace(name))
        self.namespaces.append(self.namespace(name))

    def wait_for_server(self, name):
        deadline = time.monotonic() + START_LIMIT_S
        while subprocess.run(self.inside(DESK, [*self.ssh.split(), name, "true"]), check=False, capture_output=True,
                             timeout=START_LIMIT_S).returncode != 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"sshd of {name}: {(self.folder / f'log-{name}').read_text(encoding='utf-8')}")
            time.sleep(0.1)

    @property
    def ssh(self):
        return f"ssh -F {self.folder}/client"

    def start_on_desk(self, command, **options):
        return subprocess.Popen(self.inside(DESK, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **options)

    def run(self, command):
        with self.start_on_desk(command) as run:
            out, err = run.communicate(timeout=RUN_LIMIT_S)
            return subprocess.CompletedProcess(command, run.returncode, out, err)

    def cut(self, name):
        """Nothing reaches the host any more, and its connections do not notice."""
        self.ip("-n", self.namespace("switch"), "link", "set", f"to-{name}", "down")

    def mend(self, name):
        self.ip("-n", self.namespace("switch"), "link", "set", f"to-{name}", "up")

    def wait_until_empty(self, limit_s):
        """Fails if processes other than the ssh server's remain on a host."""
        deadline = time.monotonic() + limit_s
        while left := {name: found for name in self.names if (found := self.left_on(name))}:
            if time.monotonic() > deadline:
                raise AssertionError(f"still there: {left}")
            time.sleep(0.1)

    def left_on(self, name):
        """The command lines of processes other than the ssh server's."""
        left = []
        for pid in self.pids_in(self.namespace(name)):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if not words[0].endswith(b"sshd") and b"sshd" not in words[0]:
                left.append(f"{pid}: {b' '.join(words).decode(errors='replace')}")
        return left
