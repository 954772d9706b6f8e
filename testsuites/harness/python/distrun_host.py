"""The host: forks the processes of tests, reaps them, and says how they ended (protocol/host_messages.h)."""
import gc
import json
import os
import select
import signal
import sys
import time
import traceback

import distrun_packets as packets
import distrun_parent
import distrun_process as process
import distrun_tests
from distrun_rank import Rank, last_line_first

TEAR_DOWN_SECONDS = 10
PIPE_BYTES = 60_000
TEST_ERROR = 10  # The exit code of a rank of PyTorch that had an exception.


class RankOfHost:
    def __init__(self, key, number, pid, pidfd, result, account):
        self.key, self.number, self.pid, self.pidfd = key, number, pid, pidfd
        self.result, self.account_file = result, account
        self.code, self.account, self.reported = None, {}, False


class Attempt:
    """One run of a test: its ranks, and the process that calls setUp() and tearDown()."""

    def __init__(self, test, folder):
        self.test, self.folder = test, folder
        self.ranks = {}
        self.parent_pid = self.parent_pidfd = self.ready = self.ended = None
        self.parent_code = None  # None: it runs, or there is none.
        self.deadline = None     # poll()'s clock, for tearDown().

    def path(self, name):
        return os.path.join(self.folder, name)

    def is_held(self):
        """PyTorch's own check of exit codes decides."""
        return os.path.exists(self.path(distrun_parent.HELD))

    def all_ended(self):
        return len(self.ranks) == self.test.ranks and all(one.code is not None for one in self.ranks.values())


class Host:
    def __init__(self, channel, tests):
        self.channel, self.tests = channel, tests
        self.attempts = {}  # By folder.
        self.skips = distrun_tests.test_skips()

    def serve(self):
        self.say_ready()
        gc.collect()
        gc.freeze()  # Forks then copy fewer pages.
        while True:
            poll = select.poll()
            poll.register(self.channel.fileno(), select.POLLIN)
            for attempt in self.attempts.values():
                for pidfd in self.pidfds(attempt):
                    poll.register(pidfd, select.POLLIN)
            waiting = any(one.deadline is not None for one in self.attempts.values())
            ready = [fd for fd, _ in poll.poll(500 if waiting else None)]
            self.reap()
            if self.channel.fileno() in ready and not self.take_request():
                return

    @staticmethod
    def pidfds(attempt):
        found = [one.pidfd for one in attempt.ranks.values() if one.code is None]
        return found + ([attempt.parent_pidfd] if attempt.parent_pidfd is not None else [])

    def say_ready(self):
        tests = os.memfd_create("tests")
        with os.fdopen(os.dup(tests), "wb") as file:
            file.write(json.dumps({"tests": [one.facts() for one in self.tests.values()]}).encode())
        self.channel.send({"message": "ready"}, [tests])
        os.close(tests)

    def take_request(self):
        received = self.channel.receive()
        if received is None:
            return False
        fork, descriptors = received
        problem = self.start(fork, descriptors)
        if problem:
            self.channel.send({"message": "not_forked", "key": fork["key"], "problem": problem})
        for descriptor in descriptors[:3] + (descriptors[3:] if problem else []):
            os.close(descriptor)
        return True

    def start(self, fork, descriptors):
        """What forbids it; empty if the rank runs."""
        test = self.tests[fork["test"]]
        is_executed = fork["fresh"] or bool(fork["under"])
        problem = test.problem or ("" if is_executed else what_forbids_fork())
        if problem:
            return problem
        variables = {os.fsdecode(name): os.fsdecode(value) for name, value in fork["variables"]}
        folder, number = variables["DISTRUN_TEST_FOLDER"], int(variables["RANK"])
        attempt = self.attempts.setdefault(folder, Attempt(test, folder))
        try:
            if test.has_processes and not test.is_skipped and attempt.parent_pid is None:
                self.start_parent(attempt, fork, descriptors)
            self.start_rank(attempt, number, fork, descriptors, is_executed)
        except OSError as error:
            return f"fork: {error.strerror}"
        return ""

    def start_parent(self, attempt, fork, descriptors):
        ready_end, ready = os.pipe()
        ended, ended_end = os.pipe()
        host = os.getpid()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            process.die_with_parent(host)
            self.close_descriptors(but=())
            for one in (ready_end, ended_end, *descriptors):  # Those of the rank that is forked next.
                os.close(one)
            output = os.open(attempt.path(distrun_parent.OUTPUT), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            process.take_output(output, output)
            process.set_variables(fork["variables"])
            run_and_exit(distrun_parent.Parent(attempt.test, attempt.folder, ready, ended).run)
        attempt.parent_pid, attempt.parent_pidfd = child, os.pidfd_open(child)
        attempt.ready, attempt.ended = ready_end, ended_end
        os.close(ready)
        os.close(ended)

    def start_rank(self, attempt, number, fork, descriptors, is_executed):
        account = os.memfd_create("account")
        host = os.getpid()
        at = packets.microseconds_now()
        child = os.fork()
        if child == 0:
            own = (descriptors[3], account, attempt.ready)
            enter(fork, descriptors, host)
            self.close_descriptors(but=own)
            facts = {"test": attempt.test.id, "number": number, "folder": attempt.folder, "account": account,
                     "ready": attempt.ready, "result": descriptors[3]}
            if is_executed:
                run_and_exit(lambda: execute(fork, facts, own))
            run_rank(self.tests, facts)
        pidfd = os.pidfd_open(child)
        attempt.ranks[number] = RankOfHost(fork["key"], number, child, pidfd, descriptors[3], account)
        self.channel.send({"message": "forked", "key": fork["key"], "pid": child, "at": at}, [pidfd])

    def close_descriptors(self, but):
        """In a fork: those of other processes, whose ends would otherwise not be seen."""
        self.channel.close()
        for attempt in self.attempts.values():
            mine = [attempt.ready, attempt.ended, attempt.parent_pidfd]
            for rank in attempt.ranks.values():
                mine += [rank.pidfd, rank.result, rank.account_file]
            for one in mine:
                if one is not None and one not in but:
                    close_quietly(one)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self.ended(pid, os.waitstatus_to_exitcode(status))
        for attempt in list(self.attempts.values()):
            self.go_on(attempt)

    def ended(self, pid, code):
        for attempt in self.attempts.values():
            if attempt.parent_pid == pid:
                attempt.parent_code = code
                os.close(attempt.parent_pidfd)
                attempt.parent_pidfd = None
            for rank in attempt.ranks.values():
                if rank.pid == pid and rank.code is None:
                    rank.code = code
                    rank.account = process.read_json(rank.account_file) or {}
                    rank.account_file = None
                    os.close(rank.pidfd)
                    rank.pidfd = None

    def go_on(self, attempt):
        ended = [one for one in attempt.ranks.values() if one.code is not None]
        if not ended:
            return
        all_ended = attempt.all_ended()
        if all_ended and attempt.parent_pid is not None and attempt.deadline is None:
            self.tell_ends(attempt)
        parent_runs = attempt.parent_pid is not None and attempt.parent_code is None
        if parent_runs and attempt.deadline is not None and time.monotonic() > attempt.deadline:
            signal.pidfd_send_signal(attempt.parent_pidfd, signal.SIGKILL)
        # After a time limit, distrun kills the ranks, and waits for their ends only.
        was_killed = any(one.code == -signal.SIGKILL for one in ended)
        held = attempt.is_held() and not was_killed
        if held:
            self.end_after_error(attempt, ended)
        waiting = [one for one in ended if not one.reported]
        for rank in waiting:
            decides = held or bool(rank.account.get("no_set_up")) or (
                all_ended and rank is waiting[-1] and not any(is_failure(one, self.skips) for one in ended))
            if was_killed or not decides:
                self.report(rank, {})
            elif not parent_runs and (all_ended or not held):
                self.report(rank, self.verdict(attempt), attempt if held else None)
        if all_ended and not parent_runs and all(one.reported for one in ended):
            self.forget(attempt)

    @staticmethod
    def end_after_error(attempt, ended):
        """As PyTorch does."""
        if any(one.code == TEST_ERROR for one in ended):
            for rank in attempt.ranks.values():
                if rank.code is None:
                    signal.pidfd_send_signal(rank.pidfd, signal.SIGTERM)

    @staticmethod
    def tell_ends(attempt):
        ranks = [attempt.ranks[number] for number in range(attempt.test.ranks)]
        texts = [(rank.account.get("failures") or [{"message": ""}])[0]["message"] for rank in ranks]
        share = PIPE_BYTES // (8 * len(ranks))  # A character takes up to 6 bytes in JSON.
        ends = [{"code": rank.code, "text": text[:share]} for rank, text in zip(ranks, texts)]
        attempt.deadline = time.monotonic() + TEAR_DOWN_SECONDS
        try:
            os.write(attempt.ended, json.dumps(ends).encode() + b"\n")
        except BrokenPipeError:
            pass  # It has ended.

    def report(self, rank, verdict, held_attempt=None):
        frames, code = what_to_report(rank, self.skips)
        problem, skip = verdict.get("problem"), verdict.get("skip")
        if held_attempt is not None:
            frames, code = [packets.done_frame(collectives_of(rank, compared=False))], 0
            if skip:
                frames.insert(0, packets.skip_frame(skip))
            if rank is not first_to_blame(held_attempt):
                problem = ""
        if problem:
            frames.insert(0, packets.failure_frame({"message": problem}))
        for frame in frames:
            packets.write_frame(rank.result, frame)
        os.close(rank.result)
        rank.result = None
        end = {"exit_code": code} if code >= 0 else {"signal": -code}
        self.channel.send({"message": "ended", "key": rank.key, "end": end})
        rank.reported = True

    @staticmethod
    def verdict(attempt):
        verdict = process.read_json(attempt.path(distrun_parent.VERDICT))
        if verdict is not None:
            return {**verdict, "problem": verdict["problem"] and last_line_first(verdict["problem"])}
        if attempt.parent_pid is None:
            return {"problem": "", "skip": ""}
        code = attempt.parent_code
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        if attempt.deadline is not None and code == -signal.SIGKILL:
            how = f"it did not return within {TEAR_DOWN_SECONDS} s"
        try:
            with open(attempt.path(distrun_parent.OUTPUT), errors="replace") as file:
                output = file.read()
        except OSError:
            output = ""
        return {"problem": f"the process that calls setUp() and tearDown() failed: {how}\n\n{output}", "skip": ""}

    def forget(self, attempt):
        for one in (attempt.ready, attempt.ended):
            if one is not None:
                close_quietly(one)
        del self.attempts[attempt.folder]


def collectives_of(rank, compared=True):
    """Without an account, they are unknown."""
    record = rank.account.get("collectives")
    if record is not None and compared:
        return record
    return {**(record or packets.no_collectives()), "is_whole": False}


def what_to_report(rank, skips):
    """Frames and exit code of a rank."""
    done = packets.done_frame(collectives_of(rank))
    frames = [packets.failure_frame(one) for one in rank.account.get("failures", [])]
    skip = rank.account.get("skip") or skips.get(rank.code, "")
    if frames:
        return frames + [done], rank.code
    if skip and (rank.account.get("done") or rank.code in skips):
        return [packets.skip_frame(skip), done], 0
    return ([done] if rank.account.get("done") else []), rank.code


def is_failure(rank, skips):
    frames, code = what_to_report(rank, skips)
    return code != 0 or not frames


def first_to_blame(attempt):
    failed = [one for one in attempt.ranks.values() if one.code == TEST_ERROR]
    return failed[0] if failed else attempt.ranks[0]


def close_quietly(descriptor):
    try:
        os.close(descriptor)
    except OSError:
        pass


def what_forbids_fork():
    threads = len(os.listdir("/proc/self/task"))
    remedy = ": move what starts them into the tests, or use --isolation exec"
    if threads > 1:
        return f"the import of the file has started threads ({threads - 1}), which forks do not have{remedy}"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "the import of the file has used a GPU, which forks cannot use" + remedy.replace("starts them", "uses it")
    return ""


def run_and_exit(run):
    code = 1
    try:
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        process.flush()
        os._exit(code)


def enter(fork, descriptors, host):
    """First steps of a rank."""
    os.setpgid(0, 0)
    if fork["under"]:
        group = os.tcgetpgrp(descriptors[0])
        if group > 0:
            os.setpgid(0, group)
        for one in (signal.SIGINT, signal.SIGQUIT, signal.SIGTTOU):
            signal.signal(one, signal.SIG_DFL)
    else:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    process.die_with_parent(host)
    os.dup2(descriptors[0], 0)
    process.take_output(descriptors[1], descriptors[2])
    for one in descriptors[:3]:
        os.close(one)
    process.write_mark(fork["mark"])
    process.set_variables(fork["variables"])


RANK_OF = "DISTRUN_TEST_RANK_OF"


def execute(fork, facts, descriptors):
    """Starts Python again, alone or under a debugger's command."""
    for one in descriptors:
        if one is not None:
            os.set_inheritable(one, True)
    os.environ[RANK_OF] = json.dumps(facts)
    command = [os.fsdecode(word) for word in fork["under"]] + [sys.executable, *sys.orig_argv[1:]]
    os.execvp(command[0], command)


def run_rank(tests, facts):
    Rank(tests[facts["test"]], facts["number"], facts["folder"], facts["account"], facts["ready"],
         facts["result"]).run()


def executed_rank():
    """What execute() left; None in the host."""
    text = os.environ.pop(RANK_OF, None)
    if text is None:
        return None
    facts = json.loads(text)
    for name in ("account", "ready", "result"):
        if facts[name] is not None:
            os.set_inheritable(facts[name], False)
    return facts
