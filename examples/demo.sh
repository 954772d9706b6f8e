#!/usr/bin/env bash
# Trains the digits on two workers, in C++ and then in Python, through distrun: `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} python=${TORCH_PYTHON-}

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

run "$build/distrun" launch --nproc-per-node 2 "$build/examples/train_digits" examples/data/digits.csv
if [ -z "$python" ]; then
  echo "The Python half is left out: with LIBTORCH=DIR, TORCH_PYTHON=… has to name a Python that can import torch."
  exit 0
fi
export PYTHON_EXEC=$python
run "$build/distrun" launch --nproc-per-node 2 examples/train_digits.py examples/data/digits.csv
