"""Compares `distrun launch` with the real torchrun, of PyTorch 2.13 and newer: both run the same command lines.

    PYTHON cli/torchrun_parity_test.py DISTRUN [--all]

PYTHON can import torch.  Every worker writes its argv and its environment to a file.  The two files must
be equal, except for the differences that DIFFERS and the cases list, each with its reason.  Both must
reject the lines in REFUSED.  docs/torchrun.md must have each flag of torchrun's parser.  Without --all,
only lines marked `quick` run, because torchrun takes seconds for each.
"""

import concurrent.futures
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile

DISTRUN = sys.argv[1]
ALL = "--all" in sys.argv
DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "torchrun.md"
TIMEOUT_S = 100

WORKER = """
import json, os, sys
seen = {"argv": sys.argv, "whole": sys.orig_argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
path = os.path.join(os.environ["PARITY_FOLDER"], os.environ["RANK"] + ".json")
with open(path, "w") as file:
    json.dump(seen, file)
"""

# Variables that always differ, and what is compared instead.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DIFFERS = {
    # Each run has its own folder; the layout below it is the same.
    "TORCHELASTIC_ERROR_FILE": lambda value: re.search(
        r"attempt_(\d+)[/_](\d+)[/_]error.json$", value
    ).groups(),
    # New for each run, unless it is given.
    "TORCHELASTIC_RUN_ID": lambda value: UUID.sub("UUID", value),
    # For output of the test's own workers.
    "PARITY_FOLDER": lambda value: None,
    # Only distrun sets them.
    "DISTRUN_STORE": lambda value: None,
    "TORCH_FR_DUMP_TEMP_FILE": lambda value: None,
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": lambda value: None,
    "DISTRUN_OPERATIONS": lambda value: None,
    # torch sets it in torchrun's process when it explains a warning.
    "TORCHINDUCTOR_CACHE_DIR": lambda value: None,
}

# Reasons for a difference in single cases.
FREE_PORT = {"MASTER_PORT": "a free port is another one in each run"}
LOOPBACK = {
    **FREE_PORT,
    "MASTER_ADDR": "torchrun gives the machine's name, which may resolve to anything; distrun 127.0.0.1",
}
NAME = {"MASTER_ADDR": "a name is not looked up for one node: distrun gives 127.0.0.1"}


@dataclasses.dataclass
class Case:
    flags: list
    program: list = dataclasses.field(default_factory=lambda: ["WORKER"])
    env: dict = dataclasses.field(default_factory=dict)
    differs: dict = dataclasses.field(default_factory=lambda: LOOPBACK)
    workers: int = 1
    quick: bool = False
    in_process: bool = False  # torchrun runs the script in its own process.


# WORKER, PYTHON and PORT are the script, the Python and a free port.
CASES = [
    Case([], quick=True),
    Case(["--nproc-per-node", "2"], ["WORKER", "a b", "it's", "", "--lr=0.1", "${local_rank}"], workers=2, quick=True),
    Case(["--nproc_per_node=2"], workers=2),
    Case(["--nproc-per", "2"], workers=2),
    Case(["--nproc_per_node=1", "--nproc-per-node=3"], workers=3),
    Case(["--standalone", "--nproc-per-node=2", "--rdzv-backend=static", "--master-port", "PORT"], workers=2, quick=True),
    Case(["--nnodes", "1", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", "PORT"], differs={}, quick=True),
    Case(["--nnodes=1:1", "--node_rank=0"]),
    Case(["--master_port=PORT", "--rdzv-id=job7"], differs={}),
    Case(["--master-addr=localhost", "--master-port=PORT"], differs=NAME),
    Case(["--rdzv-endpoint", "127.0.0.1:PORT"], differs={}, quick=True),
    Case(["--rdzv-endpoint=localhost:PORT", "--rdzv-backend", "static"], differs=NAME),
    Case(["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "job7"], quick=True),
    Case(["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-conf", "timeout=900, read_timeout=30"]),
    Case(["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:PORT", "--master_port=1"]),
    Case(["--local-addr", "127.0.0.1"], differs=FREE_PORT),
    Case(["--max-restarts", "3", "--monitor-interval", "0.5"], quick=True),
    Case(["--role", "trainer", "--start-method", "fork"]),
    Case(["--role=", "--start_method=forkserver", "--event-log-handler=null"]),
    Case(["-m"], ["parity_worker", "--lr", "0.1"], env={"PYTHONPATH": "FOLDER"}, quick=True),
    Case(["--module", "--nproc-per-node=2"], ["parity_worker"], env={"PYTHONPATH": "FOLDER"}, workers=2),
    Case(["--no-python"], ["PYTHON", "WORKER", "x"], quick=True),
    Case(["--no_python"], ["sh", "-c", 'exec "$0" "$@"', "PYTHON", "WORKER", "${local_rank}"]),
    Case(["--run-path"], in_process=True),
    Case(["--run_path", "--no-python", "-m"], in_process=True),
    Case(["--role", "x", "--"], ["WORKER", "y"]),
    Case([], ["WORKER", "x", "--nproc-per-node", "7", "-m", "--", "--role=y"]),
    Case(["--virtual-local-rank", "--nproc-per-node=2"], workers=2, quick=True),
    Case(["--virtual_local_rank", "--nproc-per-node=2"], env={"CUDA_VISIBLE_DEVICES": "3, GPU-5,7"}, workers=2),
    Case(["--nproc-per-node=2"], env={"CUDA_VISIBLE_DEVICES": "1,0"}, workers=2),
    Case([], env={"PET_NPROC_PER_NODE": "2", "PET_ROLE": "r", "PET_MAX_RESTARTS": "1", "PET_NO_PYTHON": "0"}, workers=2, quick=True),
    Case(["--nproc-per-node", "1"], env={"PET_NPROC_PER_NODE": "2", "PET_STANDALONE": "1"}),
    Case([], ["PYTHON", "WORKER"], env={"PET_NO_PYTHON": "1"}),
    Case([], env={"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": "PORT"}, differs={}),
    Case(["--nproc-per-node=2"], env={"OMP_NUM_THREADS": "3", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}, workers=2),
    Case(["--signals-to-handle", "SIGTERM,SIGUSR1"], env={"TORCHELASTIC_SIGNALS_TO_HANDLE": "stale"}),
    Case(["--shutdown-timeout=5"], env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}),
    Case(["--nproc-per-node=cpu"], workers=len(os.sched_getaffinity(0))),
    Case(["--nproc-per-node=auto"], env={"CUDA_VISIBLE_DEVICES": ""}, workers=len(os.sched_getaffinity(0))),
    Case(["--nproc-per-node=2"], env={"RANK": "7", "LOCAL_RANK": "7", "WORLD_SIZE": "9", "MASTER_PORT": "1", "GROUP_RANK": "3"}, workers=2),
    Case([], env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
         differs={**LOOPBACK, "TORCHELASTIC_USE_AGENT_STORE": "distrun hosts the store in any case, for each attempt a new one"}),
]  # fmt: skip

# Both must fail and start nothing: (flags and program, environment, quick).
REFUSED = [
    ([], {}, True),
    (["--bogus", "WORKER"], {}, True),
    (["--nproc-per-node", "two", "WORKER"], {}, True),
    (["--nproc-per-node"], {}, False),
    (["--nproc-per-node", "--standalone", "WORKER"], {}, False),
    (["--nproc-per-node=gpu", "WORKER"], {"CUDA_VISIBLE_DEVICES": ""}, False),
    (["--no-python=1", "WORKER"], {}, False),
    (["--rdzv", "x", "WORKER"], {}, False),
    (["--nnodes=2:1", "WORKER"], {}, False),
    (["--nnodes=0", "WORKER"], {}, False),
    (["--max-restarts=-1", "WORKER"], {}, False),
    (["--max-restarts", "x", "WORKER"], {}, False),
    (["--start-method=thread", "WORKER"], {}, False),
    (["--monitor-interval=often", "WORKER"], {}, False),
    (["--rdzv-conf=timeout", "WORKER"], {}, False),
    (["--rdzv-backend=zeus", "WORKER"], {}, False),
    (["--rdzv-endpoint=127.0.0.1", "WORKER"], {}, False),
    (["--master-port=x", "WORKER"], {}, False),
    (["--logs-specs=none-such", "WORKER"], {}, False),
    (["--numa-binding=everywhere", "WORKER"], {}, False),
    (["--numa-binding=node", "WORKER"], {"CUDA_VISIBLE_DEVICES": ""}, False),
    (["-m", "--no-python", "WORKER"], {}, True),
    (["--virtual-local-rank", "--nproc-per-node=2", "WORKER"], {"CUDA_VISIBLE_DEVICES": "0"}, False),
    (["--no-python", "/no/such/program"], {}, False),
    (["/no/such/script.py"], {}, False),
    (["WORKER"], {"PET_STANDALONE": "yes"}, True),
    (["WORKER"], {"PET_MAX_RESTARTS": "x"}, False),
]  # fmt: skip


def free_port():
    """Below those that the kernel gives to others."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
                return str(port)
            except OSError:
                continue


def run(launcher, arguments, env, folder):
    """Exit status, stderr, and what each worker has seen, by rank."""
    folder.mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    inherited.pop("OMP_NUM_THREADS", None)
    # -u keeps a warning of Python's out of one of them.
    environment = inherited | {"PARITY_FOLDER": str(folder), "PYTHON_EXEC": sys.executable} | env
    ended = subprocess.run(launcher + arguments, env=environment, capture_output=True, text=True,
                           timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)  # fmt: skip
    seen = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return ended.returncode, ended.stderr, seen


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LAUNCHERS = {"torchrun": TORCHRUN, "distrun": [DISTRUN, "launch"]}


def both(arguments, env, folder):
    worker = folder.parent / "parity_worker.py"
    words = {"WORKER": str(worker), "PYTHON": sys.executable, "PORT": free_port(), "FOLDER": str(folder.parent)}

    def filled(text):
        return re.sub("|".join(words), lambda name: words[name.group()], text)

    arguments = [filled(word) if word.isupper() or "PORT" in word else word for word in arguments]
    env = {name: filled(value) for name, value in env.items()}
    folder.mkdir()
    return {name: run(launcher, arguments, env, folder / name) for name, launcher in LAUNCHERS.items()}


def comparable(seen, case):
    environment = {}
    for name, value in seen["env"].items():
        shown = DIFFERS.get(name, lambda same: same)(value)
        if shown is not None and name not in case.differs:
            environment[name] = shown
    # The command before a program that runs in torchrun's process does not exist.
    whole = None if case.in_process else seen["whole"]
    return {"argv": seen["argv"], "whole": whole, "cwd": seen["cwd"]} | environment


def problems_of(case, folder):
    results = both(case.flags + case.program, case.env, folder)
    for name, (status, err, seen) in results.items():
        if status != 0 or len(seen) != case.workers:
            yield f"{name}: status {status}, {len(seen)} workers, not {case.workers}: {err[-2000:]}"
            return
    for rank in results["torchrun"][2]:
        expected, actual = (comparable(results[name][2][rank], case) for name in ("torchrun", "distrun"))
        for key in sorted(expected.keys() | actual.keys()):
            if expected.get(key) != actual.get(key):
                yield f"rank {rank}: {key}: torchrun {expected.get(key)!r}, distrun {actual.get(key)!r}"


def problems_of_refused(case, folder):
    arguments, env, _ = case
    for name, (status, err, seen) in both(arguments, env, folder).items():
        if status == 0 or seen:
            yield f"{name}: status {status}, {len(seen)} workers: should have refused"
        if name == "distrun" and status not in (2, 127):
            yield f"distrun: status {status}: {err}"


def problems_of_page():
    from torch.distributed.run import get_args_parser

    page = set(re.findall(r"^\| ((?:`-\w`, )?`--[\w-]+`) \|", DOCS.read_text(), re.MULTILINE))
    for action in get_args_parser()._actions:
        names = [name for name in action.option_strings if "_" not in name]
        cell = ", ".join(f"`{name}`" for name in names)
        if names and cell not in page:
            yield f"docs/torchrun.md has no line for {cell}"


def main():
    version = importlib.metadata.version("torch")
    if tuple(map(int, version.split(".")[:2])) < (2, 13):
        print(f"compares with PyTorch 2.13 and newer; this is {version}")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory(prefix="torchrun_parity.") as name:
        folder = pathlib.Path(name)
        (folder / "parity_worker.py").write_text(WORKER)
        jobs = [(f"{' '.join(case.flags + case.program)} {case.env or ''}", problems_of, case)
                for case in CASES if ALL or case.quick]  # fmt: skip
        jobs += [(f"refused: {' '.join(case[0])} {case[1] or ''}", problems_of_refused, case)
                 for case in REFUSED if ALL or case[2]]  # fmt: skip
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(lambda of, case, at: list(of(case, at)), of, case, folder / str(index))
                       for index, (_, of, case) in enumerate(jobs)]  # fmt: skip
            found = [("the page", list(problems_of_page()))]
            found += [(title, future.result()) for (title, *_), future in zip(jobs, running)]
    for title, problems in found:
        failed += bool(problems)
        for problem in problems:
            print(f"{title}\n    {problem}")
    print(f"{len(found) - failed} of {len(found)} as torchrun")
    return 1 if failed else 0


sys.exit(main())
