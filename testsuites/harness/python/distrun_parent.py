"""The part of PyTorch's parent process in a test of several ranks.

PyTorch's parent calls setUp(), spawns the ranks there, waits for them, checks their exit codes, and calls tearDown().
Here a fork of the host does it, once per test, with PyTorch's own code.  Only the start of processes is replaced: the
host forks the ranks, which wait for what setUp() left to them.
"""
import atexit
import json
import logging
import os
import pickle
import unittest
from multiprocessing.connection import Connection

import distrun_process as process

SET_UP, HELD, VERDICT, OUTPUT = "set_up.pickle", "held", "verdict.json", "parent_output"


class RecordedProcess:
    """Stands for torch.multiprocessing.Process: keeps what a rank will call."""

    _pids = iter(range(-1, -1_000_000, -1))  # No process has these.

    def __init__(self, target, args=(), kwargs=None, **_):
        self.target, self.args, self.kwargs = target, args, kwargs or {}
        self.pid, self.exitcode = next(self._pids), None

    def start(self):
        pass

    def terminate(self):
        pass

    kill = join = close = terminate

    def is_alive(self):
        return self.exitcode is None

    def call(self):
        """Without the pipe, which the rank makes."""
        args = [None if isinstance(one, Connection) else one for one in self.args]
        return self.target, args, self.kwargs


class TracebackPipe:
    def __init__(self, text):
        self._text = text

    def recv(self):
        return self._text

    def close(self):
        pass


class Parent:
    def __init__(self, test, folder, ready, ended):
        self.test, self.folder = test, folder
        self.ready, self.ended = ready, ended  # Pipes: closed when setUp() is over; the ranks' ends.
        self.before = dict(os.environ)

    def run(self):
        case = self.test.case(self.test.name)
        case._start_processes = lambda *_: record_processes(case)
        case._join_processes = lambda fn: self.join(case, fn)
        result = unittest.TestResult()
        unittest.TestSuite([case]).run(result)
        verdict = verdict_of(result)
        if self.ready is not None:  # No test method was called.
            self.let_ranks_go({"verdict": verdict})
        elif not verdict["problem"] and not verdict["skip"]:
            atexit._run_exitfuncs()
        process.flush()
        self.write(VERDICT, json.dumps(verdict).encode())

    def join(self, case, fn):
        if not case.processes:
            self.let_ranks_go({"verdict": {"skip": "setUp() started no process", "problem": ""}})
            return
        if fn in case.special_return_code_checks or fn in case.skip_return_code_checks or is_expected_to_fail(case, fn):
            self.write(HELD, b"")
        changed = {name: value for name, value in os.environ.items() if self.before.get(name) != value}
        removed = [name for name in self.before if name not in os.environ]
        self.let_ranks_go({"changed": changed, "removed": removed, "calls": [one.call() for one in case.processes]})
        ends = self.wait_for_ranks()
        for process_of_rank, end in zip(case.processes, ends):
            process_of_rank.exitcode = end["code"]
        case.pid_to_pipe = {one.pid: TracebackPipe(end["text"]) for one, end in zip(case.processes, ends)}
        type(case)._join_processes(case, fn)

    def let_ranks_go(self, left):
        process.flush()
        self.write(SET_UP, pickle.dumps(left))
        os.close(self.ready)
        self.ready = None

    def wait_for_ranks(self):
        with open(self.ended, "rb") as pipe:
            line = pipe.readline()
        if not line:
            os._exit(0)  # The host has exited.
        return json.loads(line)

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path + "~", "wb") as file:
            file.write(data)
        os.rename(path + "~", path)


def record_processes(case):
    logging.disable(logging.INFO)  # "Started process 0 with pid -1"
    type(case)._start_processes(case, RecordedProcess)
    logging.disable(logging.NOTSET)


def is_expected_to_fail(case, fn):
    return any(getattr(one, "__unittest_expecting_failure__", False) for one in (case, fn))


def problems_of(result):
    problems = [text for _, text in result.errors + result.failures]
    if result.unexpectedSuccesses:
        problems.append("unexpected success: the test is marked expectedFailure, but passes")
    return problems


def verdict_of(result):
    """What unittest says: a problem, a reason to skip, or neither."""
    return {"problem": "\n".join(problems_of(result)), "skip": result.skipped[0][1] if result.skipped else ""}
