#!/usr/bin/env bash
# Compiles each public header alone as C++17: it compiles, or its first error says that distrun needs C++20.
#
#   cmake/older_standard_test.sh LIBTORCH
set -euo pipefail
cd "$(dirname "$0")/.."
torch=$1/include
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0 told=0
for header in include/distrun/*.h; do
  ! ${CXX:-c++} -std=c++17 -fsyntax-only -x c++ -I include -I "$torch" -I "$torch/torch/csrc/api/include" "$header" 2>"$log" || continue
  said=$(grep -a -m 1 ' error: ' "$log" || head -n 1 "$log")
  case $said in
    *'distrun needs C++20: compile with -std=c++20'*) told=$((told + 1)) ;;
    *) printf '%s\n' "$header does not say that it needs C++20: $said"; status=1 ;;
  esac
done
printf '%s\n' "$told headers say that they need C++20"
[ "$told" -gt 0 ] || status=1
exit $status
