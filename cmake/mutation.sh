#!/usr/bin/env bash
# `make mutation`: runs the suite `gloo` on backends that misbehave on purpose
# (testsuites/mutation/mutation.h).  Each has to be caught.
#
# Environment: BUILD (build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
results=$(mktemp)
trap 'rm -f "$results"' EXIT

missed=0
printf '%-18s %s\n' mutation 'tests that have failed'
for mutation in wrong_root dropped_wait missing_division stale_output wrong_reduce_op; do
  status=0
  DISTRUN_MUTATION=$mutation "$build/distrun" test gloo --timeout 20 >"$results" 2>&1 || status=$?
  printf '%-18s %s\n' "$mutation" "$(grep -c '^FAIL \[' "$results" || true)"
  [ "$status" -eq 1 ] || missed=$((missed + 1))
done
[ "$missed" -eq 0 ] || { printf '%s mutations were not caught\n' "$missed" >&2; exit 1; }
