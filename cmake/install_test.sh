#!/usr/bin/env bash
# Installs distrun into a folder of its own, builds a program of examples/library against that, and
# runs it on two workers; the program of tests by `distrun test`, which has to have its own suites, too.
#
#   cmake/install_test.sh BUILD store|backends|sharing|parallel|testing|own_common|python_module [LIBTORCH [TORCH_PYTHON]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 library=$2 libtorch=${3-} python=${4-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }

quietly cmake --install "$build" --prefix "$folder/prefix"
# The public headers are one folder.
[ "$(ls "$folder/prefix/include")" = distrun ]
# No CMAKE_BUILD_TYPE: it is to compile, to link and to run, not to be fast.
quietly cmake -S examples/library -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DLIBRARY="$library" -DDISTRUN_LIBTORCH="$libtorch"
quietly cmake --build "$folder/build"

if [ "$library" = testing ]; then
  export XDG_CACHE_HOME="$folder"  # The history of tests is the user's.
  said=$("$folder/prefix/bin/distrun" test --binary "$folder/build/use_testing") || { printf '%s\n' "$said"; exit 1; }
  printf '%s\n' "$said"
  [ "$(tail -n 1 <<<"$said")" = '1 passed, 0 failed, 0 skipped' ]
  "$folder/prefix/bin/distrun" test --list gloo >"$folder/list"
  wc -l <"$folder/list"
  grep -qx gloo.ProcessGroupGlooTest.test_allreduce_basics "$folder/list"
  exit
fi
worker=("$folder/build/use_$library")
if [ "$library" = python_module ]; then
  export PYTHON_EXEC=$python
  worker=(examples/library/use_python_module.py "$folder/build/libuse_python_module.so")
fi
said=$("$folder/prefix/bin/distrun" launch --timeout 100 --nproc-per-node 2 "${worker[@]}" | sed 's/ (torch [0-9.]*)$//')
printf '%s\n' "$said"
if [ "$library" = sharing ]; then
  [ "$(sort <<<"$said")" = $'rank 0: 2 processes have left 3\nrank 1: 2 processes have left 3' ]
  exit
fi
if [ "$library" = parallel ]; then
  [ "$(sort <<<"$said")" = $'rank 0: 3.00 x + 1.00\nrank 1: 3.00 x + 1.00' ]
  # README and the tutorial show this program, without its first comment.
  for page in README.md docs/tutorials/train-in-cpp.md; do
    cmp <(sed '/^#include <cstdio>/,$!d' examples/library/use_parallel.cc) \
      <(sed -n '/^#include <cstdio>/,/^```/p' "$page" | sed '$d')
  done
  exit
fi
[ "$(sort <<<"$said")" = $'rank 0: 2 ranks have come\nrank 1: 2 ranks have come' ]
