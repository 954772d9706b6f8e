#!/usr/bin/env python3
"""The JUnit file of a run, read by another program, says what its JSON file says.

    check_junit.py DISTRUN SELFTEST      SELFTEST is distrun_selftest
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

# The status in JSON, and the element in JUnit, of each test.
TESTS = {
    "selftest.Well.test_passes": ("passed", None),
    "selftest.Well.test_is_flaky": ("flaky", None),
    "selftest.Well.test_is_skipped_by_all": ("skipped", "skipped"),
    "selftest.Fails.test_one_expect": ("failed", "failure"),
    "selftest.Hangs.test_in_a_collective": ("failed", "error"),
    "selftest.Dies.test_of_SIGSEGV": ("failed", "error"),
}
FLAGS = ("--retries", "1")


def require(holds, what):
    if not holds:
        sys.exit(what)


def run(distrun, selftest):
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: pathlib.Path(folder) / f"results.{kind}" for kind in ("json", "xml")}
        command = [distrun, "test", "--binary", selftest, *FLAGS, "--json", paths["json"], "--junit", paths["xml"], *TESTS]
        done = subprocess.run(command, env=os.environ | {"XDG_CACHE_HOME": folder, "SELFTEST_FOLDER": folder},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, check=False)
        require(done.returncode == 1, f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(paths["json"].read_text()), xml.etree.ElementTree.parse(paths["xml"]).getroot()


def attempts_of(test):
    last = {name: test[name] for name in ("reason", "ranks", "culprits")}
    return test["earlier_attempts"] + [last]


def output_of(attempt):
    return "".join(f"[rank {rank['rank']}] {line}\n" for rank in attempt["ranks"] for line in rank["output"].splitlines())


def text_of(parent, name):
    return "".join(element.text or "" for element in parent.findall(name))


def kind_of(attempt):
    """A check that failed is a failure; another end of a rank is an error."""
    status = {rank["rank"]: rank["status"] for rank in attempt["ranks"]}[attempt["culprits"][0]]
    return "failure" if status == "failed" else "error", status


def check_attempt(element, attempt, details):
    require(element.get("message") == attempt["reason"], f"message {element.get('message')}, not {attempt['reason']}")
    require(element.get("type") == kind_of(attempt)[1], f"type {element.get('type')} of {attempt['reason']}")
    require(details.startswith(attempt["reason"] + "\n") and "\nrepeat: distrun test " in details, f"details: {details}")


def check_case(case, test):
    suite, test_class, name = test["id"].split(".")
    require((case.get("classname"), case.get("name")) == (f"{suite}.{test_class}", name), f"names: {case.attrib}")
    require(case.get("time") == f"{test['seconds']:.3f}", f"time {case.get('time')}, not {test['seconds']}")
    require((case.get("file"), case.get("line")) == (test["file"], str(test["line"])), f"place: {case.attrib}")
    status, element = TESTS[test["id"]]
    require(test["status"] == status, f"{test['id']}: {test['status']}")
    outcomes = [one.tag for one in case if one.tag in ("failure", "error", "skipped")]
    require(outcomes == ([element] if element else []), f"{test['id']}: {outcomes}")
    first, *later = attempts_of(test)
    decisive = later[-1] if status == "flaky" else first
    require(text_of(case, "system-out") == output_of(decisive), f"{test['id']}: output {text_of(case, 'system-out')}")
    if status == "skipped":
        require(case.find("skipped").get("message") == test["reason"], f"{test['id']}: {case.find('skipped').attrib}")
    elif status == "failed":
        require(kind_of(first)[0] == element, f"{test['id']}: {element}")
        check_attempt(case.find(element), first, case.find(element).text)
        check_others(case, "rerun", later)
    elif status == "flaky":
        check_others(case, "flaky", [first])


def check_others(case, prefix, attempts):
    found = [one for one in case if one.tag in (prefix + "Failure", prefix + "Error")]
    require(len(found) == len(attempts) == 1, f"{case.attrib}: {len(found)} other attempts")
    for element, attempt in zip(found, attempts):
        require(element.tag == prefix + kind_of(attempt)[0].capitalize(), f"{case.attrib}: {element.tag}")
        check_attempt(element, attempt, text_of(element, "stackTrace"))
        require(text_of(element, "system-out") == output_of(attempt), f"{case.attrib}: output of {element.tag}")


def check_counts(root, tests):
    elements = [TESTS[test["id"]][1] for test in tests]
    expected = {"tests": len(tests), "failures": elements.count("failure"), "errors": elements.count("error")}
    require(root.tag == "testsuites" and {name: int(root.get(name)) for name in expected} == expected, f"counts: {root.attrib}")
    suites = root.findall("testsuite")
    require(sum(int(suite.get("skipped")) for suite in suites) == elements.count("skipped"), "skipped tests")
    for name, count in expected.items():
        require(sum(int(suite.get(name)) for suite in suites) == count, f"{name} of the suites")
    for suite in suites:
        cases = suite.findall("testcase")
        require(int(suite.get("tests")) == len(cases) and {case.get("classname") for case in cases} == {suite.get("name")},
                f"suite: {suite.attrib}")
        time = sum(float(case.get("time")) for case in cases)
        require(abs(float(suite.get("time")) - time) < 0.001 * len(cases), f"time: {suite.attrib}, not {time}")


def check_hang(test):
    """The collectives of a rank that timed out are known."""
    for rank in test["ranks"]:
        expected = [] if rank["rank"] == 1 else [{"op": "allreduce", "sizes": [[3, 2]], "dtype": "Float", "count": 1}]
        require(rank["status"] == "timed_out" and rank["collectives"] == expected, f"rank {rank['rank']}: {rank['collectives']}")


def main(distrun, selftest):
    results, root = run(distrun, selftest)
    tests = {test["id"]: test for test in results["tests"]}
    require(sorted(tests) == sorted(TESTS), f"tests: {sorted(tests)}")
    cases = root.findall("testsuite/testcase")
    require(len(cases) == len(tests), f"{len(cases)} test cases")
    for case in cases:
        check_case(case, tests[f"{case.get('classname')}.{case.get('name')}"])
    check_counts(root, list(tests.values()))
    check_hang(tests["selftest.Hangs.test_in_a_collective"])


if __name__ == "__main__":
    main(*sys.argv[1:])
