#!/usr/bin/env bash
# Installs the program without symbols, its symbols separately, and the libraries without debug
# information, and checks them.
#
#   cmake/stripped_test.sh BUILD
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sections() { readelf --wide --sections "$1"; }
build_id() { readelf --notes "$1" | sed -n 's/.*Build ID: //p'; }

# Twice: an installation over another one strips again.
for _ in 1 2; do cmake --install "$build" --prefix "$folder" --component program >/dev/null; done
program=$folder/bin/distrun
"$program" --version
[ ! -e "$folder/lib/debug" ]
if sections "$program" | grep -E '\.(symtab|debug_info)'; then
  echo "$program is not stripped" && exit 1
fi

cmake --install "$build" --prefix "$folder" --component development >/dev/null
for library in "$folder"/lib*/libdistrun_*; do
  if sections "$library" | grep -F .debug_info; then
    echo "$library is not stripped" && exit 1
  fi
  sections "$library" | grep -c -F .symtab
done

cmake --install "$build" --prefix "$folder" --component symbols >/dev/null
id=$(build_id "$program")
symbols=$folder/lib/debug/.build-id/${id:0:2}/${id:2}.debug
sections "$symbols" | grep -c -E '\.(symtab|debug_info)'
[ "$(build_id "$symbols")" = "$id" ]
stat --format '%n: %s bytes' "$program" "$symbols" | sed 's|.*/||'
