#!/usr/bin/env python3
"""Opens HTML reports in a real browser, uses them as a reader would, and takes screenshots.

    cmake/check_html.py build build/html

The reports are of real runs: tests that pass, fail, hang, crash, are flaky and are skipped.  Fails if the page reports
an error or a filter, a sort, a link or a row does not do what it should.  Needs Chromium, its driver and Selenium.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

TESTS = ["Well.test_passes", "Well.test_is_flaky", "Well.test_is_skipped_by_all", "Well.test_needs_gpus",
         "Fails.test_one_expect", "Hangs.test_in_a_collective", "Dies.test_of_SIGSEGV", "Leaves.test_without_one_collective"]


def started_browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--window-size=1280,1600", "--hide-scrollbars"):
        options.add_argument(flag)
    if os.geteuid() == 0:  # Chromium's sandbox refuses to run as root.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options)
    browser.set_page_load_timeout(60)
    return browser


class Reader:
    """A reader of one page."""

    def __init__(self, browser: webdriver.Chrome, page: pathlib.Path, folder: pathlib.Path):
        self.browser, self.page, self.folder = browser, page, folder
        self.open()

    def open(self, anchor: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(self.page.resolve().as_uri() + anchor)

    def all(self, selector: str) -> list:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [one.text for one in self.all(selector)]

    def click(self, selector: str) -> None:
        self.browser.find_element(By.CSS_SELECTOR, selector).click()

    def photograph(self, name: str) -> None:
        height = self.browser.execute_script("return document.documentElement.scrollHeight")
        self.browser.set_window_size(1280, min(max(height, 400) + 150, 6000))
        self.browser.save_screenshot(str(self.folder / f"{name}.png"))

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def expect(what: str, got, wanted) -> None:
    if got != wanted:
        sys.exit(f"{what}: got {got}, expected {wanted}")


def check_tests(browser: webdriver.Chrome, build: pathlib.Path, folder: pathlib.Path) -> None:
    page, results = folder / "tests.html", folder / "tests.json"
    with tempfile.TemporaryDirectory() as cache:
        ended = subprocess.run([build / "distrun", "test", "--binary", build / "tests/distrun_selftest", "--retries", "1", "--html", page,
                                "--json", results, *("selftest." + test for test in TESTS)],
                               env={**os.environ, "XDG_CACHE_HOME": cache, "SELFTEST_FOLDER": cache}, capture_output=True, text=True, timeout=300)
    expect("exit status of distrun test", ended.returncode, 1)
    tests = json.loads(results.read_text())["tests"]

    def ids(*statuses: str) -> set[str]:
        return {test["id"] for test in tests if not statuses or test["status"] in statuses}

    reader = Reader(browser, page, folder)
    shown = "tr.row td.id"
    expect("heading", reader.texts("h1"), [f"{len(ids('failed'))} of {len(tests)} tests failed"])
    expect("tests shown", set(reader.texts(shown)), ids())
    expect("open tests at first", len(reader.all("tr.detail")), 1)
    reader.photograph("tests")
    reader.all(shown)[-1].click()
    expect("open tests after a click", len(reader.all("tr.detail")), 2)
    reader.all(shown)[-1].click()
    expect("open tests after a second click", len(reader.all("tr.detail")), 1)
    check_zoom(reader)
    for status in ("failed", "flaky", "skipped", "passed"):
        reader.click(f"button[data-filter={status}]")
        expect(f"tests shown for {status}", set(reader.texts(shown)), ids(status))
    reader.click("button[data-filter=all]")
    reader.all("input")[0].send_keys("hangs collective")
    expect("tests shown for words", reader.texts(shown), ["selftest.Hangs.test_in_a_collective"])
    reader.photograph("tests-filtered")

    reader.open()
    times = {test["id"]: test["seconds"] for test in tests}
    time_column = "th:nth-child(4) button"
    reader.click(time_column)
    reader.click(time_column)
    inorder = [times[one] for one in reader.texts(shown)]
    expect("order after two clicks on Time", inorder, sorted(inorder, reverse=True))

    for test in tests:
        reader.open("#" + test["id"])
        expect(f"tests that the link to {test['id']} opens", reader.texts("tr.open td.id"), [test["id"]])
        if test["attempt"] > 0:
            lanes = len(reader.all(".lane:not(.axis)"))
            expect(f"lanes of {test['id']}", lanes, sum(len(one["ranks"]) for one in [test, *test["earlier_attempts"]]))
        reader.photograph(test["id"])
    reader.open("#selftest.Hangs.test_in_a_collective")
    if not reader.all(".block.open"):
        sys.exit("a collective that did not complete has no block")
    expect("errors of the page", reader.errors(), [])


def check_zoom(reader: Reader) -> None:
    """Drags over a lane again and again, then returns with a double click."""

    def ticks() -> list[str]:
        return reader.texts("tr.detail .attempt:first-child .axis .track > *")

    track, at_first = reader.all("tr.detail .lane:not(.axis) .track")[0], ticks()
    for i in range(12):
        track = reader.all("tr.detail .lane:not(.axis) .track")[0]
        ActionChains(reader.browser).move_to_element(track).click_and_hold().move_by_offset(30, 60).release().perform()
        if i == 0 and ticks() == at_first:
            sys.exit("dragging over a lane does not zoom")
    if len(set(ticks())) != len(ticks()):
        sys.exit(f"two ticks have the same text: {ticks()}")
    ActionChains(reader.browser).double_click(reader.all("tr.detail .lane:not(.axis) .track")[0]).perform()
    expect("ticks after a double click", ticks(), at_first)


# Rank 0 is busy; rank 1 prints a long line that it overwrites many times.
PROGRAM = """
echo "rank $RANK, attempt $TORCHELASTIC_RESTART_COUNT: <script>document.title = 'taken over'</script>"
if [ "$RANK.$TORCHELASTIC_RESTART_COUNT" = 1.0 ]; then exit 7; fi
if [ "$RANK" = 2 ]; then sleep 4; kill -SEGV $$; fi
if [ "$RANK" = 1 ]; then head -c 200000 /dev/zero | tr '\\0' x; for i in 1 2 3; do printf '\\r%s %%' $i; done; fi
while [ "$RANK" = 0 ]; do :; done
sleep 60
"""


def check_run(browser: webdriver.Chrome, build: pathlib.Path, folder: pathlib.Path) -> None:
    page = folder / "run.html"
    ended = subprocess.run([build / "distrun", "launch", "--nproc-per-node", "3", "--max-restarts", "1", "--html", page, "--no-python", "sh", "-c",
                            PROGRAM], capture_output=True, text=True, timeout=100)
    expect("exit status of distrun launch", ended.returncode, 139)
    reader = Reader(browser, page, folder)
    expect("heading", reader.texts("h1"), ["rank 2 failed: signal SIGSEGV (11)"])
    expect("lanes", reader.texts(".lane .label"), ["rank 0", "rank 1", "rank 2", "CPU use", "Memory"])
    # One more in the legend.
    expect("bars, one for each attempt", len(reader.all(".block")), 6 + 1)
    expect("ends", reader.texts(".lane .end")[2], "killed by SIGSEGV")
    expect("open output", [one.text for one in reader.all("details[open] pre")],
           ["rank 2, attempt 1: <script>document.title = 'taken over'</script>"])
    for summary in reader.all("summary"):
        summary.click()
    if not any(text.endswith("xxx") and "\n3 %" in text for text in reader.texts("details pre")):
        sys.exit("the last part of a line that was written three times is not shown")
    charts = reader.texts(".chart + .end")
    expect("charts", len(charts), 2)
    if "at most 0.00 cores" in charts or not charts[1].endswith("MiB"):
        sys.exit(f"the charts show no load: {charts}")
    if "taken over" in browser.title:
        sys.exit("the output of a worker has changed the page")
    reader.photograph("run")
    expect("errors of the page", reader.errors(), [])


def check_hung_run(browser: webdriver.Chrome, build: pathlib.Path, folder: pathlib.Path) -> None:
    page = folder / "hung.html"
    ended = subprocess.run([build / "distrun", "launch", "--nproc-per-node", "2", "--timeout", "2", "--shutdown-timeout", "1", "--html", page,
                            "--no-python", "sh", "-c", 'if [ "$RANK" = 1 ]; then kill -STOP $$; fi; exec sleep 60'],
                           capture_output=True, text=True, timeout=100)
    expect("exit status of a run with a stopped rank", ended.returncode, 124)
    reader = Reader(browser, page, folder)
    where = reader.texts("header .where")
    if len(where) != 1 or "rank 1 stopped (SIGSTOP)" not in where[0]:
        sys.exit(f"the page does not begin with the place of the ranks: {where}")
    reader.photograph("hung")
    expect("errors of the page", reader.errors(), [])
    # As if NCCL had been asked, too.
    event = '"event":"stacks_read"'
    text = page.read_text()
    expect("events of stacks in the page", text.count(event), 1)
    page.write_text(text.replace(event, event + ',"nccl":"rank 1 is dead"'))
    reader.open()
    expect("places of the ranks after what NCCL says", reader.texts("header .where"), ["NCCL: rank 1 is dead. " + where[0]])


def main() -> None:
    build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    browser = started_browser()
    try:
        check_tests(browser, build, folder)
        check_run(browser, build, folder)
        check_hung_run(browser, build, folder)
    finally:
        browser.quit()
    print(f"the reports work in {browser.capabilities['browserName']} {browser.capabilities['browserVersion']}; screenshots: {folder}")


if __name__ == "__main__":
    main()
