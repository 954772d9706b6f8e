#!/usr/bin/env bash
# Looks for bytes that break the store's parser or table, with libFuzzer and the sanitizers.
#
#   cmake/fuzz.sh             for FUZZ_SECONDS (600); what is found on the way is kept in build-fuzz/corpus
#   cmake/fuzz.sh minimise    adds to store/fuzz/corpus what of that reaches code that it does not
#
# An input that breaks it lies in build-fuzz/artifacts afterwards: put it into store/fuzz/corpus with the repair.
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
      # From the first word of what went wrong: behind it lies much that is of less use.
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
