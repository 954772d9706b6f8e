#!/usr/bin/env bash
# `make soak`: repeats tests that start processes or open sockets.  A test that fails once is a bug.
#
#   cmake/soak.sh [SLICE…]     the named slices, or all, one after the other; each takes half an hour at most
#
#   launcher   the launcher and its processes              runner    `distrun test`, and all suites
#   ranks, ranks-ddp, ranks-training  tests on several ranks: of groups and backends; of DDP, its hooks and optimizers;
#              of FSDP, checkpoints, pipelines and the rest of training
#   backends   groups, collectives, the store and its clients
#   sharing    shared tensors, queues and spawn            fuzz      random bytes to our store
#   faults     runs in which a rank fails at random        joins     uneven inputs in random patterns
#   spawns     spawns in which processes are killed        python    torchrun's command lines, accelerate's tests, Lightning
#   store      random requests to our store and LibTorch's
#   hangs, hangs-python, hangs-python-2  programs that hang in seven ways: their ranks and places
#   jitter     a run with uneven steps, which --hang-after must not stop
#   collectives, collectives-python  ranks that are missing, late, or have other values
#   nodes      the same on two nodes
#   engines    runs in a Slurm and on hosts, broken at random: ranks and distruns killed, nodes frozen, jobs cancelled, hosts cut off; tests on two nodes
#   shm        random collectives of the backends shm and gloo; with 16 ranks, also messages and random groups
#
# With the suffix `-busy` (`ranks-busy`) a slice runs while every core is kept busy, and repeats tests half as often.
#
# Environment: BUILD (build), TIMES (20), DISTRUN_DIFFERENTIAL_SEQUENCES (1000), FAULT_TRIALS (100),
# DISTRUN_JOIN_PATTERNS (200), DISTRUN_RANDOM_COLLECTIVES (30000), DISTRUN_SPAWNS (1000), FUZZ_SECONDS (600), JITTER_SECONDS (600).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
python=$(sed -n 's/^DISTRUN_TORCH_PYTHON:[A-Z]*=//p' "$build/CMakeCache.txt")
say() { printf 'distrun: %s\n' "$*" >&2; }

# Keeps the user's history of tests.
XDG_CACHE_HOME=$(mktemp -d)
export XDG_CACHE_HOME
busy=()
rest() {
  [ -z "${busy[*]}" ] || kill "${busy[@]}"
  busy=()
}
trap 'rm -rf "$XDG_CACHE_HOME"; rest' EXIT

# repeat EXPRESSION [FLAG…]
repeat() {
  local tests=$1
  shift
  ctest --test-dir "$build" -R "$tests" "$@" --repeat "until-fail:$times" --no-tests=error --output-on-failure -j "$(nproc)" |
    grep -v -e ' Start ' -e ' Passed '
}

launcher() {
  repeat '^cli_test|LeakedRankProcesses|SupervisorLoop|RecordTest|NodesTest|SilentNodes|OtherPrograms|NodesTogether|NodeChannel|NodeTexts|NameLookUp|EventFile|RunOutput|OutputRelay|OutputSink|WorkerProcess|StoreServerTest|HostileClients|StoreClient|LocalPeer|PortHolder'
}
runner() {
  repeat '^selftest_test|RemoteNodeTest'
  [ ! -x "$build/distrun-suites" ] || "$build/distrun" test --repeat "$times" | grep -v '^PASS '
}
of_ddp='^(ddp|ddp_zero_hook|comm_hooks|zero_redundancy|averaging|apply_optimizer_in_backward)_multirank_test'
of_training='^(parallel|fsdp|pipeline|checkpoint|sync_batch_norm|tensor_parallel|device_mesh|sharded_tensor)_multirank_test'
ranks() { repeat 'multirank_test' -E "$of_ddp|$of_training"; }
ranks-ddp() { repeat "$of_ddp"; }
ranks-training() { repeat "$of_training"; }
backends() { repeat '^backends_test'; }
sharing() { repeat '^sharing_test|^spawn_test'; }

faults() {
  local trials=${FAULT_TRIALS:-100}
  DISTRUN_SEED=random "$build/tests/faults_test" --gtest_repeat=$(((trials + 9) / 10)) --gtest_brief=1
}
shm() {
  for ranks in 2 3 4; do
    DISTRUN_SEED=$RANDOM DISTRUN_RANDOM_COLLECTIVES=${DISTRUN_RANDOM_COLLECTIVES:-30000} "$build/distrun" launch \
      --nproc-per-node "$ranks" "$build/tests/backends_multirank_test" --gtest_filter='ShmDifferentialMultirankTest.*' --gtest_brief=1
  done
  DISTRUN_MULTIRANK_BACKEND=shm DISTRUN_SEED=$RANDOM DISTRUN_RANDOM_COLLECTIVES=${DISTRUN_RANDOM_COLLECTIVES:-30000} "$build/distrun" launch \
    --nproc-per-node 16 "$build/tests/backends_multirank_test" --gtest_filter='ShmCrowdMultirankTest.*' --gtest_brief=1
}
joins() {
  for ranks in 2 3 4; do
    DISTRUN_SEED=random DISTRUN_JOIN_PATTERNS=${DISTRUN_JOIN_PATTERNS:-200} "$build/distrun" launch \
      --nproc-per-node "$ranks" "$build/tests/parallel_multirank_test" --gtest_filter='JoinPatternsMultirankTest.*' --gtest_brief=1
  done
}
spawns() {
  DISTRUN_SPAWNS=${DISTRUN_SPAWNS:-1000} "$build/tests/spawn_test" --gtest_filter='SpawnLeaksTest.*' --gtest_brief=1
}
python() {
  if [ -z "$python" ]; then
    say 'skipped: the build has no Python that can import torch'
    return
  fi
  repeat 'TrainDigits'
  "$python" cli/torchrun_parity_test.py "$build/distrun" --all
  if [ "$python" = "$PWD/.deps/venv/bin/python3" ]; then
    cmake/setup.sh accelerate
    cli/accelerate_test.sh "$build/distrun" "$python" .deps/accelerate
    cmake/setup.sh lightning
    cli/lightning_test.py "$build/distrun" "$python" .deps/lightning
  fi
}
store() {
  DISTRUN_DIFFERENTIAL_SEQUENCES=${DISTRUN_DIFFERENTIAL_SEQUENCES:-1000} "$build/tests/backends_test" \
    --gtest_filter='StoreDifferentialTest.*' --gtest_brief=1
}
hangs() { repeat '^hangs_test.cpp' -C soak; }
hangs-python() { repeat '^hangs_test.python.(order|absent|stopped|spinning)' -C soak; }
hangs-python-2() { repeat '^hangs_test.python.(key|pipe|lock)' -C soak; }
collectives() { repeat '^followed_test.cpp' -C soak; }
collectives-python() { repeat '^followed_test.(python|mixed)' -C soak; }
nodes() { repeat '^followed_test.nodes' -C soak; }
engines() {
  local status=0
  /usr/bin/python3 -B testsuites/engines/slurm_rounds.py --rounds "$times" "$build/distrun" || status=$?
  [ $status = 77 ] || [ $status = 0 ] || return $status
  repeat '^engines_test.nodes'
}
jitter() {
  if [ -z "$python" ]; then
    say 'skipped: the build has no Python that can import torch'
    return
  fi
  "$build/distrun" launch --nproc-per-node 4 --hang-after 15 "$python" testsuites/hangs/jitter.py "${JITTER_SECONDS:-600}"
}
fuzz() { cmake/fuzz.sh; }

slices=("$@")
[ $# -gt 0 ] || slices=(launcher runner ranks ranks-ddp ranks-training backends sharing store faults joins spawns python hangs hangs-python hangs-python-2 jitter collectives collectives-python nodes engines shm fuzz
  launcher-busy runner-busy ranks-busy ranks-ddp-busy ranks-training-busy backends-busy sharing-busy)
for slice in "${slices[@]}"; do
  case ${slice%-busy} in
    launcher | runner | ranks | ranks-ddp | ranks-training | backends | sharing | store | faults | joins | spawns | python | hangs | hangs-python | hangs-python-2 | jitter | collectives | collectives-python | nodes | engines | shm | fuzz) ;;
    *)
      say "error: no slice '$slice'; the slices are in the first lines of cmake/soak.sh"
      exit 2
      ;;
  esac
done
for slice in "${slices[@]}"; do
  say "soak: $slice"
  if [ "$slice" != "${slice%-busy}" ]; then
    for _ in $(seq "$(nproc)"); do
      bash -c 'while :; do :; done' &
      busy+=($!)
    done
  fi
  times=${TIMES:-20}
  [ -z "${busy[*]}" ] || times=$(((times + 1) / 2))
  "${slice%-busy}"
  rest
done
