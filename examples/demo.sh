#!/usr/bin/env bash
# `make demo`: trains the digits on two workers, in Python and then in C++.  The C++ program is built while Python
# trains.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} python=${TORCH_PYTHON-}

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

build_log=$(mktemp)
builder=
trap 'rm -f "$build_log"; [ -z "$builder" ] || kill -- -"$builder" 2>/dev/null || true' EXIT
set -m  # The build is a process group, killed with this script.
{ make --no-print-directory configured && ninja -C "$build" distrun train_digits; } >"$build_log" 2>&1 &
builder=$!
set +m

if [ -n "$python" ]; then
  PYTHON_EXEC=$python run "$build/distrun" launch --nproc-per-node 2 examples/train_digits.py examples/data/digits.csv
else
  echo "Skipping the Python half: with LIBTORCH=DIR, set TORCH_PYTHON to a Python that can import torch."
fi

# Shows the last "[12/34] Building …" line.
printf '\ndistrun: building the C++ half\n' >&2
tail -n 1 -f --pid="$builder" "$build_log" | sed -nuE 's/^\[([0-9]+\/[0-9]+)\].* ([^ ]+)$/\1 \2/p' >&2 || true
wait "$builder" || { builder=; cat "$build_log" >&2; exit 1; }
builder=
run "$build/distrun" launch --nproc-per-node 2 "$build/examples/train_digits" examples/data/digits.csv
