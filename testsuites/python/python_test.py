#!/usr/bin/env python3
"""What `distrun test -- python3 misbehaving.py` says of each test.

    python_test.py DISTRUN PYTHON CASE      CASE is one of those below; PYTHON can import torch
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
FILE = FOLDER / "misbehaving.py"
TIME_LIMIT = "20"  # Of each test.

# Of all tests but those that hang: status and reason.
VERDICTS = {
    "GroupTest.test_passes": ("passed", ""),
    "GroupTest.test_rank_1_fails": ("failed", r"rank 1 failed: misbehaving\.py:\d+: AssertionError: Scalars are not equal! .*"),
    "GroupTest.test_rank_1_throws": ("failed", r"rank 1 failed: misbehaving\.py:\d+: ValueError: no such thing"),
    "GroupTest.test_rank_1_takes_longer": ("passed", ""),
    "GroupTest.test_a_fork_comes_back": ("passed", ""),
    "GroupTest.test_rank_0_crashes": ("failed", r"rank 0 crashed: signal SIGSEGV \(11\) in test_rank_0_crashes \(misbehaving\.py:\d+\)"),
    "GroupTest.test_rank_0_reads_null": ("failed", (
        r"rank 0 crashed: signal SIGSEGV \(11\) in string_at, called by test_rank_0_reads_null \(misbehaving\.py:\d+\)")),
    "GroupTest.test_rank_1_exits_early": ("failed", "rank 1 exited during its test: exit code 0"),
    "GroupTest.test_rank_1_exits_with_3": ("failed", "rank 1 exited during its test: exit code 3"),
    "GroupTest.test_leaves_a_process": ("failed", r"rank 1 failed: leaked processes: \d+ \(sleep\)"),
    "GroupTest.test_leaves_shared_memory": ("failed", r"rank 1 failed: left shared memory: /dev/shm/distrun_python_test_.*"),
    "GroupTest.test_leaves_a_file": ("failed", r"rank 1 failed: left a file: /tmp/distrun_python_test_\d+"),
    "GroupTest.test_removes_shared_memory": ("passed", ""),
    "GroupTest.test_needs_gpus": ("skipped", "Need at least 8 CUDA devices"),
    "GroupTest.test_skips_by_exit_code": ("skipped", "Skipped due to small world size."),
    "GroupTest.test_skips_in_the_test": ("skipped", "not today"),
    "GroupTest.test_is_skipped": ("skipped", "decorated"),
    "GroupTest.test_rank_1_skips": ("failed", "diverged: rank 1 skipped, rank 0 did not"),
    "GroupTest.test_is_expected_to_fail": ("passed", ""),
    "GroupTest.test_passes_unexpectedly": ("failed", "rank 0 failed: unexpected success: .*"),
    "GroupTest.test_with_size_size_1": ("passed", ""),
    "GroupTest.test_with_size_size_2": ("failed", r"rank \d failed: misbehaving\.py:\d+: AssertionError: 2 not less than 2"),
    "CollectivesTest.test_are_recorded": ("passed", ""),
    "CollectivesTest.test_dtypes_differ": ("failed", (
        r"ranks disagree: rank 1 ran allreduce of Double \[4\] as collective 1 of the default group, ranks 0, 2 ran allreduce of "
        r"Float \[8\]; set distrun_collectives_may_differ = True if this is intended")),
    "CollectivesTest.test_dtypes_differ_in_a_test_that_is_expected_to_fail": ("passed", ""),
    "CollectivesTest.test_dtypes_may_differ": ("passed", (
        r"ranks disagree, which collectives_may_differ allows: rank 1 ran allreduce of Double \[4\] as collective 1 .*")),
    "CollectivesTest.test_rank_2_skips_one": ("failed", (
        r"(ranks disagree: |timed out: ranks 0, 1 hung: )rank 2 had not (run|entered) collective 5 of the default group, "
        r"allreduce of Float \[8\], (which ranks 0, 1 ran|in which ranks? [01](, 1)? waited).*")),
    "CollectivesTest.test_rank_2_throws_later": ("failed", r"rank 2 failed: misbehaving\.py:\d+: ValueError: later"),
    "CollectivesTest.test_all_skip_later": ("skipped", "later"),
    "MayDifferTest.test_dtypes_differ": ("passed", "ranks disagree, which collectives_may_differ allows: rank 0 ran .*"),
    "FewAreKeptTest.test_dtypes_differ_at_first": ("passed", ""),
    "ExitTest.test_returns": ("passed", ""),
    "ExitTest.test_exits": ("failed", r"rank \d exited during its test: exit code 0"),
    "SetUpTest.test_variables_reach_the_ranks": ("passed", ""),
    "SetUpTest.test_set_up_skips": ("skipped", r"in setUp\(\)"),
    "SetUpTest.test_set_up_fails": ("failed", r"rank \d failed: RuntimeError: setUp\(\) fails"),
    "SetUpTest.test_set_up_dies": ("failed", r"rank \d failed: the process that calls setUp\(\) and tearDown\(\) failed: exit code 5 about to die"),
    "SetUpTest.test_tear_down_fails": ("failed", r"rank \d failed: RuntimeError: tearDown\(\) fails"),
    "SetUpTest.test_aborts": ("passed", ""),
    "NoProcessesTest.test_starts_no_process": ("skipped", r"setUp\(\) started no process"),
    "make_case_<locals>_Made.test_made": ("passed", ""),
    "make_case_<locals>_Made.test_with_[1,_2]": ("passed", ""),
    "Second.test_made": ("failed", r"rank 0 failed: misbehaving\.py:\d+: AssertionError: .*"),
    "PlainTest.test_passes": ("passed", ""),
    "PlainTest.test_fails": ("failed", r"rank 0 failed: misbehaving\.py:\d+: AssertionError: Scalars are not equal! .*"),
    "PlainTest.test_uses_locks": ("passed", ""),
    "PlainTest.test_skips": ("skipped", "plain"),
}


def environment_in(folder):
    paths = [str(FOLDER / "expecttest_stub"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": ":".join(filter(None, paths)), "XDG_CACHE_HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}


def run(distrun, python, *flags, file=FILE, time_limit=TIME_LIMIT):
    """The exit status, the results by id, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.json"
        done = subprocess.run([distrun, "test", "--timeout", time_limit, "--json", results, *flags, "--", python, file],
                              env=environment_in(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250,
                              check=False)
        written = results.read_text() if results.exists() else ""
        tests = json.loads(written)["tests"] if written else []
        return done.returncode, {test["id"].partition(".")[2]: test for test in tests}, done.stdout + done.stderr


def require(holds, what, output=""):
    if not holds:
        sys.exit(f"{what}\n{output}")


def check(tests, expected, output):
    for name, (status, reason) in expected.items():
        test = tests.get(name, {})
        said = f"{name}: {test.get('status')}: {test.get('reason')}"
        print(said)
        require(test.get("status") == status and re.fullmatch(reason, test["reason"], re.S), f"not {status}: {reason}\n{said}",
                output)


def verdicts(distrun, python):
    status, tests, output = run(distrun, python, "-k", "not hangs")
    for left in (*pathlib.Path("/dev/shm").glob("distrun_python_test_*"), *pathlib.Path("/tmp").glob("distrun_python_test_*")):
        left.unlink()
    require(status == 1, f"exit status {status}", output)
    check(tests, VERDICTS, output)
    require(sorted(tests) == sorted(VERDICTS), f"tests: {sorted(tests)}", output)
    ranks = tests["GroupTest.test_rank_1_fails"]["ranks"]
    check_collectives(tests)
    check_crash(tests, output)
    require([rank["output"].strip() for rank in ranks] == ["rank 0 prints", "rank 1 prints"], f"output: {ranks}")


def collectives_of(test):
    """Of each rank: ["2 allreduce Float [8]", …]."""
    return [[" ".join(map(str, (one["count"], one["op"], one["dtype"], *one["sizes"]))) for one in rank["collectives"]]
            for rank in test["ranks"]]


def check_collectives(tests):
    """What JSON says of them."""
    all_ranks, own = "3 allreduce Float [8]", "1 broadcast Long [2, 3]"
    expected = {
        "CollectivesTest.test_are_recorded": [[all_ranks, own], [all_ranks], [all_ranks, own]],
        "CollectivesTest.test_rank_2_skips_one": [["5 allreduce Float [8]"]] * 2 + [["4 allreduce Float [8]"]],
        "CollectivesTest.test_all_skip_later": [["1 allreduce Float [8]", "1 barrier "]] * 3,
        "FewAreKeptTest.test_dtypes_differ_at_first": [["10 barrier ", "1 (forgotten) "]] * 2,
        "PlainTest.test_passes": [[]],
    }
    for name, ranks in expected.items():
        require(collectives_of(tests[name]) == ranks, f"{name}: collectives: {collectives_of(tests[name])}, not {ranks}")
    rank = tests["CollectivesTest.test_are_recorded"]["ranks"][0]
    operations = rank["operations"]
    require([one[:2] for one in operations] == [["allreduce", "Float [8]"]] * 2 + [["broadcast", "Long [2, 3]"]] +
            [["allreduce", "Float [8]"]], f"operations: {operations}")
    begins = [rank["began_s"], *(one[2] for one in operations), rank["ended_s"]]
    require(begins == sorted(begins), f"operations: {operations}, of a process from {begins[0]} to {begins[-1]}")
    # Gloo does not record when a collective ends, but that it has.
    require(all(one[3:] == [None, True] for one in operations), f"operations: {operations}")


def check_crash(tests, output):
    """The console has the calls of the test, and JSON everything that Python printed."""
    name = "GroupTest.test_rank_0_reads_null"
    _, _, block = output.rpartition(f"FAIL misbehaving.{name} ")
    block = block.partition("repeat: ")[0]
    require(re.search(r"Fatal Python error: Segmentation fault\n.*  test_rank_0_reads_null \(misbehaving\.py:\d+\)\n"
                      r".*  string_at \(ctypes/__init__\.py:\d+\)\n(.*  \w+ \(\S+\)\n)?.* … \d+ lines left out; --json FILE writes them\n *$", block),
            "no short crash", block)
    written = tests[name]["ranks"][0]["output"]
    require("distrun_runs_test" in written and "Extension modules: " in written, f"output: {written}")


def may_differ(distrun, python):
    """The flag is for tests that cannot be changed."""
    name = "CollectivesTest.test_dtypes_differ"
    status, tests, output = run(distrun, python, "--collectives-may-differ", f"misbehaving.{name}")
    require(status == 0, f"exit status {status}", output)
    check(tests, {name: VERDICTS["CollectivesTest.test_dtypes_may_differ"]}, output)
    warning = rf"PASS .* misbehaving\.{name}: {tests[name]['reason'][:40]}"
    require(re.search(warning, output), "no warning", output)


def hang(distrun, python):
    status, tests, output = run(distrun, python, "-k", "hangs", time_limit="5")
    require(status == 1, f"exit status {status}", output)
    check(tests, {
        "GroupTest.test_rank_1_hangs": ("failed", (
            "timed out: ranks 0, 1 hung: rank 1 had not entered collective 1 of the default group, barrier, in which rank 0 waited")),
        "CollectivesTest.test_rank_2_hangs": ("failed", (
            r"timed out: ranks 0-2 hung: rank 2 had not entered collective 3 of the default group, allreduce of Float \[8\], "
            "in which ranks 0, 1 waited"))}, output)
    places = [rank["stands_at"] for rank in tests["GroupTest.test_rank_1_hangs"]["ranks"]]
    require(places[0].startswith("barrier, number 1 of group default_pg, has not completed: no tensors\n"), f"place: {places[0]}")
    require(re.match(r"no collective has run\n(.*\n)*.*wait_in_a_function \(.*misbehaving\.py:\d+\)", places[1]), f"place: {places[1]}")
    require(output.count("wait_in_a_function (") == 4 and "stood at:" not in output, "a tree per rank", output)
    test = tests["CollectivesTest.test_rank_2_hangs"]
    require(collectives_of(test) == [["3 allreduce Float [8]"]] * 2 + [["2 allreduce Float [8]"]], f"ranks: {test['ranks']}")
    require([one[4] for one in test["ranks"][0]["operations"]] == [True, True, False], f"ranks: {test['ranks']}")
    require(test["ranks"][2]["stands_at"].startswith(
        "nothing is under way; the last collective, allreduce, number 2 of group default_pg, has completed: Float [8]\n"),
        f"ranks: {test['ranks']}")


def look(distrun, python):
    """SIGUSR1 shows where the ranks of a test that runs are, and in which collectives."""
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_in(folder)
        running = subprocess.Popen([distrun, "test", "misbehaving.CollectivesTest.test_rank_2_hangs", "--timeout", "100", "--",
                                    python, FILE], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        output, is_over = running.stdout.readline(), False
        running.send_signal(signal.SIGUSR1)
        expected = ("    ranks 0, 1: allreduce, number 3 of group default_pg, has not completed: Float [8]\n"
                    "    rank 2: nothing is under way; the last collective, allreduce, number 2 of group default_pg, "
                    "has completed: Float [8]\n")
        for line in running.stdout:
            output += line
            if not is_over and (expected in output or "where the ranks of " in line):
                is_over = expected in output
                running.send_signal(signal.SIGTERM if is_over else signal.SIGUSR1)
        require(expected in output, "no collectives", output)
        require(re.search(r"where the ranks of \S+ are: rank 2 in .*; ranks 0, 1 wait in all_reduce", output), "no places", output)
        require(running.wait(100) == 128 + signal.SIGTERM, f"exit status {running.returncode}", output)


def new_processes(distrun, python):
    """--isolation exec imports the file in each rank."""
    names = ["GroupTest.test_passes", "GroupTest.test_rank_1_throws", "SetUpTest.test_variables_reach_the_ranks",
             "PlainTest.test_passes"]
    _, tests, output = run(distrun, python, "--isolation", "exec", *[f"misbehaving.{name}" for name in names])
    check(tests, {name: VERDICTS[name] for name in names}, output)


def imports(distrun, python):
    """Files that cannot be imported, have no tests, or start threads."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "test_it.py"
        file.write_text("import no_such_module\n")
        status, _, output = run(distrun, python, file=file)
        require(status == 125 and "ModuleNotFoundError: No module named 'no_such_module'" in output and
                "testing_main" not in output, f"exit status {status}", output)
        file.write_text("import sys\nsys.exit(0)\n")
        status, _, output = run(distrun, python, file=file)
        require(status == 4 and "contains no unittest classes; to run it as one test: " in output, f"exit status {status}", output)
        file.write_text("import threading, time, unittest\n"
                        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
                        "class OneTest(unittest.TestCase):\n    def test_it(self):\n        pass\n")
        status, tests, output = run(distrun, python, file=file)
        check(tests, {"OneTest.test_it": ("failed", (
            r"rank 0 failed: could not be started: the import of the file has started threads \(1\), which forks do not have: "
            "move what starts them into the tests, or use --isolation exec"))}, output)
        _, tests, output = run(distrun, python, "--isolation", "exec", file=file)
        check(tests, {"OneTest.test_it": ("passed", "")}, output)


if __name__ == "__main__":
    {case.__name__: case for case in (verdicts, may_differ, hang, look, new_processes, imports)}[sys.argv[3]](*sys.argv[1:3])
