#!/usr/bin/env bash
# Accelerate's own tests of a launched program, unmodified, under torchrun and under `distrun
# launch`, and there also with the backend shm instead of gloo, on two workers without GPUs: all
# must succeed and print the same, in any order. Characters are compared, because torchrun may merge
# lines of two workers.
#
#   cli/accelerate_test.sh build/distrun .deps/venv/bin/python3 .deps/accelerate
#
# The third argument is the folder of `cmake/setup.sh accelerate`. Takes about three minutes.
set -euo pipefail
distrun=$(realpath "$1") python=$(realpath -s "$2") package=$(realpath "$3")
scripts=$package/accelerate/test_utils/scripts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$package CUDA_VISIBLE_DEVICES='' ACCELERATE_USE_CPU=true OMP_NUM_THREADS=1 PATH=${python%/*}:$PATH

root=$(realpath "${0%/*}/..")
with_shm=$root/backends/shm/test/shm_for_gloo:$root/packaging/python:$package

# Without the name of the backend.
characters() { sed 's/Backend: shm/Backend: gloo/' "$1" | tr -d '\n' | fold -w 1 | sort; }

failed=0
for script in test_ops test_sync test_script; do
  for launcher in torchrun distrun shm; do
    case $launcher in
      torchrun) command=("$python" -m torch.distributed.run --master-port 0 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0) ;;
      distrun) command=("$distrun" launch) ;;
      shm) command=(env "PYTHONPATH=$with_shm" "$distrun" launch) ;;
    esac
    # On busy cores, PyTorch's thread of gloo sometimes aborts a worker whose Python ends, under any launcher.
    attempts=3
    if [ "$launcher" = shm ]; then attempts=1; fi
    while true; do
      status=0
      timeout 300 "${command[@]}" --nproc-per-node 2 "$scripts/$script.py" \
        >"$work/$script.$launcher" 2>"$work/errors" || status=$?
      attempts=$((attempts - 1))
      if [ "$attempts" -eq 0 ] || ! grep -q "terminate called without an active exception" "$work/errors"; then break; fi
      echo "$script under $launcher: gloo aborted a worker at its end; again"
    done
    lines=$(grep -c . "$work/$script.$launcher" || true)
    echo "$script under $launcher: exit status $status, $lines lines"
    if [ "$status" -ne 0 ] || [ "$lines" -eq 0 ]; then
      cat "$work/errors"
      failed=1
    fi
  done
  for launcher in distrun shm; do
    if ! cmp -s <(characters "$work/$script.torchrun") <(characters "$work/$script.$launcher"); then
      echo "$script has printed something else under $launcher:"
      diff <(sort "$work/$script.torchrun") <(sort "$work/$script.$launcher") || true
      failed=1
    fi
  done
done
exit "$failed"
