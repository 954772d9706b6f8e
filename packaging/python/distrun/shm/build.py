"""Compiles the backend shm for the installed PyTorch.

The library contains operators, so it needs neither Python's headers nor pybind11, and does not depend on the version of
Python.  It is in $DISTRUN_SHM_CACHE, or else in $XDG_CACHE_HOME/distrun/shm (~/.cache/distrun/shm), in a folder whose
name changes with the sources, PyTorch and the machine's architecture.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

_PACKAGE = Path(__file__).absolute().parent
_STANDINS = _PACKAGE / "standins"
_TORCH_MIN = (2, 11)
_COMPILERS = ("g++", "c++", "clang++")
_FLAGS = ["-std=c++20", "-fPIC", "-fvisibility=hidden", "-pthread", "-DNDEBUG"]
_LOG_LINES = 15


class BuildError(ImportError):
    """The backend cannot be compiled or used here."""

    def __init__(self, text: str):
        super().__init__(f"distrun.shm: {text}")


def library() -> Path:
    """Returns the library, compiled if necessary.  Processes that call this at once compile it once."""
    _check_torch()
    sources = _source_folder()
    names = (_PACKAGE / "sources.txt").read_text().split()
    cache = _cache_folder()
    folder = cache / _key(sources, names)
    target = folder / "distrun_shm.so"
    if target.exists():  # Also in a folder that cannot be written.
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock") as has_waited:
            # Another process may have compiled it meanwhile, or failed to: then this one would fail as well.
            if not target.exists():
                failed = folder / "failed"
                if not (has_waited and failed.exists()):
                    failed.unlink(missing_ok=True)
                    _compile(sources, names, folder, target)
                if failed.exists():
                    raise _failure(failed)
    except OSError as error:  # A BuildError is not one.
        raise BuildError(f"cannot write to {error.filename or folder}: {error.strerror}; set DISTRUN_SHM_CACHE to a folder "
                         "that can be written") from error
    return target


def _check_torch() -> None:
    if torch.torch_version.TorchVersion(torch.__version__) < _TORCH_MIN:
        raise BuildError(f"requires PyTorch {'.'.join(map(str, _TORCH_MIN))} or newer; this is {torch.__version__}")
    if not torch.distributed.is_available():
        raise BuildError(f"this PyTorch ({torch.__version__}) was built without torch.distributed")


def _source_folder() -> Path:
    for folder in (_PACKAGE / "sources", *_PACKAGE.parents[3:4]):  # Of a wheel; of a checkout.
        if (folder / "backends/shm/shm.cc").exists():
            return folder
    raise BuildError(f"{_PACKAGE} contains no sources: reinstall the package distrun")


def _cache_folder() -> Path:
    own = os.environ.get("DISTRUN_SHM_CACHE")
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared and os.path.isabs(shared) else Path(os.path.expanduser("~/.cache"))).absolute() / "distrun/shm"


def _key(sources: Path, names: list) -> str:
    """Two builds of PyTorch with the same version can differ, so its place and its commit count as well."""
    digest = hashlib.sha256(repr((_FLAGS, torch.__file__, torch.version.git_version, _abi_flag())).encode())
    for file in (Path(__file__), *(sources / name for name in names), *sorted(_STANDINS.rglob("*.hpp"))):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return f"{_version()}-torch{torch.__version__}-{platform.machine()}-{digest.hexdigest()[:16]}"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("distrun")
    except PackageNotFoundError:  # In a checkout.
        return "source"


def _abi_flag() -> str:
    return f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"


@contextlib.contextmanager
def _locked(path: Path):
    """Holds a lock, which ends with the process.  Yields whether another process had it first."""
    with open(path, "a") as file:
        has_waited = False
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                has_waited = True
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # A file system without locks: several processes may compile it, which is harmless.
            pass
        yield has_waited


def _compiler() -> list:
    try:
        chosen = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise BuildError(f"the environment variable CXX is not a command: {error}") from error
    for command in [chosen] if chosen else [[name] for name in _COMPILERS]:
        if shutil.which(command[0]):
            return command
    if chosen:
        raise BuildError(f"there is no compiler {chosen[0]}, which the environment variable CXX names")
    raise BuildError("there is no C++ compiler: install GCC 12 or newer (apt-get install g++), or set CXX")


def _unit(name: str) -> str:
    if name == "backends/shm/host/reduction.cc":
        return "reduction"
    if name.startswith(("common/", "backends/shm/host/")):
        return "host"
    return "hosts" if name.startswith("backends/hosts/") else "backend"


def _units(sources: Path, names: list) -> dict:
    """What the compiler reads at once, by name: the headers of PyTorch cost more than the sources."""
    units = {"hosts": [], "backend": [], "host": [], "reduction": []}
    for name in names:
        if name.endswith(".cc"):
            units[_unit(name)].append(name)
    return {unit: "".join(f'#include "{sources / name}"\n' for name in its) for unit, its in units.items()}


def _compile(sources: Path, names: list, folder: Path, target: Path) -> None:
    """Makes `target`, or else a file "failed" with the compiler's output."""
    compiler = _compiler()
    for left in folder.glob("tmp*"):  # Of a process that was killed.
        shutil.rmtree(left, ignore_errors=True)
    torch_folder = Path(torch.__file__).absolute().parent
    flags = [*_FLAGS, _abi_flag(), "-I", str(_STANDINS), "-I", str(sources), "-I", str(sources / "include"),
             "-isystem", str(torch_folder / "include")]
    print(f"distrun.shm: compiling the backend for PyTorch {torch.__version__}, once, into {folder}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as work, open(os.path.join(work, "log"), "w") as output:
        running, objects = [], []
        for unit, text in _units(sources, names).items():
            source = Path(work) / f"{unit}.cc"
            source.write_text(text)
            objects.append(str(source.with_suffix(".o")))
            # The loops of reductions are vectorized.
            level = "-O3" if unit == "reduction" else "-O2"
            running.append(_start([*compiler, *flags, level, "-c", str(source), "-o", objects[-1]], work, output))
        statuses = [process.wait() for process in running]
        linked = Path(work) / target.name
        link = [*compiler, "-shared", "-pthread", "-o", str(linked), *objects, "-L", str(torch_folder / "lib"), "-ltorch_cpu", "-lc10"]
        if any(statuses) or _start(link, work, output).wait() != 0:
            os.replace(output.name, folder / "failed")
        else:
            os.replace(linked, target)


def _start(command: list, folder: str, output) -> subprocess.Popen:
    output.write(shlex.join(command) + "\n")
    output.flush()
    environment = {**os.environ, "TMPDIR": folder}  # For the compiler's temporary files.
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    except OSError as error:
        raise BuildError(f"cannot run the compiler {command[0]}: {error.strerror}") from error


def _failure(log: Path) -> BuildError:
    lines = log.read_text(errors="replace").splitlines()
    said = "\n".join(lines[-_LOG_LINES:])
    return BuildError(f"the backend cannot be compiled; the compiler's output is in {log}, and ends with:\n{said}")
