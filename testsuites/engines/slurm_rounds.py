#!/usr/bin/env python3
"""Runs distrun many times and breaks each run: in steps of a real Slurm, and on hosts whose connection is cut.

    testsuites/engines/slurm_rounds.py [--rounds 20] [--seed NUMBER] [--only KIND] DISTRUN

The kinds of rounds:

    rank      a rank is killed                    frozen    all distruns of a node are stopped, and go on later
    agent     a distrun is killed, sometimes with its guards
    scancel   the job is cancelled                cut       the network interface of a node is taken down

The victim, the moment and the layout are random, by the seed, which is printed.  After each round, the right culprit is
named in one summary, all exit statuses are as documented, and no process and no listening socket is left.  Requires root,
Slurm (cmake/setup.sh packages engines) and network namespaces; without them, it prints why and exits with 77.
"""

import argparse
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import slurm_cluster
from slurm_cluster import SlurmCluster

SKIPPED = 77
LIMIT_S = 60  # For each wait.
NODES = 4
RANKS = 8
HOSTS = 3  # Of cut.
HEARTBEAT_S = 1
PORT = 29575  # On hosts.
DELAY_MAX_S = 0.5  # From the last line that a round waits for to its blow.
WORKER = 'echo "rank $RANK is up: $$ $SLURM_JOB_ID"; sleep 600 & wait'
# Writes the exit status of a task to a file.  The trap keeps the shell alive, and distrun does not inherit it.
TASK = 'trap : TERM; "$@"; status=$?; echo $status >"$ROUND/status-$SLURM_PROCID"; exit $status'


class Failed(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Failed(what)


def wait_for(what, holds):
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.02)


def variables_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []  # It has ended.


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def processes_of(folder):
    """The processes of a round, by their variable ROUND."""
    mark = f"ROUND={folder}"
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and mark in variables_of(entry.name)]


def wait_for_end(folder, may_leave=None):
    left = {}

    def is_empty():
        left.clear()
        left.update((pid, name_of(pid)) for pid in processes_of(folder))
        return all(name == may_leave for name in left.values())

    try:
        wait_for("the end of all processes", is_empty)
    except Failed as failed:
        raise Failed(f"{failed}: {left}") from failed


def listening_ports():
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def send(number, pids):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def read_until_up(process, count):
    """The first ranks that are up: {rank: pid}, and the job."""
    ranks, job, lines = {}, "", []
    limit = threading.Timer(LIMIT_S, process.kill)
    limit.start()
    try:
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"rank (\d+) is up: (\d+) (\d*)", line)
            if found:
                ranks[int(found[1])], job = int(found[2]), found[3]
            if len(ranks) == count:
                return ranks, job
    finally:
        limit.cancel()
    raise Failed("the run ended before its ranks were up: " + "".join(lines))


class Step:
    """One step of Slurm: eight ranks, with one task per node or one per rank."""

    def __init__(self, cluster, draw, folder):
        self.cluster, self.folder = cluster, folder
        self.has_agents = draw.random() < 0.5
        self.tasks = NODES if self.has_agents else RANKS
        self.workers = RANKS // self.tasks
        self.port = slurm_cluster.free_ports(1)
        self.may_leave = None  # The name of processes that may be left.
        flags = ["--heartbeat", HEARTBEAT_S, "--shutdown-timeout", 2, "--master-port", self.port]
        if self.has_agents:
            flags += ["--nproc-per-node", self.workers]
        self.process = cluster.start(
            "srun", "--nodes", NODES, "--ntasks-per-node", self.tasks // NODES, "--error", f"{folder}/stderr-%t", "sh", "-c", TASK, "sh",
            DISTRUN, "launch", *flags, "sh", "-c", WORKER, env={**cluster.environment, "ROUND": str(folder)})
        count = draw.randint(1, RANKS)
        self.up, self.job = read_until_up(self.process, count)
        time.sleep(draw.uniform(0, DELAY_MAX_S))

    def distruns(self, task):
        """The launcher of a task and its guards, children last."""
        mark = f"SLURM_PROCID={task}"
        found = [pid for pid in processes_of(self.folder)
                 if program_of(pid) == DISTRUN and mark in variables_of(pid)]
        return sorted(found)

    def text(self):
        return "".join(file.read_text() for file in sorted(self.folder.glob("stderr-*")))

    def statuses(self):
        """By task; None for a task whose shell was killed."""
        files = {task: self.folder / f"status-{task}" for task in range(self.tasks)}
        return {task: int(file.read_text()) if file.exists() else None for task, file in files.items()}

    def host(self, task):
        return f"n{task if self.has_agents else task * NODES // self.tasks}"

    def culprit(self, task):
        """How a summary begins that names this task."""
        return f"node {task} ({self.host(task)})" if self.has_agents else f"rank {task} ({self.host(task)})"

    def end(self):
        """The status of srun."""
        try:
            self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"srun did not end within {LIMIT_S} s") from error
        return self.process.returncode

    def expect_one_summary(self, summary):
        text = self.text()
        summaries = re.findall(r"(?m)^distrun: (?:(?:node|rank) \d+ \(n\d\)|n\d): .*$", text)
        expect(len(summaries) == 1, f"not one summary, but {summaries}")
        expect(re.fullmatch(summary, summaries[0]), f"the summary is {summaries[0]!r}, not {summary}")

    def expect_statuses(self, status):
        for task, its in self.statuses().items():
            expect(its == status, f"task {task} exited with {its}, not {status}")

    def expect_nothing_left(self):
        self.cluster.wait_until_idle()
        wait_for_end(self.folder, self.may_leave)
        expect(self.port not in listening_ports(), f"port {self.port} is still open")

    def clean_up(self):
        pids = processes_of(self.folder)
        send(signal.SIGKILL, pids)
        send(signal.SIGCONT, pids)
        self.process.kill()
        self.process.communicate()


def rank_round(step, draw):
    rank = draw.choice(sorted(step.up))
    send(signal.SIGKILL, [step.up[rank]])
    srun = step.end()
    task = rank // step.workers
    of = step.culprit(task) if step.has_agents else step.host(task)
    step.expect_one_summary(re.escape(f"distrun: {of}: rank {rank} failed: signal SIGKILL (9)"))
    step.expect_statuses(137)
    expect(srun == 137, f"srun exited with {srun}")


def agent_round(step, draw):
    task = draw.randrange(step.tasks)
    distruns = step.distruns(task)
    expect(len(distruns) == 3, f"task {task} has the distruns {distruns}")
    with_guards = draw.random() < 0.5
    if with_guards:  # At the same moment, which leaves processes that the workers have started.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            send(number, reversed(distruns))
        step.may_leave = "sleep"
    else:
        send(signal.SIGKILL, distruns[-1:])
    srun = step.end()
    step.expect_one_summary(re.escape(f"distrun: {step.culprit(task)}: lost: ") + ".*")
    for each, its in step.statuses().items():
        expect(its == (137 if each == task else 125), f"task {each} exited with {its}; task {task} was killed")
    expect(srun in (125, 137), f"srun exited with {srun}")


def frozen_round(step, draw):
    task = draw.randrange(step.tasks)
    frozen = step.distruns(task)
    send(signal.SIGSTOP, reversed(frozen))
    wait_for("the end of the other nodes",
             lambda: all(step.statuses()[other] is not None for other in range(step.tasks) if other != task))
    send(signal.SIGCONT, frozen)
    srun = step.end()
    step.expect_one_summary(re.escape(f"distrun: {step.culprit(task)}: lost: it has been silent for {3 * HEARTBEAT_S} s"))
    step.expect_statuses(125)
    expect(srun == 125, f"srun exited with {srun}")


def scancel_round(step, _):
    expect(step.cluster.run("scancel", step.job).returncode == 0, "scancel failed")
    step.end()
    step.expect_one_summary(r"distrun: (node|rank) \d \(n\d\): ended by signal SIGTERM.*")
    step.expect_statuses(143)


IN_SLURM = {"rank": rank_round, "agent": agent_round, "frozen": frozen_round, "scancel": scancel_round}


class Hosts:
    """Network namespaces that a bridge connects."""

    def __init__(self):
        self.name = f"distrun-rounds-{os.getpid()}"
        self.devices = [f"r{os.getpid()}n{host}" for host in range(HOSTS)]

    def ip(self, *words):
        done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if done.returncode != 0:
            raise OSError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")

    def namespace(self, host):
        return f"{self.name}-{host}"

    def __enter__(self):
        try:
            middle = self.namespace("bridge")
            self.ip("netns", "add", middle)
            self.ip("-n", middle, "link", "add", "bridge", "type", "bridge")
            self.ip("-n", middle, "link", "set", "bridge", "up")
            for host, device in enumerate(self.devices):
                self.ip("netns", "add", self.namespace(host))
                self.ip("link", "add", device, "netns", self.namespace(host), "type", "veth", "peer", "name", device, "netns", middle)
                self.ip("-n", middle, "link", "set", device, "master", "bridge")
                self.ip("-n", middle, "link", "set", device, "up")
                self.ip("-n", self.namespace(host), "addr", "add", f"10.73.0.{host + 1}/24", "dev", device)
                self.ip("-n", self.namespace(host), "link", "set", "lo", "up")
                self.connect(host)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for host in ("bridge", *range(HOSTS)):
            subprocess.run(["ip", "netns", "del", self.namespace(host)], capture_output=True, check=False, timeout=LIMIT_S)

    def connect(self, host):
        self.ip("-n", self.namespace(host), "link", "set", self.devices[host], "up")

    def cut(self, host):
        self.ip("-n", self.namespace(host), "link", "set", self.devices[host], "down")

    def start(self, host, command, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c",
                                 'hostname "$0" && exec "$@"', f"h{host}", *map(str, command)], text=True,
                                stdin=subprocess.DEVNULL, **options)

    def listening_ports(self, host):
        done = subprocess.run(["ip", "netns", "exec", self.namespace(host), "cat", "/proc/self/net/tcp", "/proc/self/net/tcp6"],
                              capture_output=True, text=True, check=True, timeout=LIMIT_S)
        return [line.split()[1] for line in done.stdout.splitlines() if line.split()[3] == "0A"]


class HostsRun:
    """A distrun on each host, each with two ranks."""

    def __init__(self, hosts, draw, folder):
        self.hosts, self.folder = hosts, folder
        self.nodes = []
        for host in range(HOSTS):
            command = [DISTRUN, "launch", "--nnodes", HOSTS, "--node-rank", host, "--master-addr", "10.73.0.1", "--master-port", PORT,
                       "--nproc-per-node", 2, "--heartbeat", HEARTBEAT_S, "--shutdown-timeout", 2, "sh", "-c", WORKER]
            with open(folder / f"stderr-{host}", "w") as errors:
                self.nodes.append(hosts.start(host, command, stdout=subprocess.PIPE, stderr=errors,
                                              env={**os.environ, "ROUND": str(folder)}))
        # As many ranks as the round waits for, of any one node: the run has then started on all nodes.
        read_until_up(self.nodes[draw.randrange(HOSTS)], draw.randint(1, 2))
        time.sleep(draw.uniform(0, DELAY_MAX_S))

    def text(self):
        return "".join(f"-- node {host}\n{(self.folder / f'stderr-{host}').read_text()}" for host in range(HOSTS))

    def expect_summary(self, host, culprits):
        text = (self.folder / f"stderr-{host}").read_text()
        summaries = re.findall(r"(?m)^distrun: node (\d) \(h\1\): lost: .*$", text)
        expect(len(summaries) == 1, f"node {host} has not one summary, but {len(summaries)}")
        expect(int(summaries[0]) in culprits, f"node {host} blames node {summaries[0]}, not one of {culprits}")

    def cut_round(self, draw):
        victim = draw.randrange(HOSTS)
        self.hosts.cut(victim)
        for host, node in enumerate(self.nodes):
            try:
                node.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired as error:
                raise Failed(f"node {host} did not end within {LIMIT_S} s; node {victim} was cut off") from error
            expect(node.returncode == 125, f"node {host} exited with {node.returncode}; node {victim} was cut off")
        for host in range(HOSTS):
            # A node without connections loses the others.
            self.expect_summary(host, [victim] if host != victim else [1, 2] if victim == 0 else [0])

    def expect_nothing_left(self):
        wait_for_end(self.folder)
        for host in range(HOSTS):
            expect(not self.hosts.listening_ports(host), f"host {host} still listens at {self.hosts.listening_ports(host)}")

    def clean_up(self):
        send(signal.SIGKILL, processes_of(self.folder))
        for node in self.nodes:
            node.kill()
            node.communicate()
        for host in range(HOSTS):
            self.hosts.connect(host)


def play(kind, begin, blow):
    """One round.  Returns what was wrong, or None."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"rounds-{kind}-"))
    run = None
    try:
        run = begin(folder)
        blow(run)
        run.expect_nothing_left()
        return None
    except (Failed, RuntimeError) as failed:  # RuntimeError: of the cluster.
        return f"{failed}\n{run.text() if run else ''}"
    finally:
        if run:
            run.clean_up()
        send(signal.SIGKILL, processes_of(folder))
        shutil.rmtree(folder, ignore_errors=True)


def reason_to_skip():
    missing = slurm_cluster.missing_programs() + [program for program in ("ip", "unshare") if shutil.which(program) is None]
    if missing:
        return f"not installed: {', '.join(missing)}; run cmake/setup.sh packages engines"
    return None if os.geteuid() == 0 else "not root"


def main():
    global DISTRUN
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--only", choices=[*IN_SLURM, "cut"], action="append")
    parser.add_argument("distrun")
    given = parser.parse_args()
    DISTRUN = str(pathlib.Path(given.distrun).resolve())
    reason = reason_to_skip()
    if reason:
        print("skipped: " + reason)
        sys.exit(SKIPPED)
    print(f"--seed {given.seed}", flush=True)
    draw = random.Random(given.seed)
    kinds = given.only or [*IN_SLURM, "cut"]
    wrong = {kind: 0 for kind in kinds}
    began = time.monotonic()
    slurm_cluster.enter_namespace(NODES)
    with SlurmCluster(NODES) as cluster, Hosts() as hosts:
        for number in range(given.rounds):
            for kind in kinds:
                if kind == "cut":
                    problem = play(kind, lambda folder: HostsRun(hosts, draw, folder), lambda run: run.cut_round(draw))
                else:
                    problem = play(kind, lambda folder: Step(cluster, draw, folder), lambda run, blow=IN_SLURM[kind]: blow(run, draw))
                if problem:
                    wrong[kind] += 1
                    print(f"{kind}, round {number}: {problem}", flush=True)
    for kind, count in wrong.items():
        print(f"{kind}: {given.rounds - count} of {given.rounds} rounds as expected")
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if any(wrong.values()) else 0)


DISTRUN = ""
if __name__ == "__main__":
    main()
