#!/usr/bin/env python3
"""What `distrun launch` says of a run whose collectives it follows.

    followed_test.py DISTRUN CASE PROGRAM…                  such as: followed_test.py build/distrun flip build/tests/followed
    followed_test.py DISTRUN CASE PROGRAM… -- PROGRAM…      even ranks run the first program, odd ranks the second

With NODES=2 in the environment, each of two nodes runs half of the ranks.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

RANKS = 4


def launch(distrun, case, programs, *flags, **variables):
    """Returns the exit status, stdout, stderr and the events."""
    command = [*programs[0], case]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    if len(programs) > 1:
        environment["MIXED"] = "1"
        choose = f'if [ $((RANK % 2)) = 0 ]; then exec {" ".join(programs[0])} {case}; else exec {" ".join(programs[1])} {case}; fi'
        command = ["--no-python", "sh", "-c", choose]
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events")
        own = ["--timeout", "200", "--shutdown-timeout", "1", *flags]
        nodes = int(os.environ.get("NODES", "1"))
        # Each process has its own address, so tests can run in parallel.
        place = ["--nnodes", str(nodes), "--master-addr", f"127.99.{os.getpid() >> 8 & 127}.{1 + os.getpid() % 250}"] if nodes > 1 else []
        start = [distrun, "launch", "--nproc-per-node", str(RANKS // nodes), *place]
        others = [subprocess.Popen([*start, "--node-rank", str(node), *own, *command], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for node in range(1, nodes)]
        run = subprocess.run([*start, "--events", events, *own, *command],
                             env=environment, capture_output=True, text=True, timeout=280, check=False)
        out = run.stdout
        for node, other in enumerate(others, 1):
            said = other.communicate(timeout=30)[0]
            expect(other.returncode == run.returncode, f"node {node}: exit status {other.returncode}", said, run.stderr)
            out += "".join(line for line in said.splitlines(True) if not line.startswith("distrun"))
        with open(events, encoding="utf-8") as file:
            return run.returncode, out, run.stderr, [json.loads(line) for line in file]


def expect(condition, *facts):
    if not condition:
        sys.exit("\n".join(str(fact) for fact in facts))


def named(events, name):
    return [event for event in events if event["event"] == name]


def missing(distrun, programs):
    misses(distrun, "missing", 6, programs)


def absent(distrun, programs):
    """A rank that has entered no collective."""
    misses(distrun, "absent", 1, programs)


def misses(distrun, case, number, programs):
    limit = "15" if programs[0][-1].endswith(".py") else "4"
    status, _, err, events = launch(distrun, case, programs, "--collectives", "--hang-after", limit)
    line = f"rank 1 has not entered all_reduce, number {number} of group 0 (Float [10, 100]); ranks 0, 2, 3 wait in it"
    expect(status == 75, status, err)
    expect(f"distrun: collectives: {line}\n" in err, line, err)
    expect(f"\n  collectives: {line}\n" in err, "the summary lacks it", err)
    expect([event["collectives"] for event in named(events, "stacks_read")] == [line], events)


def disagree(distrun, programs):
    """Some ranks may fail; then the summary has it, too."""
    status, _, err, events = launch(distrun, "disagree", programs, "--collectives")
    line = "rank 2 called all_reduce (Double [4]) as number 4 of group 0, ranks 0, 1, 3 called all_reduce (Float [8])"
    expect([event["text"] for event in named(events, "calls_differ")] == [line], events, err)
    expect(f"distrun: ranks disagree: {line}\n" in err, err)
    expect((f"\n  collectives: {line}\n" in err) == (status != 0) or int(os.environ.get("NODES", "1")) > 1, status, err)


def skip(distrun, programs):
    """The others fail because rank 2 has ended without the last one. Another rank may be too late to enter it."""
    for flag in ("--collectives", "--digest"):
        skip_with(flag, distrun, programs)


def skip_with(flag, distrun, programs):
    status, _, err, events = launch(distrun, "skip", programs, flag)
    expect(status not in (0, 124), f"{flag}: exit status {status}", err)
    line = r"\n  collectives: ranks? [0-9, -]*2[0-9, -]* had not entered all_reduce, number 5 of group 0 \(Float \[8\]\), which rank [013] had entered\n"
    expect(re.search(line, err), err, events)


def traced(distrun, case, programs):
    """Returns the exit status, stderr, the events, and the operations of each rank in the trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        status, _, err, events = launch(distrun, case, programs, "--trace", path)
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)["traceEvents"]
    process = {event["args"]["name"]: event["pid"] for event in trace if event.get("name") == "process_name"}
    return status, err, events, [[event for event in trace if event["pid"] == process[f"rank {rank}"] and "op" in event.get("args", {})]
                                 for rank in range(RANKS)]


def leave(distrun, programs):
    """A rank that ends while threads of Gloo still free what recorded their collectives does not abort."""
    for _ in range(3):
        status, _, err, _ = launch(distrun, "leave", programs, "--digest")
        expect(status == 0, status, err)


def slow_digest(distrun, programs):
    status, _, err, _ = launch(distrun, "slow_digest", programs, "--digest")
    expect(status == 0, status, err)


def fail(distrun, programs):
    """An exception ends a rank as without recording, although a collective is pending."""
    with tempfile.TemporaryDirectory() as folder:
        status, _, err, _ = launch(distrun, "fail", programs, "--collectives", ENDS=os.path.join(folder, "ends"))
    expect(status == 1 and "ValueError: no such thing" in err, status, err)


def again(distrun, programs):
    """The collectives of the second default group are counted from 1, so they do not differ."""
    status, err, events, bars = traced(distrun, "again", programs)
    expect(status == 0, status, err)
    expect(not named(events, "calls_differ"), err)
    for rank, its in enumerate(bars):
        calls = [(bar["args"]["group"], bar["args"]["number"], bar["args"]["sizes"]) for bar in its]
        first = [("0", number, "[8]") for number in ((1,) if rank == 2 else (1, 2))]
        expect(calls == [*first, *(("0@2", size, f"[{size}]") for size in (1, 2, 3, 4))], rank, calls)


def alike(distrun, programs):
    """Both recorders see collectives in inference mode, and have the same names of dtypes."""
    status, err, events, bars = traced(distrun, "alike", programs)
    expect(status == 0, status, err)
    expect(not named(events, "calls_differ"), err)
    collectives = [[bar["args"]["sizes"] for bar in its if bar["name"] == "all_reduce"] for its in bars]
    expect(collectives == [["[1]", "[2]", "[3]"]] * RANKS, collectives)
    dtypes = [[bar["args"]["dtype"] for bar in its if bar["name"] != "all_reduce"] for its in bars]
    expect(len(set(dtypes[0])) == 21 and {"BFloat16", "UInt64", "ComplexHalf", "Float8_e4m3fnuz"} < set(dtypes[0]), dtypes)
    expect(all(its == dtypes[0] for its in dtypes), dtypes)


def killed(distrun, programs):
    """The trace has what rank 1 was in when it was killed."""
    status, err, _, all_bars = traced(distrun, "killed", programs)
    expect(status == 137, status, err)
    for rank, bars in enumerate(all_bars):
        ended = [bar for bar in bars if bar["name"] == "all_reduce"]
        expect([bar["args"]["number"] for bar in ended] == [1, 2, 3, 4, 5] and all(bar["dur"] > 0 for bar in ended), rank, bars)
        expect({bar["args"]["group"] + bar["args"]["dtype"] + bar["args"]["sizes"] for bar in ended} == {"0Float[10, 100]"}, ended)
        open_ = [bar for bar in bars if bar["name"] == "all_reduce (unfinished)"]
        expect([bar["args"]["number"] for bar in open_] == ([7, 8] if rank == 1 else []), rank, bars)
        expect(len({bar["tid"] for bar in open_}) == len(open_), "they overlap, and need two rows", open_)


def stragglers(events):
    return named(events, "straggler_found")


def slow(distrun, programs):
    status, _, err, events = launch(distrun, "slow", programs, "--collectives")
    expect(status == 0, status, err)
    found = stragglers(events)
    expect(len(found) == 1 and found[0]["rank"] == 2, found, err)
    # The barrier and 20 steps.
    expect(found[0]["number"] <= 21, found)
    expect(err.count("distrun: rank 2 delays the others") == 2, "once when it is found, and once in the summary", err)
    print(found)


def even(distrun, programs):
    status, _, err, events = launch(distrun, "even", programs, "--collectives")
    expect(status == 0, status, err)
    expect(not stragglers(events), stragglers(events))


def values(distrun, programs):
    status, _, err, events = launch(distrun, "values", programs, "--digest")
    expect(status == 0, status, err)
    expect(not named(events, "values_differ") and not named(events, "calls_differ"), err)
    compared = named(events, "values_compared")
    expect(len(compared) == 1 and compared[0]["collectives"] >= 84 and compared[0]["missed"] == 0, compared)


def flip(distrun, programs):
    status, out, err, events = launch(distrun, "flip", programs, "--digest")
    expect(status == 0, status, err)
    flips = [tuple(map(int, line.split())) for line in out.splitlines()]
    expect(len(flips) == 100, out)
    found = named(events, "values_differ")
    expect(len(found) == 100, f"{len(found)} of 100 flipped bits were found", err)
    for (rank, number, element), event in zip(flips, found):
        first, last = event["elements"]
        others = [other for other in range(RANKS) if other != rank]
        expect(event["ranks"] == [others, [rank]] and event["number"] == number and first <= element <= last,
               (rank, number, element), event)


def recorded(distrun, programs):
    """A run like the recorded one does not differ from it."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "digests")
        status, _, err, _ = launch(distrun, "values", programs, "--save-digests", file)
        expect(status == 0, status, err)
        status, _, err, events = launch(distrun, "values", programs, "--compare-digests", file)
        expect(status == 0, status, err)
        compared = named(events, "recording_compared")
        expect(len(compared) == 1 and compared[0]["same"] and compared[0]["collectives"] >= 84, compared, err)
        expect(f"distrun: --compare-digests: {compared[0]['collectives']} collectives compared, no difference\n" in err, err)


def unlike_recorded(distrun, programs):
    """Each flipped bit is found, and the rank that passes another value is told from those that receive its effect."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "digests")
        status, out, err, _ = launch(distrun, "flip", programs, "--save-digests", file, FLIP="none")
        expect(status == 0, status, err)
        flips = [tuple(map(int, line.split())) for line in out.splitlines()]
        status, _, err, events = launch(distrun, "flip", programs, "--compare-digests", file)
        expect(status == 0, status, err)
        found = named(events, "recording_differs")
        expect(len(found) == len(flips) == 100, f"{len(found)} of {len(flips)} flipped bits were found", err)
        for (rank, number, element), event in zip(flips, found):
            first, last = event["elements"]
            expect(event["what"] == "outputs" and event["ranks"] == [rank] and event["number"] == number and first <= element <= last,
                   (rank, number, element), event)
            expect(event["text"].endswith("; the inputs are the same"), event)
        expect(not named(events, "recording_compared")[0]["same"], events[-3:])

        status, _, err, events = launch(distrun, "flip", programs, "--compare-digests", file, FLIP="input")
        found = named(events, "recording_differs")
        expect(len(found) == 1 and (found[0]["what"], found[0]["ranks"], found[0]["number"]) == ("inputs", [2], 3), found, err)
        expect(f"distrun: {found[0]['text']}\n" in err, err)


def main():
    distrun, case, *program = sys.argv[1:]
    programs = [program]
    if "--" in program:
        at = program.index("--")
        programs = [program[:at], program[at + 1:]]
    cases = (missing, absent, disagree, skip, leave, fail, slow_digest, again, alike, killed, slow, even, values, flip, recorded, unlike_recorded)
    {function.__name__: function for function in cases}[case](distrun, programs)


if __name__ == "__main__":
    main()
