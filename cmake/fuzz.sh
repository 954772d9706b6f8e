#!/usr/bin/env bash
# Searches for bytes that break the store's parser or table, with libFuzzer and sanitizers.
#
#   cmake/fuzz.sh             for FUZZ_SECONDS (600); keeps inputs that reach new code in build-fuzz/corpus
#   cmake/fuzz.sh minimise    adds those of them to store/fuzz/corpus that reach code it does not reach yet
#
# Inputs that break it are in build-fuzz/artifacts; add them to store/fuzz/corpus with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-600}
say() { printf 'distrun: %s\n' "$*" >&2; }

cmake/configure.sh fuzz build-fuzz
ninja -C build-fuzz --quiet store_fuzz make_store_corpus
mkdir -p build-fuzz/corpus build-fuzz/artifacts
options=(-max_len=4096 -timeout=20 -malloc_limit_mb=64 -artifact_prefix=build-fuzz/artifacts/)

case ${1-} in
  minimise)
    exec build-fuzz/store_fuzz "${options[@]}" -merge=1 -use_counters=0 store/fuzz/corpus build-fuzz/corpus
    ;;
  '')
    say "fuzzing the store for $seconds s"
    if ! build-fuzz/store_fuzz "${options[@]}" -dict=store/fuzz/store.dict -max_total_time="$seconds" -print_final_stats=1 \
      build-fuzz/corpus store/fuzz/corpus >build-fuzz/fuzz.log 2>&1; then
      # Start at the first error; the output before it matters less.
      grep -a -m 1 -A 30 -e 'store_fuzz: it does' -e 'runtime error:' -e 'ERROR: ' build-fuzz/fuzz.log >&2 ||
        tail -n 30 build-fuzz/fuzz.log >&2
      say "error: an input breaks the store; again: build-fuzz/store_fuzz $(ls -t build-fuzz/artifacts/* 2>/dev/null | head -n 1)"
      exit 1
    fi
    say "$(sed -n 's/^stat::number_of_executed_units: */inputs tried: /p' build-fuzz/fuzz.log), none broke it"
    ;;
  *)
    say "usage: cmake/fuzz.sh [minimise]"
    exit 2
    ;;
esac
