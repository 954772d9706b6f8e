"""The program distrun, for Python environments.

    python -m distrun ...       is distrun
    python -m distrun.run ...   is torchrun: distrun launch, with this Python for PROGRAM
"""

import os
import signal
import sys
from pathlib import Path


def program() -> str:
    """Returns the path of the program that was installed with this package."""
    package = Path(__file__).absolute().parent
    # DIR/distrun after `pip install --target DIR`, else PREFIX/lib/python3.X/site-packages/distrun.
    for folder in (package.parent, *package.parents[3:4]):
        candidate = folder / "bin" / "distrun"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    # Other schemes: the installer recorded the program's location.
    from importlib.metadata import PackageNotFoundError, files

    try:
        for file in files("distrun") or ():
            if file.parts[-2:] == ("bin", "distrun") and os.access(file.locate(), os.X_OK):
                return str(file.locate())
    except PackageNotFoundError:
        pass
    raise FileNotFoundError(f"no program distrun belongs to {package}: reinstall the package distrun")


def execute(name: str, arguments: list) -> None:
    """Replaces this process by the program, called `name`.  Does not return."""
    path = program()
    # Python ignores these, and the workers would inherit that.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [name, *arguments])
