#!/usr/bin/env python3
"""Tests of the texts that distrun prints, and of docs/errors.md, which is made from the same table.

    texts_test.py PROGRAM help       each --help is the file in help/
    texts_test.py PROGRAM errors     each case in errors/*.toml prints exactly what it says
    texts_test.py PROGRAM page       docs/errors.md is up to date
    texts_test.py PROGRAM sources    each error text in the sources is in a case or a test

With --update behind it, each writes its files: help/, the statuses and texts of the cases, the page,
errors/untested.txt and errors/untested_library.txt.
"""

import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HELP, ERRORS, PAGE = HERE / "help", HERE / "errors", ROOT / "docs" / "errors.md"
UNTESTED, UNTESTED_LIBRARY = ERRORS / "untested.txt", ERRORS / "untested_library.txt"
COMMANDS = ["", "launch", "check", "env", "stacks", "top", "test", "replay", "help", "store"] + ["store " + name for name in (
    "serve get set add wait compare-set delete keys barrier status").split()]
TIMEOUT_S = 60
HELP_COLUMNS_MAX = 100  # Usage examples may be longer than the 90 of a flag.


def environment(folder):
    return {"PATH": "/usr/bin:/bin", "HOME": folder, "TMPDIR": folder, "LC_ALL": "C"}


def fail(problems, hint):
    for problem in problems:
        print(problem)
    if problems:
        print(hint)
    return 1 if problems else 0


# ---- help

def test_help(program, update):
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            out = subprocess.run([program, *command.split(), "--help"], capture_output=True, text=True,
                                 timeout=TIMEOUT_S, env=environment(folder), check=True).stdout
            file = HELP / (("distrun " + command).strip().replace(" ", "_") + ".txt")
            if update:
                file.write_text(out)
            if not file.exists() or file.read_text() != out:
                problems.append(f"distrun {command} --help differs from {file.relative_to(ROOT)}:\n{out}")
            problems += [f"distrun {command} --help: longer than {HELP_COLUMNS_MAX} columns: {line}"
                         for line in out.splitlines() if len(line) > HELP_COLUMNS_MAX]
    return fail(problems, "Read the new text; if it is right: cli/test/texts_test.py PROGRAM help --update")


# ---- errors

def subjects():
    """[(title, cases)], in the order of the files' names."""
    tables = [tomllib.loads(file.read_text()) for file in sorted(ERRORS.glob("*.toml"))]
    return [(table["title"], table["error"]) for table in tables]


def pattern(text, folder, port):
    """A regular expression for `text`, in which {number}, {path}, {host} and {function} stand for any."""
    text = text.replace("{folder}", folder).replace("{port}", str(port))
    expression = re.escape(text)
    expression = expression.replace(r"\ \ \{function\}\n", r"(?:\ \ .+\n)+").replace(r"\{function\}", r".+")
    return expression.replace(r"\{number\}", r"\d+").replace(r"\{path\}", r"[^\s:,]+").replace(r"\{host\}", r"[^\s:,]+")


def start_store(program, folder):
    path = pathlib.Path(folder) / "port"
    store = subprocess.Popen([program, "store", "serve", "--port-file", path], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env=environment(folder))
    for _ in range(TIMEOUT_S * 100):
        if path.exists():
            return store, path.read_text().strip()
        time.sleep(0.01)  # Polls; bounded by the loop.
    raise TimeoutError("distrun store serve did not write its port")


class StoreOfTorch(threading.Thread):
    """Answers a client's greeting as PyTorch's TCPStore does, and closes the connection on the next request.  It closes
    the connections of distrun's nodes at once."""

    def __init__(self):
        super().__init__(daemon=True)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(TIMEOUT_S)
        self.port = self._socket.getsockname()[1]
        self.start()

    def run(self):
        with self._socket:
            while True:
                try:
                    connection, _ = self._socket.accept()
                except TimeoutError:
                    return
                with connection:
                    connection.settimeout(TIMEOUT_S)
                    greeting = connection.recv(10, socket.MSG_WAITALL)  # Validate with a number, ping with a number.
                    if greeting[0] == 0:
                        connection.sendall(greeting[-4:])
                        connection.recv(1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# Runs a command in a separate network, where it sees no other run.
ALONE = ["unshare", "--user", "--map-root-user", "--net"]


@functools.cache
def can_be_alone():
    return subprocess.run([*ALONE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


# Runs a command where /proc/driver, /sys and /dev are those of make_machine().
WITH_GPUS = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", """
mount --bind proc/driver /proc/driver
mount --bind sys /sys
mount --bind /dev/null dev/null
mount --rbind dev /dev
exec "$@"
""", "sh"]


@functools.cache
def can_have_gpus():
    with tempfile.TemporaryDirectory() as folder:
        make_machine(folder, 1)
        return subprocess.run([*WITH_GPUS, "true"], cwd=folder, stderr=subprocess.DEVNULL, check=False).returncode == 0


def make_machine(folder, gpus):
    """Makes the files of a machine whose GPUs and CPUs are in NUMA node 0, and whose CPUs are threads of one core."""
    def write(path, text):
        file = pathlib.Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("dev/null", "")
    for gpu in range(gpus):
        address = f"0000:{gpu + 17}:00.0"
        write(f"proc/driver/nvidia/gpus/{address}/information", f"GPU UUID: \t GPU-{gpu}{gpu}\nDevice Minor: \t {gpu}\n")
        write(f"sys/bus/pci/devices/{address}/numa_node", "0\n")
        write(f"dev/nvidia{gpu}", "")
    write("sys/devices/system/node/node0/cpulist", "0-8191\n")
    for cpu in os.sched_getaffinity(0):
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", "0-8191\n")


def write_case(case, status, err, folder, port):
    """Puts what was printed into the case's file, with {…} for what varies."""
    err = err.replace(folder, "{folder}")
    if port:
        err = err.replace(f":{port}", ":{port}")
    err = re.sub(r"\bpid \d+", "pid {number}", err)
    err = re.sub(r"(  local rank .*) on \S+, (.* after )\d+\.\d s", r"\1 on {host}, \2{number}.{number} s", err)
    old = f"status = {case['status']}\nstderr = '''\n{case['stderr']}'''\n"
    new = f"status = {status}\nstderr = '''\n{err}'''\n"
    for file in ERRORS.glob("*.toml"):
        head, run, rest = file.read_text().partition(f"run = {case['written']}\n")
        if run and old in rest:
            file.write_text(head + run + rest.replace(old, new, 1))


def run_case(program, case, update):
    """What is wrong with the case; empty if nothing."""
    if (case.get("alone") and not can_be_alone()) or (case.get("gpus") and not can_have_gpus()):
        print(f"not run, as namespaces cannot be made here: {case['run']}")
        return ""
    folder = tempfile.mkdtemp()
    store, port = start_store(program, folder) if case.get("store") else (None, 0)
    if case.get("store_of_torch"):
        port = StoreOfTorch().port
    elif not store and "{port}" in case["run"]:
        port = free_port()
    try:
        if case.get("gpus"):
            make_machine(folder, case["gpus"])
        if "setup" in case:
            subprocess.run(["sh", "-ec", case["setup"]], cwd=folder, check=True, timeout=TIMEOUT_S)
        words = [word.replace("{port}", str(port)).replace("{folder}", folder)
                 for word in shlex.split(case["run"])]
        words[0] = shutil.copy(program, folder) if case.get("copied") else program
        if case.get("alone"):
            words = [*ALONE, *words]
        if case.get("gpus"):
            words = [*WITH_GPUS, *words]
        ran = subprocess.run(words, cwd=folder, capture_output=True, timeout=TIMEOUT_S,
                             input=case.get("stdin", "").encode(),
                             env=environment(folder) | case.get("env", {}))
        err = ran.stderr.decode()
        right = ran.returncode == case["status"] and re.fullmatch(pattern(case["stderr"], folder, port), err)
        if update and not right:
            write_case(case | {"written": json.dumps(case["run"], ensure_ascii=False)}, ran.returncode, err,
                       folder, port)
            return ""
        if ran.returncode != case["status"]:
            return f"$ {case['run']}\nexit status {ran.returncode} instead of {case['status']}\n{err}"
        if not re.fullmatch(pattern(case["stderr"], folder, port), err):
            return f"$ {case['run']}\nprints:\n{err}instead of:\n{case['stderr']}"
        return ""
    finally:
        if store:
            store.terminate()
            store.wait(TIMEOUT_S)
        shutil.rmtree(folder)


def test_errors(program, update):
    problems = [run_case(program, case, update) for _, cases in subjects() for case in cases]
    return fail([problem for problem in problems if problem], "Cases are in cli/test/errors/.")


# ---- the page

def page():
    text = """# Errors

This page lists error messages of distrun. Each entry shows a command, the message, the exit status, the meaning, and what to do.
`make test` runs every command and compares the output. {number}, {path}, {host}, {function}, {port} and {folder} stand for text that varies.

<!-- Made from cli/test/errors/*.toml by `cli/test/texts_test.py PROGRAM page --update`. -->
"""
    for title, cases in subjects():
        text += f"\n## {title}\n"
        for case in cases:
            variables = "".join(f"{name}={shlex.quote(value)} " for name, value in case.get("env", {}).items())
            text += f"\n```\n$ {variables}{case['run']}\n{case['stderr']}```\n"
            text += f"Exit status {case['status']}. {case['means']} {case.get('do', '')}".rstrip() + "\n"
    return text


def test_page(_, update):
    if update:
        PAGE.write_text(page())
    stale = not PAGE.exists() or PAGE.read_text() != page()
    return fail(["docs/errors.md is not what cli/test/errors/ makes of it"] if stale else [],
                "Write it anew: cli/test/texts_test.py PROGRAM page --update")


# ---- the sources

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
MAKES_ERROR = re.compile(r"\b(?:Error\s*\{|Error::from_errno\(|(?:ValidationError|ParseError|RequiredError)\(|"
                         r"(?:wrong|refuse|refused|invalid|protocol_error|bad|unknown)\(|with_context\()")
FRAGMENT_MIN = 8


def arguments(source, begin):
    """What stands between the bracket before `begin` and the one that closes it."""
    depth, at = 1, begin
    while at < len(source) and depth > 0:
        string = STRING.match(source, at)
        if string:
            at = string.end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(source[at], 0)
        at += 1
    return source[begin:at]


def fragments(source):
    """The longest piece without placeholders of each error text in `source`."""
    for match in MAKES_ERROR.finditer(source):
        inside = arguments(source, match.end())
        inside = re.sub(r'"\s*\n\s*"', "", inside)  # Adjacent literals.
        for text in STRING.findall(inside):
            text = text.replace(r"\"", '"').replace(r"\n", "\n")
            longest = max((piece.strip(" :;,\n") for piece in re.split(r"\{[^}]*\}", text)), key=len)
            if len(longest) >= FRAGMENT_MIN and " " in longest:
                yield longest


def one_literal(source):
    """`source` with adjacent literals joined."""
    return re.sub(r'"\s*\n\s*"', "", source)


def is_test(file):
    return "_test." in file.name or "/test/" in str(file)


def untested_of_programs():
    """FILE: TEXT of each error text of distrun that is in no case and no test."""
    held = "".join(case["stderr"] for _, cases in subjects() for case in cases)
    folders = [ROOT / name for name in ("cli", "common", "evidence", "launcher", "store", "testsuites/harness")]
    sources = [file for folder in folders for file in sorted(folder.rglob("*.cc"))]
    for file in sources + sorted(ROOT.glob("cli/*_test.py")) + sorted(ROOT.glob("testsuites/selftest/*_test.cc")):
        if is_test(file):
            held += one_literal(file.read_text()).replace(r"\"", '"')
    return sorted({f"{file.relative_to(ROOT)}: {fragment}" for file in sources
                   if not is_test(file) and "/fuzz/" not in str(file)
                   for fragment in fragments(file.read_text()) if fragment not in held})


# ---- the sources of the library. It never prints, so nearly every literal in it is of an error.

NO_LITERAL = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\(.*?\)"|'(?:\\.|[^'\\\n])'|^[ \t]*\#[^\n]*"""
                        r"""|("(?:[^"\\\n]|\\.)*")""", re.DOTALL | re.MULTILINE)
PLACEHOLDER = re.compile(r"\{[^}]*\}|%[-0-9.*]*l*[sdzu]")
# Of testsuites/, what uses the library as a test does.
USES_LIBRARY = [f"testsuites/{name}" for name in ("fake", "gloo", "join", "spawn")]


def library_fragments(source):
    """The longest piece without placeholders of each literal that has a blank."""
    code = NO_LITERAL.sub(lambda match: match.group(1) or " ", source)
    for text in STRING.findall(one_literal(code)):
        text = text.replace(r"\"", '"').replace(r"\n", "\n")
        longest = max((piece.strip(" :;,\n") for piece in PLACEHOLDER.split(text)), key=len)
        if len(longest) >= FRAGMENT_MIN and " " in longest:
            yield longest


def untested_of_library():
    """FILE: TEXT of each error text of the library that is in no test."""
    files = [file for name in ("backends", "parallel", "sharing", "testsuites")
             for file in sorted((ROOT / name).rglob("*")) if file.suffix in (".cc", ".h", ".py")]
    held, sources = "", []
    for file in files:
        name = str(file.relative_to(ROOT))
        if is_test(file) or name.startswith(tuple(USES_LIBRARY)):
            # Tests may be regular expressions.
            held += one_literal(file.read_text()).replace(r"\"", '"').replace("\\\\", "")
        elif file.suffix != ".py" and (not name.startswith("testsuites/") or name.startswith("testsuites/testing/")):
            sources.append(file)
    return sorted({f"{file.relative_to(ROOT)}: {fragment}" for file in sources
                   for fragment in library_fragments(file.read_text()) if fragment not in held})


def compare_with_list(missing, file, update):
    """What is wrong with the list of untested texts. A line is FILE: TEXT, two blanks, # and the reason."""
    known = {line.partition("  # ")[0]: line for line in file.read_text().splitlines()}
    if update:
        file.write_text("".join(known.get(line, line) + "\n" for line in missing))
        return []
    problems = [f"no case and no test has this error text: {line}" for line in missing if line not in known]
    return problems + [f"{file.relative_to(ROOT)} lists what is tested or gone: {line}"
                       for line in known if line not in missing]


def test_sources(_, update):
    problems = compare_with_list(untested_of_programs(), UNTESTED, update)
    problems += compare_with_list(untested_of_library(), UNTESTED_LIBRARY, update)
    problems += [f"{UNTESTED_LIBRARY.relative_to(ROOT)} has no reason: {line}"
                 for line in UNTESTED_LIBRARY.read_text().splitlines() if "  # " not in line]
    return fail(problems, "Add a case to cli/test/errors/ or a unit test, or remove the stale line.")


def main():
    program, mode, *rest = sys.argv[1:]
    tests = {"help": test_help, "errors": test_errors, "page": test_page, "sources": test_sources}
    return tests[mode](str(pathlib.Path(program).resolve()), rest == ["--update"])


if __name__ == "__main__":
    sys.exit(main())
