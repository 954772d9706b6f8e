"""Loads libuse_python_module.so next to torch:

    distrun launch --nproc-per-node 2 use_python_module.py build-library/libuse_python_module.so
"""

import ctypes
import os
import sys

import torch  # The LibTorch that the library then finds loaded.

ranks = ctypes.CDLL(sys.argv[1]).ranks_that_train()
print(f"rank {os.environ['RANK']}: {ranks} ranks have come (torch {torch.__version__.split('+')[0]})")
sys.exit(0 if ranks > 0 else 1)
