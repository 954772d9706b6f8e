#!/usr/bin/env python3
"""Checks the documentation: its text, and that the tutorials do what they say.

    cmake/check_docs.py text DISTRUN                      links, flags, length of paragraphs
    cmake/check_docs.py run BUILD [--libtorch DIR] PAGE…  runs the commands of these pages

CONTRIBUTING.md describes the form of a page.  DISTRUN is the program, BUILD the folder that it was built in."""

import argparse
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import fcntl
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Pages that document the flags of a command.
PAGES_OF_FLAGS = {"launch": "docs/torchrun.md", "check": "docs/check.md", "env": "docs/engines.md", "stacks": "docs/hangs.md", "top": "docs/top.md", "replay": "docs/recording.md", "test": "docs/testing.md", "store": "docs/store.md"}

# Flags of other programs that the documentation names: cmake, python, git, pip, gdb, torchrun, mpirun, the benchmarks.
OTHER_FLAGS = set("""
    --against-python --args --build --epochs --gtest_filter --install --launchers --lr --mebibytes --n --only --preset --prefix --quick
    --component --distribution --kill-on-bad-exit --nodes --ntasks --ntasks-per-node --oversubscribe --strip --strip-components --workflow --rounds --shapes --against --workers --recurse-submodules --nproc-per --nproc
    --erf_input --follow --shm-size --signal --update --mpi --no-index --ops --ranks --sizes --two-hosts --views
""".split())

WIDTH_MAX, PARAGRAPH_LINES_MAX, ITEM_LINES_MAX = 160, 5, 2


class Block:
    """A fenced block: its info string, the number of its first line, its lines, and the file that it is saved as."""

    def __init__(self, info, line):
        self.info, self.line, self.lines, self.file = info, line, [], ""

    def text(self):
        return "".join(line + "\n" for line in self.lines)


def parse(text):
    """The blocks of a page, and its lines with those of blocks emptied."""
    blocks, outside, fence, last = [], [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if fence is None and (match := re.match(r"(`{3,})(.*)", stripped)):
            fence, indent = match[1], len(line) - len(line.lstrip())
            blocks.append(Block(match[2].strip(), number + 1))
            if saved := re.search(r"Save this as `([\w./-]+)`:$", last):
                blocks[-1].file = saved[1]
            outside.append("")
        elif fence is not None:
            if stripped == fence:
                fence, last = None, ""
            else:
                blocks[-1].lines.append(line[indent:] if not line[:indent].strip() else line)
            outside.append("")
        else:
            last = stripped or last
            outside.append(line)
    return blocks, outside


# ---- Text -----------------------------------------------------------------------------------------------------------


def slug(heading):
    """The anchor that GitHub gives a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    found = set()
    for line in parse(page.read_text())[1]:
        if match := re.match(r"#+ (.*)", line):
            anchor, count = slug(match[1]), 0
            while anchor + (f"-{count}" if count else "") in found:
                count += 1
            found.add(anchor + (f"-{count}" if count else ""))
    return found


def without_code(line):
    return re.sub(r"`[^`]*`", "", line)


def link_problems(root, page, outside):
    for number, line in enumerate(outside, 1):
        for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", without_code(line)):
            target = target[0] or target[1]
            if target.startswith(("https://", "http://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            file = (root / page).parent / path if path else root / page
            if path.startswith("/") or not file.exists():
                yield f"{page}:{number}: {target} does not exist"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{page}:{number}: {path or page} has no heading #{anchor}"


def flags_in(text):
    return re.findall(r"(?<![\w-])(--[a-z][a-z0-9_-]*[a-z0-9])", text)


def unknown_flag_problems(page, text, known):
    """Flags in code, in spans and blocks, that no command has."""
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith("```"):
            in_block = not in_block
            continue
        code = line if in_block else " ".join(re.findall(r"`([^`]*)`", line))
        for flag in flags_in(code):
            if flag not in known and flag.replace("_", "-") not in known:
                yield f"{page}:{number}: there is no flag {flag}"


def length_problems(page, outside):
    start, lines, kind = 0, 0, ""

    def end():
        most = PARAGRAPH_LINES_MAX if kind == "paragraph" else ITEM_LINES_MAX
        if lines > most:
            yield f"{page}:{start}: {kind} of {lines} lines, at most {most}"

    for number, line in enumerate(outside + [""], 1):
        stripped = line.strip()
        is_item = re.match(r"([-*]|\d+\.) ", stripped)
        if not stripped or stripped.startswith(("|", "#", "<")) or is_item:
            yield from end()
            start, lines, kind = number, 1 if is_item else 0, "list item" if is_item else "paragraph"
        else:
            if lines == 0:
                start, kind = number, "paragraph"
            lines += 1
        if len(line) > WIDTH_MAX and not stripped.startswith(("|", "#")):
            yield f"{page}:{number}: {len(line)} characters, at most {WIDTH_MAX}"


class Help:
    """The commands of a distrun and their flags, as --help prints them."""

    def __init__(self, ask):
        self.flags = {}  # "store get" → {"--raw", …}
        waiting = [()]
        while waiting:
            command = waiting.pop()
            text, below = ask(command), False
            self.flags[" ".join(command)] = set(re.findall(r"^ {1,8}(?:-\w, *)?(--[a-z][a-z-]*)", text, re.M)) - {"--help"}
            for line in text.splitlines():
                if re.match(r"\S.*:$", line):
                    below = line.lower().endswith("commands:")
                elif below and (match := re.match(r"  ([a-z][a-z-]*)(?: |$)", line)):
                    waiting.append((*command, match[1]))

    def all(self):
        return set().union({"--help"}, *self.flags.values())


def undocumented_problems(root, known):
    for command, flags in known.flags.items():
        if not command or not flags:
            continue
        page = PAGES_OF_FLAGS.get(command.split()[0])
        if page is None or not (root / page).exists():
            yield f"distrun {command}: no page documents its flags"
            continue
        named = set(flags_in((root / page).read_text()))
        for flag in sorted(flags - named):
            yield f"{page}: {flag} of distrun {command} is not documented"


def text_problems(root, pages, known):
    yield from undocumented_problems(root, known)
    for page in pages:
        text = (root / page).read_text()
        blocks, outside = parse(text)
        yield from link_problems(root, page, outside)
        if page != "docs/errors.md":  # Generated, with messages about flags that do not exist.
            yield from unknown_flag_problems(page, text, known.all() | OTHER_FLAGS)
            yield from length_problems(page, outside)


def tracked_pages(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True, text=True)
    if listed.returncode == 0:
        return sorted(page for page in listed.stdout.split() if (root / page).exists())
    return sorted(str(page.relative_to(root)) for top in ("*.md", "docs/**/*.md") for page in root.glob(top))


# ---- Tutorials ------------------------------------------------------------------------------------------------------


def matches(pattern, line):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), line) is not None


def same_in_order(expected, got):
    """Whether `got` is `expected`, in which "…" stands for anything, and alone on a line for any lines."""
    if not expected:
        return not got
    if expected[0].strip() == "…":
        return any(same_in_order(expected[1:], got[skip:]) for skip in range(len(got) + 1))
    return bool(got) and matches(expected[0], got[0]) and same_in_order(expected[1:], got[1:])


def same_in_any_order(expected, got):
    left, more = list(got), False
    for pattern in expected:
        if pattern.strip() == "…":
            more = True
        elif (found := next((line for line in left if matches(pattern, line)), None)) is None:
            return False
        else:
            left.remove(found)
    return more or not left


class Step:
    """A block to run, or to save as a file, with the output that the page shows after it."""

    def __init__(self, block):
        self.block, self.expected = block, None


def steps_of(text):
    steps = []
    for block in parse(text)[0]:
        language = block.info.split()[0] if block.info else ""
        if block.file or language == "sh":
            steps.append(Step(block))
        elif language == "text" and steps and not steps[-1].block.file and steps[-1].expected is None:
            steps[-1].expected = block
    return steps


def script_of(steps, mark):
    script = ["set -e"]
    for number, step in enumerate(steps):
        script.append(f"printf '%s\\n' '{mark} {number}'")
        if step.block.file:
            script.append(f"mkdir -p \"$(dirname '{step.block.file}')\"\ncat >'{step.block.file}' <<'{mark}'\n{step.block.text()}{mark}")
        else:
            script.append(step.block.text())
    return "\n".join([*script, f"printf '%s\\n' '{mark} end'", ""])


def run_on_terminal(script, folder, environment, timeout):
    """Runs a bash script as its user sees it, and returns its exit status, or None after the timeout, and its output."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    (folder / "script").write_text(script)

    def take_terminal():
        os.setsid()
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(["bash", str(folder / "script")], cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL,
                               stdout=child, stderr=child, preexec_fn=take_terminal)
    os.close(child)
    output, deadline, ended = b"", time.monotonic() + timeout, False
    while time.monotonic() < deadline:
        readable = select.select([parent], [], [], 0.2)[0]
        if readable:
            try:
                data = os.read(parent, 65536)
            except OSError:  # No process has the terminal any more.
                break
            output += data
        elif ended:
            break  # Only background processes of the script still have the terminal.
        ended = process.poll() is not None
    try:
        # It gives up the terminal a moment before it ends.
        status = process.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        status = None
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    os.close(parent)
    if status is None:
        process.kill()
        process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode(errors="replace"))
    # A carriage return starts a progress line again.
    return status, "\n".join(line.split("\r")[-1] for line in text.replace("\r\n", "\n").split("\n"))


def step_problems(page, steps, status, text, mark):
    parts = dict.fromkeys(range(len(steps)))
    reached_end = False
    for part in text.split(mark + " ")[1:]:
        name, _, output = part.partition("\n")
        if name.isdigit():
            parts[int(name)] = output.splitlines()
        else:
            reached_end = name == "end"
    for number, step in enumerate(steps):
        got = parts[number]
        if got is None:
            break
        where, shown = f"{page}:{step.block.line}", "\n    ".join(["", *got])
        if not reached_end and parts.get(number + 1) is None:
            yield f"{where}: {'timed out' if status is None else f'failed with status {status}'}; its output:{shown}"
            return
        if step.expected is not None:
            got = [line.rstrip() for line in got if line.strip()]
            expected = [line.rstrip() for line in step.expected.lines if line.strip()]
            same = same_in_any_order if "any-order" in step.expected.info.split() else same_in_order
            if not same(expected, got):
                yield f"{page}:{step.expected.line}: the output is not as shown; it is:{shown}"


def page_problems(page, text, environment, timeout, verbose=False):
    steps = steps_of(text)
    mark = "check_docs-" + os.urandom(8).hex()
    with tempfile.TemporaryDirectory(prefix="distrun-docs-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        environment = {**environment, "HOME": name, "XDG_CACHE_HOME": f"{name}/cache"}
        status, output = run_on_terminal(script_of(steps, mark), folder, environment, timeout)
        if verbose:
            print(output)
        yield from step_problems(page, steps, status, output, mark)


def user_environment(build, libtorch, clone):
    """The environment of a user who follows docs/README.md: distrun on PATH, DISTRUN and LIBTORCH set."""
    ours = re.compile(r"(DISTRUN|PET|TORCHELASTIC|MASTER|CTEST|GTEST)_|(RANK|WORLD_SIZE|LOCAL_RANK|MAKEFLAGS)$")
    environment = {name: value for name, value in os.environ.items() if not ours.match(name)}
    clone.mkdir()
    for entry in ROOT.iterdir():
        if entry.name != "build":
            (clone / entry.name).symlink_to(entry)
    (clone / "build").symlink_to(build)
    environment.update(DISTRUN=str(clone), LIBTORCH=libtorch, PATH=f"{clone}/build:{environment['PATH']}", TERM="xterm")
    return environment


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    text = commands.add_parser("text")
    text.add_argument("distrun")
    run = commands.add_parser("run")
    run.add_argument("build", type=Path)
    run.add_argument("pages", nargs="+")
    run.add_argument("--libtorch", default="")
    run.add_argument("--timeout", type=float, default=250, help="seconds for each page")
    run.add_argument("--verbose", action="store_true", help="print what the commands print")
    options = parser.parse_args(argv)

    problems = []
    if options.command == "text":
        def ask(command):
            return subprocess.run([options.distrun, *command, "--help"], capture_output=True, text=True, check=True).stdout
        problems += text_problems(ROOT, tracked_pages(ROOT), Help(ask))
    else:
        with tempfile.TemporaryDirectory(prefix="distrun-clone-") as folder:
            environment = user_environment(options.build.resolve(), options.libtorch, Path(folder) / "distrun")
            for page in options.pages:
                problems += page_problems(page, (ROOT / page).read_text(), environment, options.timeout, options.verbose)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
