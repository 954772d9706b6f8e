"""One rank of a test, in a fork of the host or a new process.

The rank writes an account of its test to a file in memory.  The host reads it after the rank's exit, together with
the exit code, and reports to distrun.
"""
import atexit
import faulthandler
import functools
import inspect
import json
import logging
import os
import pickle
import signal
import sys
import threading
import traceback
import unittest

import distrun_collectives as collectives
import distrun_packets as packets
import distrun_parent
import distrun_process as process
from distrun_leftovers import Leftovers
from distrun_tests import COMMON_DISTRIBUTED


class Rank:
    def __init__(self, test, number, folder, account, ready, result):
        self.test, self.number, self.folder = test, number, folder
        self.account_file, self.ready, self.result = account, ready, result
        self.account = {"failures": [], "skip": "", "done": False, "no_set_up": False}
        self.test_has_returned = False
        self.before = Leftovers()

    def run(self):
        """Does not return."""
        code, own = 1, os.getpid()
        try:
            faulthandler.enable(all_threads=False)
            self.answer_questions()
            code = self.run_alone() if self.ready is None else self.run_as_one_of_several()
            if code == 0 and not self.account["failures"]:
                atexit._run_exitfuncs()
        except BaseException as error:
            self.note_failure(error)
            traceback.print_exc()
        finally:
            process.flush()
            if os.getpid() != own:  # A process that the test has forked, and that came back from it.
                os._exit(code)
            process.end_resource_tracker()
            code = self.report_leftovers() if code == 0 else code
            self.write_account()
            os._exit(code)

    def run_alone(self):
        self.watch_test()
        result = unittest.TestResult()
        unittest.TestSuite([self.test.case(self.test.name)]).run(result)
        problems, seen = distrun_parent.problems_of(result), self.account["failures"]
        if len(seen) != len(problems):  # Subtests, setUp(), an expected failure.
            self.account["failures"] = []
            for text in problems:
                self.note_text(text)
        self.account.update(skip=distrun_parent.verdict_of(result)["skip"], done=True)
        return 1 if problems else 0

    def run_as_one_of_several(self):
        left = distrun_waits_for_set_up(self.ready, self.folder)
        if self.number == 0:
            self.show_output_of_set_up()
        if left is None:
            self.account["no_set_up"] = True
            return 1
        if "verdict" in left:
            if left["verdict"]["problem"]:
                self.note_text(left["verdict"]["problem"])
            self.account.update(skip=left["verdict"]["skip"], done=True)
            return 1 if self.account["failures"] else 0
        return self.call_as_pytorch_does(left)

    def call_as_pytorch_does(self, left):
        import torch.multiprocessing

        os.environ.update(left["changed"])
        for name in left["removed"]:
            os.environ.pop(name, None)
        torch.multiprocessing.set_start_method("spawn", force=True)
        logging.getLogger(COMMON_DISTRIBUTED).setLevel(logging.CRITICAL)  # The report has the exception.
        self.watch_test()
        target, args, kwargs = left["calls"][self.number]
        ours, theirs = torch.multiprocessing.Pipe()
        try:
            target(*[theirs if one is None else one for one in args], **kwargs)
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
            self.account["done"] = code == 0 and self.test_has_returned  # PyTorch's TestDistBackend exits then.
            if not self.account["failures"] and code == 10 and ours.poll():
                self.note_text(ours.recv())
            return code
        self.account["done"] = True
        return 0

    def watch_test(self):
        """Wraps the test's function: its exception says more than the exit code that PyTorch makes of it."""
        collectives.record()
        case, name = self.test.case, self.test.name
        original = inspect.getattr_static(case, name)

        def distrun_runs_test(instance, *args, **kwargs):
            try:
                result = original(instance, *args, **kwargs)
                self.test_has_returned = True
                return result
            except unittest.SkipTest as skip:
                self.account["skip"] = str(skip)
                raise
            except Exception as error:
                self.note_failure(error)
                raise

        setattr(case, name, functools.wraps(original)(distrun_runs_test))

    def note_text(self, text):
        self.account["failures"].append({"message": last_line_first(text), "at": packets.microseconds_now()})

    def note_failure(self, error):
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.test.file]
        text = "".join(traceback.format_exception(type(error), error, without_harness(error.__traceback__)))
        what = f"{type(error).__name__}: {error}"
        failure = {"at": packets.microseconds_now()}
        if frames and isinstance(error, AssertionError):
            failure.update(file=frames[-1].filename, line=frames[-1].lineno)
        elif frames:  # An error may be the consequence of another rank's.
            what = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}: {what}"
        self.account["failures"].append({**failure, "message": f"{what}\n\n{text}"})

    def report_leftovers(self):
        """The exit code.  What a failed test leaves is a consequence."""
        if self.account["failures"]:
            return 0
        left = self.before.new()
        for one in left:
            self.note_text(f"left {one}")
        return 1 if left else 0

    def show_output_of_set_up(self):
        try:
            with open(os.path.join(self.folder, distrun_parent.OUTPUT), errors="replace") as file:
                sys.stdout.write(file.read())
        except OSError:
            pass

    def write_account(self):
        self.account["collectives"] = collectives.record_and_place()[0]
        data = json.dumps(self.account).encode()
        while data:
            data = data[os.write(self.account_file, data):]

    def answer_questions(self):
        """distrun reads the stack from outside; this says which collectives the rank has run."""
        signal.pthread_sigmask(signal.SIG_BLOCK, process.QUESTIONS)

        def distrun_answers():
            while True:
                question = signal.sigwait(process.QUESTIONS)
                record, place = collectives.record_and_place()
                is_where = question == process.WHERE_SIGNAL
                packets.write_frame(self.result, packets.place_frame(place + "\n", record) if is_where
                                    else packets.collective_frame(place))

        threading.Thread(target=distrun_answers, daemon=True).start()


def distrun_waits_for_set_up(ready, folder):
    process.wait_until_set_up_ends(ready)
    try:
        with open(os.path.join(folder, distrun_parent.SET_UP), "rb") as file:
            return pickle.load(file)
    except OSError:
        return None


def without_harness(at):
    """The traceback from the test on."""
    while at is not None and at.tb_next is not None and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next
    return at


def last_line_first(text):
    """A traceback ends with its error."""
    if not text.startswith("Traceback "):
        return text
    lines = text.rstrip().splitlines()
    starts = [i for i, line in enumerate(lines) if line and not line.startswith((" ", "Traceback "))]
    return "\n".join(lines[starts[0]:]) + "\n\n" + text if starts else text
