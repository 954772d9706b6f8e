#!/usr/bin/env bash
# `make soak`: everything that starts processes or opens sockets, and the suites, many times over,
# first on a quiet machine and then with every core kept busy; between the two, a hundred thousand
# random requests to our store and to LibTorch's, random bytes to ours, a hundred runs in which a rank
# fails at random, uneven inputs in 200 random patterns, a thousand spawns in which processes are
# killed, the command lines held against torchrun, and accelerate's own tests.  A test that fails once is a bug.
#
# Environment: BUILD (build), TIMES (20), DISTRUN_DIFFERENTIAL_SEQUENCES (1000), FAULT_TRIALS (100),
# DISTRUN_JOIN_PATTERNS (200), DISTRUN_SPAWNS (1000), FUZZ_SECONDS (600).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} times=${TIMES:-20} sequences=${DISTRUN_DIFFERENTIAL_SEQUENCES:-1000}
faults=${FAULT_TRIALS:-100} spawns=${DISTRUN_SPAWNS:-1000} patterns=${DISTRUN_JOIN_PATTERNS:-200}
tests='cli_test|multirank_test|selftest_test|LeakedProcesses|RecordTest|NodesTest|NodesTogether|NodeChannel|NameLookUp|EventFile|RunOutput|OutputRelay|OutputSink|WorkerProcess|StoreServerTest|HostileClients|StoreClient|LocalPeer|PortHolder|backends_test|sharing_test|spawn_test|TrainDigits'

# What earlier runs have taken is the user's, not this one's.
XDG_CACHE_HOME=$(mktemp -d)
export XDG_CACHE_HOME
busy=()
trap 'rm -rf "$XDG_CACHE_HOME"; [ -z "${busy[*]}" ] || kill "${busy[@]}"' EXIT

soak() {
  printf 'distrun: %s times, %s\n' "$times" "$1" >&2
  ctest --test-dir "$build" -R "$tests" --repeat "until-fail:$times" --output-on-failure -j "$(nproc)" |
    grep -v -e ' Start ' -e ' Passed '
  if [ -x "$build/distrun-suites" ]; then
    printf 'distrun: the suites, %s times, %s\n' "$times" "$1" >&2
    "$build/distrun" test --repeat "$times" | grep -v '^PASS '
  fi
}

soak 'the machine quiet'

printf 'distrun: %s sequences of requests to both stores\n' "$sequences" >&2
DISTRUN_DIFFERENTIAL_SEQUENCES=$sequences "$build/tests/backends_test" --gtest_filter='StoreDifferentialTest.*' --gtest_brief=1

printf 'distrun: %s runs in which a rank fails\n' "$faults" >&2
DISTRUN_SEED=random "$build/tests/faults_test" --gtest_repeat=$(((faults + 9) / 10)) --gtest_brief=1

printf 'distrun: ranks with uneven inputs in %s random patterns\n' "$patterns" >&2
for ranks in 2 3 4; do
  DISTRUN_SEED=random DISTRUN_JOIN_PATTERNS=$patterns "$build/distrun" launch --nproc-per-node "$ranks" \
    "$build/tests/parallel_multirank_test" --gtest_filter='JoinPatternsRanksTest.*' --gtest_brief=1
done

printf 'distrun: %s spawns in which processes are killed\n' "$spawns" >&2
DISTRUN_SPAWNS=$spawns "$build/tests/spawn_test" --gtest_filter='SpawnLeaksTest.*' --gtest_brief=1

python=$(sed -n 's/^DISTRUN_TORCH_PYTHON:[A-Z]*=//p' "$build/CMakeCache.txt")
if [ -n "$python" ]; then
  printf 'distrun: every command line that is held against torchrun\n' >&2
  "$python" cli/torchrun_parity_test.py "$build/distrun" --all
fi
if [ "$python" = "$PWD/.deps/venv/bin/python3" ]; then
  printf "distrun: accelerate's own tests\n" >&2
  cmake/setup.sh accelerate
  cli/accelerate_test.sh "$build/distrun" "$python" .deps/accelerate
fi

cmake/fuzz.sh

for _ in $(seq "$(nproc)"); do
  bash -c 'while :; do :; done' &
  busy+=($!)
done
soak 'every core busy'
