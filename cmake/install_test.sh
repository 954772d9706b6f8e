#!/usr/bin/env bash
# Installs distrun into a temporary folder, builds a program of examples/library against it, and runs the program on two
# workers; the test program runs under `distrun test`, which must also list its own suites.
#
#   cmake/install_test.sh BUILD store|backends|sharing|parallel|testing|own_common|python_module [LIBTORCH [TORCH_PYTHON]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 library=$2 libtorch=${3-} python=${4-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }

quietly cmake --install "$build" --prefix "$folder/prefix"
# The public headers are in one folder.
[ "$(ls "$folder/prefix/include")" = distrun ]
# Without CMAKE_BUILD_TYPE: the program need not be fast.
flags=(-G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
case $library in
  # The project has already found it.
  backends) of_library=(-DFIND_TORCH=ON -DTorch_ROOT="$libtorch") ;;
  parallel | sharing)  # Their headers need neither.
    of_library=(-DDISTRUN_LIBTORCH="$libtorch" -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON) ;;
  *) of_library=(-DDISTRUN_LIBTORCH="$libtorch") ;;
esac
configure() { cmake -S examples/library -B "$folder/build" "${flags[@]}" "$@" -DLIBRARY="$library"; }
# find_package(Torch) of a CUDA build requires the CUDA toolkit.
if [ "$library" = backends ] && ! configure "${of_library[@]}" >"$folder/log" 2>&1 &&
  grep -qF 'cannot find the CUDA' "$folder/log"; then
  rm -rf "$folder/build"
  of_library=(-DDISTRUN_LIBTORCH="$libtorch")
fi
quietly configure "${of_library[@]}"
quietly cmake --build "$folder/build"

# find_package(QUIET) reports what is missing, and does not end the configuration.
mkdir "$folder/quiet"
cat >"$folder/quiet/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(quiet LANGUAGES CXX)
find_package(distrun QUIET COMPONENTS store OPTIONAL_COMPONENTS backends)
if(distrun_FOUND AND distrun_store_FOUND AND NOT distrun_backends_FOUND)
  message(STATUS "the store alone")
endif()
find_package(distrun QUIET COMPONENTS backends)
if(NOT distrun_FOUND)
  message(STATUS "not found: ${distrun_NOT_FOUND_MESSAGE}")
endif()
END
if [ "$library" = backends ]; then
  quietly cmake -S "$folder/quiet" -B "$folder/quiet/build" "${flags[@]}" -DDISTRUN_LIBTORCH="$folder/nowhere"
  said=$(grep -- '^-- \(the store\|not found\)' "$folder/log")
  [ "$said" = "-- the store alone
-- not found: $folder/nowhere is not a LibTorch: it has no include/torch/headeronly/version.h" ]
fi
if [ "$library" = parallel ] || [ "$library" = sharing ]; then
  ninja -C "$folder/build" -t deps >"$folder/deps"
  if grep -E '/boost/|/usr/include/fmt/' "$folder/deps"; then exit 1; fi
fi
# With an older standard, the first error says so.
if [ "$library" = store ] || [ "$library" = backends ]; then
  ${CXX:-c++} -std=c++17 -fsyntax-only -I"$folder/prefix/include" -I"$libtorch/include" \
    -I"$libtorch/include/torch/csrc/api/include" examples/library/use_"$library".cc 2>"$folder/log" && exit 1
  grep -m 1 ' error: ' "$folder/log" | grep -F 'distrun needs C++20: compile with -std=c++20'
fi

if [ "$library" = testing ]; then
  export XDG_CACHE_HOME="$folder"  # Keeps the user's history of tests.
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
