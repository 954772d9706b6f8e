"""Shared memory and files that a rank leaves behind, as testsuites/testing/leftovers.h finds them.

    before = Leftovers()
    ...                       # The test.
    for one in before.new():  # "shared memory: /dev/shm/psm_3f2a"
"""
import os
import re

SHARED_MEMORY = "/dev/shm/"
FOLDERS = (SHARED_MEMORY, "/tmp/", "/var/tmp/")
IGNORE = "DISTRUN_TEST_IGNORE_LEAKS"  # As in rank_variables.h.


class Leftovers:
    def __init__(self):
        self.process, self.shared, self.named = os.getpid(), paths_in(SHARED_MEMORY), named_files()

    def new(self):
        if os.getpid() != self.process or IGNORE in os.environ:
            return []
        found = named_files() - self.named
        shared = paths_in(SHARED_MEMORY) - self.shared
        if shared:  # It may have any name, but the rank maps it.
            found |= shared & mapped_files()
        return [("shared memory: " if path.startswith(SHARED_MEMORY) else "a file: ") + path for path in sorted(found)]


def paths_in(folder):
    try:
        return {folder + name for name in os.listdir(folder)}
    except OSError:
        return set()


def named_files():
    """Those whose names have the number of this process.  torch_shm_manager removes the files of PyTorch later."""
    number = re.compile(rf"(?<!\d){os.getpid()}(?!\d)")
    found = set()
    for folder in FOLDERS:
        for path in paths_in(folder):
            if number.search(path) and not path.startswith(SHARED_MEMORY + "torch_") and is_own(path):
                found.add(path)
    return found


def is_own(path):
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def mapped_files():
    with open("/proc/self/maps", errors="replace") as maps:
        return {line[line.index("/"):].rstrip("\n") for line in maps if "/" in line}
