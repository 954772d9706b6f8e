#!/usr/bin/env bash
# Runs the tests of a build under sanitizers.
#
#   cmake/sanitized_tests.sh asan|tsan FOLDER [CTEST OPTION…]
#
# What is suppressed is in cmake/lsan.supp and cmake/tsan.supp, each with its reason.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 folder=$2
shift 2
here=$PWD/cmake

case $kind in
  asan)
    # Not those that link an installed distrun into programs without sanitizers; nor one in which a process has no free
    # descriptor: the sanitizer needs one to look at memory.
    tests=(-E '^(install\.|subproject)|TensorQueueTest.AnItemForWhichThereIsNoDescriptor')
    # LibTorch is not instrumented: a vector that it fills and that our code reads looks as if it overflowed, and a
    # global of a header is in it and in the program.
    export ASAN_OPTIONS=detect_container_overflow=0:detect_odr_violation=0
    export LSAN_OPTIONS=suppressions=$here/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
  tsan)
    tests=(-R '^(store_test|launcher_test|sharing_test|spawn_test|ddp_multirank_test)\.')
    # Forks of a process with threads are what the test host and spawn() do on purpose, before any thread.
    export TSAN_OPTIONS=suppressions=$here/tsan.supp:die_after_fork=0
    ;;
esac
ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" "${tests[@]}" "$@"
