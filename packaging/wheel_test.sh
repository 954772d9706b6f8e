#!/usr/bin/env bash
# Installs the wheel into a fresh virtual environment of each Python, and uses it there.
#
#   packaging/wheel_test.sh WHEEL [PYTHON…]     PYTHON: default, each of 3.10 to 3.14 on the PATH or in pyenv's folder
set -euo pipefail
wheel=$(realpath "$1")
shift
if [ $# = 0 ]; then
  missing=
  for minor in 10 11 12 13 14; do
    found=
    # On the PATH may be a shim of pyenv that starts no Python.
    for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
      [ -n "$found" ] || ! "$python" --version >/dev/null 2>&1 || found=$python
    done
    if [ -n "$found" ]; then set -- "$@" "$found"; else missing+=" 3.$minor"; fi
  done
  [ -z "$missing" ] || printf 'not tested, because not installed: Python%s\n' "$missing"
  [ $# -gt 0 ] || set -- python3
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >worker.py <<'EOF'
import os, sys
print(os.environ["RANK"], os.environ["WORLD_SIZE"], sys.executable, sys.argv[1:])
EOF
expect() { [ "$1" = "$2" ] || { printf 'expected: %s\ngot:      %s\n' "$2" "$1"; exit 1; }; }

for python in "$@"; do
  rm -rf venv target
  "$python" -m venv venv
  bin=$folder/venv/bin
  "$bin/pip" install --quiet --no-index --disable-pip-version-check "$wheel"
  version=$("$bin/distrun" --version)
  expect "$("$bin/python" -m distrun --version)" "$version"
  expect "$("$bin/distrun" launch --nproc-per-node 2 --no-python sh -c 'echo $RANK' | sort | xargs)" "0 1"

  # As torchrun: PROGRAM runs with this very Python, which is not the first on PATH, unless PYTHON_EXEC names another.
  expect "$("$bin/python" -m distrun.run --nproc-per-node 2 worker.py --lr 1 | sort)" \
    "0 2 $bin/python ['--lr', '1']"$'\n'"1 2 $bin/python ['--lr', '1']"
  expect "$(PYTHON_EXEC="echo" "$bin/python" -m distrun.run worker.py)" "-u worker.py"
  expect "$("$bin/python" -m distrun.run --nproc-per-node 2 --no-python sh -c 'echo $RANK' | sort | xargs)" "0 1"
  expect "$("$bin/python" -m distrun.run --no-such-flag 2>&1 | cut -d: -f1 | head -n 1)" torchrun

  # The program replaces Python in the same process, and ignores no signal for that.
  # The worker's parent is the launcher, whose parent is the second guard, whose parent is the guard.
  report='up() { sed -n "s/^PPid:\t//p" /proc/$1/status; }; guard=$(up $(up $PPID)); echo $guard; grep SigIgn /proc/$guard/status'
  said=$(sh -c 'echo $$; exec "$@"' sh "$bin/python" -m distrun launch --no-python sh -c "$report")
  pid=$(head -n 1 <<<"$said")
  expect "$said" "$pid"$'\n'"$pid"$'\n'"$("$bin/distrun" launch --no-python sh -c "$report" | sed 1d)"

  # Each Python of the environment reads the .pth file: it prints nothing, and loads nothing unless a launch asks for it.
  expect "$("$bin/python" -c 'import sys; print("distrun" in sys.modules)' 2>&1)" False
  expect "$(DISTRUN_COLLECTIVES=1 "$bin/python" -c 'import sys; print("distrun.collectives" in sys.modules)' 2>&1)" True

  # Without PyTorch, the backend shm says what it requires. Its sources are complete.
  expect "$("$bin/python" -c 'import distrun.shm' 2>&1 | tail -n 1)" \
    "ImportError: distrun.shm requires PyTorch 2.11 or newer, which is not installed: pip install torch"
  shm=$(echo venv/lib/python3*/site-packages/distrun/shm)
  expect "$(cd "$shm/sources" && find . -type f -printf '%P\n' | sort)" "$(sort "$shm/sources.txt")"
  [ -e "$shm/standins/boost/system/result.hpp" ]

  # A folder that is not an environment; and what an environment has besides the program.
  "$bin/pip" install --quiet --no-index --disable-pip-version-check --target target "$wheel"
  expect "$(PYTHONPATH=target "$bin/python" -S -m distrun --version)" "$version"
  [ -e venv/share/man/man1/distrun.1 ] && [ -e venv/share/bash-completion/completions/distrun ]
  "$bin/pip" uninstall --quiet --yes distrun
  expect "$(find venv -iname '*distrun*')" ""
  printf '%s: %s\n' "$("$bin/python" --version)" "$version"
done
