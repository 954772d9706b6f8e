"""A Slurm of several nodes on this machine, for tests: its own munged, slurmctld and slurmd's in a folder of their own.

    with SlurmCluster(nodes=4) as cluster:
        done = cluster.run("srun", "--nodes", "4", "hostname")

Requires root.  The nodes are named n0, n1, …; all of them are this machine.  SlurmCluster has to run where these names
resolve to 127.0.0.1, which enter_namespace() arranges in a mount namespace of this process.
"""

import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

from hosts_file import bind_hosts_file

START_LIMIT_S = 60
STOP_LIMIT_S = 10  # For each daemon.
RUN_LIMIT_S = 120
KILL_WAIT_S = 5  # From SIGTERM to SIGKILL when a job is cancelled.
CPUS = 8  # Of each node, as Slurm counts them.
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait={kill_wait}
MinJobAge=300
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_ports}] CPUs={cpus}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing_programs():
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def enter_namespace(nodes):
    """Makes the nodes' names known to this process and its children."""
    names = " ".join(f"n{node}" for node in range(nodes))
    bind_hosts_file(f"127.0.0.1 {names}\n")


def free_ports(count):
    """A range of ports that are free now."""
    for first in range(17000 + secrets.randbelow(10000), 32000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports")


class SlurmCluster:
    def __init__(self, nodes):
        self.nodes = nodes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _daemon(self, *command):
        log = open(self.folder / f"{pathlib.Path(command[0]).name}-{len(self.daemons)}.log", "wb")
        self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=self.environment, start_new_session=True))
        log.close()

    def _start(self):
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ports = free_ports(self.nodes + 1)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], folder=self.folder, port=ports, kill_wait=KILL_WAIT_S,
            last=self.nodes - 1, node_ports=f"{ports + 1}-{ports + self.nodes}", cpus=CPUS), encoding="utf-8")
        self._daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                     f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                     f"--seed-file={self.folder}/munged.seed")
        self._wait("munged", (self.folder / "munge.socket").exists)
        self._daemon("slurmctld", "-D", "-c")
        for node in range(self.nodes):
            self._daemon("slurmd", "-D", "-N", f"n{node}")
        self._wait("all nodes", self._are_all_idle)

    def _wait(self, what, holds):
        deadline = time.monotonic() + START_LIMIT_S
        while not holds():
            ended = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not there; ended: {ended}\n{self.logs()}")
            time.sleep(0.1)

    def _are_all_idle(self):
        found = subprocess.run(["sinfo", "--noheader", "--states", "idle", "--format", "%D"], env=self.environment,
                               capture_output=True, text=True, check=False, timeout=START_LIMIT_S)
        return found.stdout.split() == [str(self.nodes)]

    def logs(self):
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-2000:]}"
                         for log in sorted(self.folder.glob("*.log")))

    def start(self, *command, **options):
        """Starts a command with stdout and stderr in one pipe."""
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **{"env": self.environment, **options})

    def run(self, *command, variables=None):
        return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=RUN_LIMIT_S, env={**self.environment, **(variables or {})})

    def wait_until_idle(self):
        """No job is left, also none that ends."""
        self._wait("the end of all jobs", lambda: not self.run("squeue", "--noheader").stdout)

    def stop(self):
        for daemon in reversed(self.daemons):  # One after the other: munged is needed until the end.
            daemon.terminate()
            try:
                daemon.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
