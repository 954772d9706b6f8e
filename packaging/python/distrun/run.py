"""python -m distrun.run: takes the place of torchrun and of python -m torch.distributed.run.

PROGRAM runs with this very Python, unless PYTHON_EXEC names another.
"""

import os
import sys

from distrun import execute

if __name__ == "__main__":
    if sys.executable:
        os.environ.setdefault("PYTHON_EXEC", sys.executable)
    execute("torchrun", sys.argv[1:])
