#!/usr/bin/env bash
# Builds backends/shm/host/ and its tests without the rest of the project, and runs them.
#
#   cmake/shm_host_tests.sh LIBTORCH KIND…    LIBTORCH is the folder of a LibTorch, whose headers are used
#
#   asan   with the address and undefined-behaviour sanitizers
#   tsan   with the thread sanitizer
#   arm64  for 64-bit Arm, in an emulator (qemu)
set -euo pipefail
cd "$(dirname "$0")/.."
torch=$1
shift
say() { printf 'distrun: %s\n' "$*" >&2; }

# build FOLDER SETTING…
build() {
  local folder=$1
  shift
  mkdir -p "$folder"
  if ! cmake -S backends/shm/host/test -B "$folder" -G Ninja "-DLIBTORCH_INCLUDE=$torch/include" "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    exit 1
  fi
  ninja -C "$folder" --quiet
}

for kind in "$@"; do
  folder=build-shm-$kind
  say "testing backends/shm/host: $kind"
  case $kind in
    asan)
      build "$folder" -DCMAKE_CXX_FLAGS='-g1 -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'
      UBSAN_OPTIONS=print_stacktrace=1 "$folder/shm_host_test" --gtest_brief=1
      ;;
    tsan)
      build "$folder" -DCMAKE_CXX_FLAGS='-g1 -O1 -fno-omit-frame-pointer -fsanitize=thread'
      # A test forks while this process has one thread.
      TSAN_OPTIONS=die_after_fork=0 "$folder/shm_host_test" --gtest_brief=1
      ;;
    arm64)
      build "$folder" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
        -DCMAKE_CXX_FLAGS='-g1 -O2' -DOWN_GOOGLETEST=ON
      qemu-aarch64 -L /usr/aarch64-linux-gnu "$folder/shm_host_test" --gtest_brief=1
      ;;
    *)
      say "error: no kind '$kind'; the kinds are in the first lines of cmake/shm_host_tests.sh"
      exit 2
      ;;
  esac
done
