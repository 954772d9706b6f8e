#!/usr/bin/env python3
"""What `distrun launch` says of a run whose collectives it follows.

    followed_test.py DISTRUN CASE PROGRAM…                  such as: followed_test.py build/distrun flip build/tests/followed
    followed_test.py DISTRUN CASE PROGRAM… -- PROGRAM…      even ranks run the first program, odd ranks the second
"""
import json
import os
import subprocess
import sys
import tempfile

RANKS = 4


def launch(distrun, case, programs, *flags):
    """Returns the exit status, stdout, stderr and the events."""
    command = [*programs[0], case]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if len(programs) > 1:
        environment["MIXED"] = "1"
        choose = f'if [ $((RANK % 2)) = 0 ]; then exec {" ".join(programs[0])} {case}; else exec {" ".join(programs[1])} {case}; fi'
        command = ["--no-python", "sh", "-c", choose]
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events")
        run = subprocess.run([distrun, "launch", "--nproc-per-node", str(RANKS), "--timeout", "200", "--shutdown-timeout", "1",
                              "--events", events, *flags, *command],
                             env=environment, capture_output=True, text=True, timeout=280, check=False)
        with open(events, encoding="utf-8") as file:
            return run.returncode, run.stdout, run.stderr, [json.loads(line) for line in file]


def expect(condition, *facts):
    if not condition:
        sys.exit("\n".join(str(fact) for fact in facts))


def missing(distrun, programs):
    limit = "15" if programs[0][-1].endswith(".py") else "4"
    status, _, err, events = launch(distrun, "missing", programs, "--collectives", "--hang-after", limit)
    line = "rank 1 has not entered all_reduce, number 6 of group 0 (Float [10, 100]); ranks 0, 2, 3 wait in it"
    expect(status == 75, status, err)
    expect(f"distrun: collectives: {line}\n" in err, line, err)
    expect(f"\n  collectives: {line}\n" in err, "the summary lacks it", err)
    expect([event["collectives"] for event in events if event["event"] == "stacks_read"] == [line], events)


def stragglers(events):
    return [event for event in events if event["event"] == "straggler_found"]


def slow(distrun, programs):
    status, _, err, events = launch(distrun, "slow", programs, "--collectives")
    expect(status == 0, status, err)
    found = stragglers(events)
    expect(len(found) == 1 and found[0]["rank"] == 2, found, err)
    # The barrier and 20 steps.
    expect(found[0]["number"] <= 21, found)
    expect("distrun: rank 2 delays the others" in err, err)
    print(found)


def even(distrun, programs):
    status, _, err, events = launch(distrun, "even", programs, "--collectives")
    expect(status == 0, status, err)
    expect(not stragglers(events), stragglers(events))


def values(distrun, programs):
    status, _, err, events = launch(distrun, "values", programs, "--digest")
    expect(status == 0, status, err)
    expect(not [event for event in events if event["event"] == "values_differ"], err)
    compared = [event for event in events if event["event"] == "values_compared"]
    expect(len(compared) == 1 and compared[0]["collectives"] >= 84 and compared[0]["missed"] == 0, compared)


def flip(distrun, programs):
    status, out, err, events = launch(distrun, "flip", programs, "--digest")
    expect(status == 0, status, err)
    flips = [tuple(map(int, line.split())) for line in out.splitlines()]
    expect(len(flips) == 100, out)
    found = [event for event in events if event["event"] == "values_differ"]
    expect(len(found) == 100, f"{len(found)} of 100 flipped bits were found", err)
    for (rank, number, element), event in zip(flips, found):
        first, last = event["elements"]
        others = [other for other in range(RANKS) if other != rank]
        expect(event["ranks"] == [others, [rank]] and event["number"] == number and first <= element <= last,
               (rank, number, element), event)


def main():
    distrun, case, *program = sys.argv[1:]
    programs = [program]
    if "--" in program:
        at = program.index("--")
        programs = [program[:at], program[at + 1:]]
    {"missing": missing, "slow": slow, "even": even, "values": values, "flip": flip}[case](distrun, programs)


if __name__ == "__main__":
    main()
