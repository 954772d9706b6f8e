#!/usr/bin/env python3
"""Measures distrun, torchrun and mpirun (Open MPI) side by side, and prints README's table.

    python3 bench/launch/peers.py [--rounds N] [--restarts N] [--torch-python PYTHON] BUILD

The launchers take turns.  Each figure is a median.  A launcher that is not installed is left out.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 60  # For each run.
SURVIVORS_AFTER_S = 3

# Rank 1 crashes between two collectives of the first attempt.
RESTARTING_WORKER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(20):
    dist.all_reduce(torch.ones(4))
    if step == 10 and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(7)
dist.destroy_process_group()
"""


class Launcher:
    """The command line of a launcher, which runs shell scripts and programs."""

    def __init__(self, name, version, command, rank_variable, restarts):
        self.name, self.version, self.command, self.rank, self.restarts = name, version, command, rank_variable, restarts

    def shell(self, workers, script):
        return [*self.command(workers), "sh", "-c", script]


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def launchers(build, python):
    distrun = str(build / "distrun")
    found = [Launcher("distrun", output_of(distrun, "--version").split()[-1],
                      lambda n: [distrun, "launch", "--nproc-per-node", str(n), "--no-python"], "RANK",
                      lambda n, times: [distrun, "launch", "--nproc-per-node", str(n), "--max-restarts", str(times)])]
    version = output_of(python, "-c", "import torch; print(torch.__version__)").split()[-1:] if shutil.which(python) else []
    if version and version[0][0].isdigit():
        version = version[0]
        run = [python, "-m", "torch.distributed.run"]
        found.append(Launcher("torchrun", version, lambda n: [*run, "--nproc-per-node", str(n), "--no-python"], "RANK",
                              lambda n, times: [*run, "--nproc-per-node", str(n), "--max-restarts", str(times)]))
    for mpirun in filter(None, map(shutil.which, ("mpirun.openmpi", "mpirun"))):
        if "Open MPI" in (version := output_of(mpirun, "--version")):
            as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            found.append(Launcher("mpirun", version.split("\n")[0].split()[-1],
                                  lambda n: [mpirun, *as_root, "--oversubscribe", "-np", str(n)],
                                  "OMPI_COMM_WORLD_RANK", None))
            break
    return found


def marked_processes(mark):
    """The names of the processes whose environment contains this mark, by process id."""
    marked = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                marked[int(folder.name)] = (folder / "comm").read_text(encoding="utf-8").strip()
        except OSError:
            pass  # It has ended, or belongs to another user.
    return marked


@contextlib.contextmanager
def started(command):
    """Starts a run; gives its process and its mark.  Kills what is left of the run at the end."""
    value = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = os.environ | {"PEERS_RUN": value, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=environment, start_new_session=True) as process:
        try:
            yield process, f"PEERS_RUN={value}"
        finally:
            for pid in marked_processes(f"PEERS_RUN={value}"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def run(command):
    """The run's exit status (None if it did not end in time), its wall time in seconds, and when it ended."""
    begin = time.monotonic()
    with started(command) as (process, _):
        try:
            return process.wait(TIMEOUT_S), time.monotonic() - begin, time.time_ns()
        except subprocess.TimeoutExpired:
            return None, TIMEOUT_S, None


def start_and_end_ms(launcher, _folder):
    status, seconds, _ = run(launcher.shell(64, "sleep 0.5"))
    return (seconds - 0.5) * 1000 if status == 0 else None


def failure_to_exit_ms(launcher, folder):
    moment = folder / "failed_at"
    script = f'if [ "${launcher.rank}" = 3 ]; then date +%s%N >{moment}; exit 3; fi; exec sleep 120'
    moment.unlink(missing_ok=True)
    status, _, ended = run(launcher.shell(4, script))
    return (ended - int(moment.read_text(encoding="ascii"))) / 1e6 if status and moment.exists() else None


def survivors_of_kill(launcher, folder):
    """How many processes of a run with two workers and two daemons are alive after kill -9 of the launcher."""
    script = f'setsid sleep 300 & echo >"{folder}/up.${launcher.rank}"; exec sleep 301'
    for file in folder.glob("up.*"):
        file.unlink()
    with started(launcher.shell(2, script)) as (process, mark):
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until and (
                len(list(folder.glob("up.*"))) < 2 or list(marked_processes(mark).values()).count("sleep") < 4):
            time.sleep(0.05)
        process.kill()
        time.sleep(SURVIVORS_AFTER_S)
        return list(marked_processes(mark).values()).count("sleep")


def restart_succeeds(launcher, folder):
    worker = folder / "restarting_worker.py"
    worker.write_text(RESTARTING_WORKER, encoding="utf-8")
    status, _, _ = run([*launcher.restarts(2, 1), str(worker)])
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--torch-python", default=".deps/venv/bin/python3")
    arguments = parser.parse_args()
    os.environ["PATH"] = os.path.abspath(os.path.dirname(arguments.torch_python)) + ":" + os.environ["PATH"]
    compared = launchers(arguments.build.resolve(), arguments.torch_python)

    def row(text, measure, rounds, show):
        figures = {launcher.name: [] for launcher in compared}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                for launcher in compared:
                    if measure is not restart_succeeds or launcher.restarts:
                        figures[launcher.name].append(measure(launcher, pathlib.Path(folder)))
        cells = (show([f for f in figures[launcher.name] if f is not None]) if figures[launcher.name] else "not supported"
                 for launcher in compared)
        print(f"| {text} | {' | '.join(cells)} |", flush=True)

    def median_ms(figures):
        return f"{statistics.median(figures):,.0f} ms" if figures else "no run ended"

    print(f"| | {' | '.join(f'{launcher.name} {launcher.version}' for launcher in compared)} |")
    print(f"|{'---|' * (len(compared) + 1)}")
    row("time to start and stop 64 workers", start_and_end_ms, arguments.rounds, median_ms)
    row("time from a worker's failure to the launcher's exit", failure_to_exit_ms, arguments.rounds, median_ms)
    row("processes left running after kill -9 of the launcher, of 4", survivors_of_kill, 3, lambda f: str(max(f)))
    row("restarts that succeed after a crash, with Gloo", restart_succeeds, arguments.restarts,
        lambda f: f"{sum(f)} of {len(f)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
