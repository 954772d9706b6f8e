#!/usr/bin/env bash
# `make docs`: the API reference, from the public headers into DIR/html.  Every warning is an error.
#
#   cmake/docs.sh DIR
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
rm -rf "$folder/html"
mkdir -p "$folder"
# Doxygen would take a filter that fails for an empty header.
find include/distrun -name '*.h' -print0 | xargs -0 -n 1 python3 -B cmake/doxygen_filter.py >/dev/null
version=$(sed -n 's/^project(distrun VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
doxygen - < <(cat docs/Doxyfile; printf 'OUTPUT_DIRECTORY = "%s"\nPROJECT_NUMBER = %s\n' "$folder" "$version")
printf 'distrun: the API reference is %s/html/index.html\n' "$folder" >&2
