"""Steps of a process that the host has forked."""
import ctypes
import json
import os
import select
import signal
import sys
import tempfile

MARK = "DISTRUN_TEST_RANK"  # As in rank_variables.h, like the names below.
WHERE_SIGNAL = signal.SIGRTMIN + 9  # As in where_signal.h.
COLLECTIVE_SIGNAL = signal.SIGRTMIN + 11
QUESTIONS = {WHERE_SIGNAL, COLLECTIVE_SIGNAL}
# PyTorch's ranks start without these, and some tests require that.
LEFT_OUT = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "DISTRUN_INIT_METHOD"}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.getenv.restype = ctypes.c_void_p


def die_with_parent(parent):
    PR_SET_PDEATHSIG = 1
    if _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(125)


def write_mark(mark):
    """In place too: /proc/PID/environ shows the initial bytes, by which distrun finds leaked processes."""
    place = _libc.getenv(MARK.encode())
    if place:
        ctypes.memmove(place, mark.encode(), len(mark))
    os.environ[MARK] = mark


def set_variables(variables):
    os.environ.pop("DISTRUN_TEST_HOST", None)
    for name, value in variables:
        if name.decode() not in LEFT_OUT:
            os.environ[os.fsdecode(name)] = os.fsdecode(value)
    tempfile.tempdir = None  # TMPDIR has changed.


def take_output(out, err):
    os.dup2(out, 1)
    os.dup2(err, 2)
    flush_each_line()


def flush_each_line():
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def read_json(file):
    """A path, or a descriptor, which it closes.  None if nothing complete is there."""
    try:
        with open(file, "rb") as opened:
            opened.seek(0)
            return json.loads(opened.read())
    except (OSError, ValueError):
        return None


def end_resource_tracker():
    """multiprocessing's helper would end by itself a moment after this process, and look like a leaked process."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    tracker = getattr(module, "_resource_tracker", None)
    pipe, pid = getattr(tracker, "_fd", None), getattr(tracker, "_pid", None)
    if pipe is None or pid is None:
        return
    try:
        pidfd = os.pidfd_open(pid)
        os.close(pipe)
        select.select([pidfd], [], [], 2)  # A process that the test left may hold the pipe too.
    except OSError:
        pass


def wait_until_set_up_ends(pipe):
    while os.read(pipe, 4096):
        pass
