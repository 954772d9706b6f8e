#!/usr/bin/env bash
# Builds dist/distrun-VERSION-py3-none-manylinux_2_31_ARCH.whl.
#
#   packaging/make_wheel.sh
#
# The program needs no shared library, but Linux 5.4. Among the possible tags, glibc 2.31 is the
# first whose distributions (Debian 11, Ubuntu 20.04) have such a kernel.
#
# Environment: PYTHON (python3), 3.11 or newer.  pip's settings choose the source of build
# requirements.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
folder=build-wheel log=build-wheel/wheel.log
say() { printf 'distrun: %s\n' "$*" >&2; }
quietly() { "$@" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; say "error: $1 failed; the whole output is in $log"; exit 1; }; }

mkdir -p "$folder"
: >"$log"
if [ ! "$folder/.ready" -nt packaging/wheel_requirements.txt ]; then
  say "fetching scikit-build-core"
  quietly "$python" -m venv --clear "$folder/venv"
  quietly "$folder/venv/bin/python3" -m pip install --progress-bar off --require-hashes --only-binary :all: -r packaging/wheel_requirements.txt
  touch "$folder/.ready"
fi
say "building the wheel"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
rm -f dist/distrun-*.whl
quietly "$folder/venv/bin/python3" -m pip wheel --no-deps --no-build-isolation --wheel-dir dist \
  --config-settings "build-dir=$folder/build" --config-settings "wheel.tags=py3-none-manylinux_2_31_$(uname -m)" .
ls dist/distrun-*.whl
