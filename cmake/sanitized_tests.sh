#!/usr/bin/env bash
# Runs the tests of a build under sanitizers.
#
#   cmake/sanitized_tests.sh asan|tsan FOLDER [CTEST OPTION…]
#
# CTest takes the last -R and the last -E alone, and both are given below: so none can be given here.  For one test, run
# its program.
#
# What is suppressed is in cmake/lsan.supp and cmake/tsan.supp, each with its reason.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 folder=$2
shift 2
for option in "$@"; do
  case $option in
    -R* | -E* | --tests-regex* | --exclude-regex*)
      echo "sanitized_tests.sh: $option would replace the choice of tests made here: run the test's program instead" >&2
      exit 2
      ;;
  esac
done
run() { ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$(nproc)" "$@"; }

case $kind in
  asan)
    # LibTorch is not instrumented: a vector that it fills and that our code reads looks as if it overflowed, and a
    # global of a header is in it and in the program.  The crash reporter's signals are not the sanitizer's.
    export ASAN_OPTIONS=detect_container_overflow=0:detect_odr_violation=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0
    export LSAN_OPTIONS=suppressions=$PWD/cmake/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1
    # Not those that link an installed distrun into programs without sanitizers.
    run -E '^(install\.|subproject)' "$@"
    ;;
  tsan)
    # Processes are forked, on purpose, by the test host and by spawn(), before they have a thread of their own.
    export TSAN_OPTIONS=die_after_fork=0
    # OpenMP's threads wait for each other by futexes, which the sanitizer does not see.
    export OMP_NUM_THREADS=1
    # Not the one that counts this process's threads: the sanitizer has one.
    failed=0
    run -R '^(store_test|launcher_test|sharing_test|spawn_test)\.' -E 'RefusesToForkAProcessWithSeveralThreads' "$@" || failed=1
    TSAN_OPTIONS+=:suppressions=$PWD/cmake/tsan.supp
    run -R '^ddp_multirank_test\.' "$@" || failed=1
    exit "$failed"
    ;;
esac
