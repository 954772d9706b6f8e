#!/usr/bin/env bash
# `make mutation`: runs the suite `gloo` on backends that misbehave on purpose
# (testsuites/mutation/mutation.h). With each mutation, at least the tests named here must fail;
# without one, the suite must pass.
#
# Environment: BUILD (build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Keeps the user's history of tests.
export XDG_CACHE_HOME=$folder

# run MUTATION: runs the suite, writes results to $folder/results, returns the exit status.
run() { DISTRUN_MUTATION=$1 "$build/distrun" test gloo --timeout 20 >"$folder/results" 2>&1; }

run '' || { cat "$folder/results" >&2; printf 'the suite fails without a mutation\n' >&2; exit 1; }

missed=0
# check MUTATION TEST…
check() {
  local mutation=$1 status=0 test
  shift
  run "$mutation" || status=$?
  printf '%-18s %s\n' "$mutation" "$(grep -c '^FAIL \[' "$folder/results" || true)"
  if [ "$status" -ne 1 ]; then
    printf '  distrun test exited with status %s\n' "$status"
    missed=1
  fi
  for test in "$@"; do
    grep -q "^FAIL \[.*\] gloo\.ProcessGroupGlooTest\.$test:" "$folder/results" && continue
    printf '  %s did not fail\n' "$test"
    missed=1
  done
}

printf '%-18s %s\n' mutation 'failed tests'
check wrong_root test_broadcast_basics test_reduce_basics test_gather_basics test_scatter_basics
check dropped_wait test_broadcast_basics test_allreduce_basics test_allgather_basics \
  test_gather_basics test_scatter_basics test_reduce_scatter_tensor test_send_recv_all_to_all
check missing_division test_allreduce_average
check stale_output test_broadcast_basics test_allreduce_basics test_allgather_basics \
  test_scatter_basics test_reduce_scatter_tensor
check wrong_reduce_op test_allreduce_basics test_reduce_basics test_reduce_scatter_tensor
[ "$missed" -eq 0 ] || { printf 'some mutations were not caught\n' >&2; exit 1; }
