#!/usr/bin/env python3
"""Checks every #include of the project against the architecture: an include only points down.

FOLDERS lists the folders and their rooms, lowest first.  A file may include its own room and those below it.  A header
in include/distrun/ belongs to the folder whose CMakeLists.txt lists it under HEADERS, and there to the room with
the .cc file of its name, or to the room that PUBLIC names.  `--rooms` prints each file's.

Besides:
- public headers include public headers only, and every include/distrun/*.h is installed by a HEADERS list;
- folders that `distrun` links include nothing of LibTorch;
- only tests include files in test/ folders.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# "." is the folder itself; rooms in a tuple are siblings, which do not include each other.
FOLDERS = {
    "common": [".", "text", "os", "crash", "operations"],
    "store": ["protocol", "network", "table", "server", "client"],
    "evidence": [".", "operations", "flight", "nccl", "python", "stacks", "connections", "report"],
    "pages": ["."],
    "recording": ["."],
    "launcher": ["process", "control", "output", "engines", "plan", "outcome", "nodes", "report", "run", "hosts", "preflight"],
    "backends": ["group", "shm/host", ("gloo", "nccl", "fake", "round_robin", "shm"), "hosts", "."],
    "sharing": ["memory", "queue", "spawn"],
    "parallel": ["arguments", "agreement", "failure", "join", "mesh", ("averaging", "data", "ddp", "fsdp", "functional", "norm", "pipeline", "shard", "tensor", "trace"), ("checkpoint", "hooks", "optim")],
    "testsuites": ["harness/protocol", "harness/host", "harness/select", "harness/run", "harness/nodes", "harness/report", "harness/session", "testing",
                   "mutation", "gloo", "join", "spawn", "fake", "nccl", "selftest"],
    "cli": ["."],
}
# Public headers without a .cc file, in folders that have rooms.
PUBLIC = {
    "result.h": "common",
    "store_limits.h": "store/protocol",
    "work.h": "backends/group",
    "ddp_options.h": "parallel/ddp",
    "ddp_model.h": "parallel/ddp",
    "fake_options.h": "backends/fake",
    "nccl_options.h": "backends/nccl",
    "placement.h": "parallel/mesh",
    "fsdp_options.h": "parallel/fsdp",
    "fully_sharded_data_parallel.h": "parallel/fsdp",
    "pipeline.h": "parallel/pipeline",
    "visit_packed_sequence.h": "parallel/arguments",
    "visit_tensors.h": "parallel/arguments",
    "detail/divided_module.h": "parallel/mesh",
    "detail/divided_optimizer.h": "parallel/mesh",
    "detail/module_traits.h": "parallel/arguments",
    "detail/move_arguments.h": "parallel/arguments",
    "zero_redundancy_optimizer.h": "parallel/optim",
    "detail/value_kind.h": "parallel/arguments",
}
# Folders that may use everything and that nothing may use.
TOP = ["examples", "bench", "cmake"]
# Linked into distrun, so without LibTorch; of testsuites/ only the harness.
WITHOUT_LIBTORCH = ("common/", "store/", "evidence/", "pages/", "recording/", "launcher/", "cli/", "testsuites/harness/")
LIBTORCH = re.compile(r"(torch|ATen|c10|caffe2|gloo)/")
INCLUDE = re.compile(r'\s*#\s*(?:include|import)\s*(["<])([^">]+)[">]')


def levels() -> dict[str, int]:
    """The level of each room, such as "common" or "common/text"; the lowest is 0."""
    places = [(folder, room if isinstance(room, tuple) else (room,)) for folder, rooms in FOLDERS.items() for room in rooms]
    return {folder if room == "." else f"{folder}/{room}": place
            for place, (folder, siblings) in enumerate(places) for room in siblings}


def is_of_tests(file: str) -> bool:
    return file.endswith("_test.cc") or "/test/" in file or file.startswith(("testsuites/selftest/", "store/fuzz/"))


def public_headers() -> dict[str, str]:
    """The public headers in HEADERS lists, and the folders of those lists."""
    found = {}
    for lists in ROOT.glob("*/**/CMakeLists.txt"):
        for block in re.findall(r"^\s*HEADERS\b([^()]*?)(?=\n\s*[A-Z_]{4,}\b|\))", lists.read_text(), re.M):
            found |= dict.fromkeys(block.split(), lists.parent.relative_to(ROOT).as_posix())
    return found


class Tree:
    def __init__(self, files: list[str]):
        self.levels = levels()
        self.files = set(files)
        self.public = public_headers()

    def room_of(self, file: str) -> str | None:
        """The room of a file, by its path from the root; None if it has none."""
        if file.startswith("include/distrun/"):
            return self.room_of_public(file.removeprefix("include/distrun/"))
        folder = str(pathlib.PurePosixPath(file).parent)
        while folder not in self.levels:
            parent = str(pathlib.PurePosixPath(folder).parent)
            # A folder's own files (tests, CMakeLists.txt) are at the level of its highest room.
            if parent == ".":
                rooms = [name for name in self.levels if name.startswith(folder + "/")]
                return max(rooms, key=self.levels.get) if rooms else (folder if folder in TOP else None)
            folder = parent
        return folder

    def room_of_public(self, header: str) -> str | None:
        folder = self.public.get(header)
        if header in PUBLIC or folder is None:
            return PUBLIC.get(header)
        if folder in self.levels and not any(name.startswith(folder + "/") for name in self.levels):
            return folder
        source = f"/{pathlib.Path(header).stem}.cc"
        rooms = {self.room_of(file) for file in self.files if file.startswith(folder + "/") and file.endswith(source)}
        return rooms.pop() if len(rooms) == 1 else None

    def level_of(self, room: str) -> int:
        return len(self.levels) if room in TOP else self.levels[room]

    def problem_with(self, file: str, quoted: bool, target: str) -> str:
        room = self.room_of(file)
        if LIBTORCH.match(target):
            return f"brings LibTorch into {room}/" if f"{room}/".startswith(WITHOUT_LIBTORCH) else ""
        if not quoted and not target.startswith("distrun/") and target not in self.files:
            return ""  # A system or library header.
        path = f"include/{target}" if target.startswith("distrun/") else target
        if file.startswith("examples/library/") and f"examples/library/{target}" in self.files:
            return ""  # A user's project.
        if path not in self.files:
            return "is neither a public header nor written from the project's root"
        if file.startswith("include/") and not path.startswith("include/"):
            return "is not public, and users get this header"
        if "/test/" in path and not is_of_tests(file) and room not in TOP:
            return "is for tests only"
        other = self.room_of(path)
        if other is None:
            return ""  # Reported for the header itself.
        folder, of_folder = room.split("/")[0], other.split("/")[0]
        if folder == "cli" and of_folder == "testsuites" and not other.startswith("testsuites/harness/"):
            return "is not of testsuites/harness/, which is all that distrun links"
        # A test may use its whole folder.
        if self.level_of(other) > self.level_of(room) and not (is_of_tests(file) and folder == of_folder):
            return f"points up: {room}/ is below {other}/"
        if self.level_of(other) == self.level_of(room) and other != room and not is_of_tests(file):
            return f"points sideways: {room}/ and {other}/ are siblings"
        return ""


def check(tree: Tree) -> list[str]:
    problems = []
    for file in sorted(tree.files):
        room = tree.room_of(file)
        if file.startswith("include/distrun/") and file.removeprefix("include/distrun/") not in tree.public:
            problems.append(f"{file}: no CMakeLists.txt lists it under HEADERS, so it is not installed")
            continue
        if room is None:
            problems.append(f"{file}: no room of the architecture: cmake/check_includes.py lists them")
            continue
        for number, line in enumerate((ROOT / file).read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            problem = tree.problem_with(file, found.group(1) == '"', found.group(2)) if found else ""
            if problem:
                problems.append(f"{file}:{number}: {line.strip()} {problem}")
    return problems


def main(arguments: list[str]) -> int:
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc", "*.h"],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    tree = Tree([file for file in files if (ROOT / file).exists()])
    if arguments == ["--rooms"]:
        for file in sorted(tree.files):
            print(f"{tree.room_of(file)}\t{file}")
        return 0
    problems = check(tree)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
