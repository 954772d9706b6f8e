#!/usr/bin/env bash
# `make check`: format, the include rule, clang-tidy on the LibTorch-free part, and
# that part's tests under the address and undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
folders=(common store launcher testsuites/harness cli)
jobs=$(nproc)

say() { printf 'distrun: %s\n' "$*" >&2; }

say "checking the format"
git ls-files -z '*.cc' '*.h' | xargs -0 clang-format --dry-run --Werror

say "checking that includes point down"
python3 cmake/check_includes.py

say "checking shell scripts' syntax"
git ls-files -z '*.sh' .ci/run | xargs -0 -n 1 bash -n

cmake/configure.sh asan build-asan
say "running clang-tidy"
for folder in "${folders[@]}"; do git ls-files "$folder/*.cc"; done | grep -v _test.cc | tr '\n' '\0' |
  xargs -0 -n 1 -P "$jobs" clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p build-asan 2> >(grep -v 'warnings\? generated\|^Suppressed\|^Use -header' >&2)

say "running the tests under sanitizers"
ninja -C build-asan --quiet
ctest --test-dir build-asan --output-on-failure -j "$jobs"
