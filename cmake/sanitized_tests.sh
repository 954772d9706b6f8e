#!/usr/bin/env bash
# Runs the tests of a build under sanitizers.
#
#   cmake/sanitized_tests.sh asan|tsan FOLDER [CTEST OPTION…]
#
# CTest uses only the last -R and the last -E, and this script passes both, so neither may be given.  For one test, run
# its program.
#
# cmake/lsan.supp and cmake/tsan.supp list suppressions with their reasons.
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
    # LibTorch is not instrumented: a vector that it fills seems to overflow in our code, and
    # globals of headers exist twice. The crash reporter's signal handlers are ours.
    export ASAN_OPTIONS=detect_container_overflow=0:detect_odr_violation=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0
    export LSAN_OPTIONS=suppressions=$PWD/cmake/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1
    # Excludes tests that link an installed distrun into programs without sanitizers.
    run -E '^(install\.|subproject)' "$@"
    ;;
  tsan)
    # The test host and spawn() fork on purpose, while they have one thread.
    export TSAN_OPTIONS=die_after_fork=0
    # The sanitizer does not see the futexes of OpenMP's threads.
    export OMP_NUM_THREADS=1
    # Excludes the test that counts this process's threads: the sanitizer adds one.
    failed=0
    run -R '^(store_test|launcher_test|sharing_test|spawn_test)\.' -E 'RefusesToForkAProcessWithSeveralThreads' "$@" || failed=1
    TSAN_OPTIONS+=:suppressions=$PWD/cmake/tsan.supp
    run -R '^ddp_multirank_test\.' "$@" || failed=1
    exit "$failed"
    ;;
esac
