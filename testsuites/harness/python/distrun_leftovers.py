"""Shared memory and files that a rank leaves behind, as testsuites/testing/leftovers.h finds them.

    before = Leftovers()
    ...                       # The test.
    for one in before.new():  # "shared memory: /dev/shm/psm_3f2a"
"""
import os
import re
import time

SHARED_MEMORY = "/dev/shm/"
FOLDERS = (SHARED_MEMORY, "/tmp/", "/var/tmp/")
SECONDS = 1  # Another rank may be about to remove what it shares.
IGNORE = "DISTRUN_TEST_IGNORE_LEAKS"  # As in rank_variables.h.


class Leftovers:
    def __init__(self):
        self.process, self.shared, self.named = os.getpid(), paths_in(SHARED_MEMORY), named_files()

    def new(self):
        if os.getpid() != self.process or IGNORE in os.environ:
            return []
        deadline = time.monotonic() + SECONDS
        found = self.found_now()
        while found and time.monotonic() < deadline:
            time.sleep(0.01)
            found = self.found_now()
        return [("shared memory: " if path.startswith(SHARED_MEMORY) else "a file: ") + path for path in sorted(found)]

    def found_now(self):
        found = named_files() - self.named
        shared = paths_in(SHARED_MEMORY) - self.shared
        if shared:  # It may have any name, but the rank maps it.
            found |= {path for path in shared & mapped_files() if not is_of_torch(path)}
        return found


def paths_in(folder):
    try:
        return {folder + name for name in os.listdir(folder)}
    except OSError:
        return set()


def named_files():
    """Those whose names have the number of this process."""
    number = re.compile(rf"(?<!\d){os.getpid()}(?!\d)")
    found = set()
    for folder in FOLDERS:
        for path in paths_in(folder):
            if number.search(path) and not is_of_torch(path) and is_own(path):
                found.add(path)
    return found


def is_of_torch(path):
    """torch_shm_manager removes these later."""
    return path.startswith(SHARED_MEMORY + "torch_")


def is_own(path):
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def mapped_files():
    with open("/proc/self/maps", errors="replace") as maps:
        return {line[line.index("/"):].rstrip("\n") for line in maps if "/" in line}
