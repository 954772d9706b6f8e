"""For tests that compare C++ with Python: runs with ranks in both languages."""

import shlex
import subprocess
import sys

import torch


def launch(distrun, programs, *arguments):
    """Runs one `distrun launch`, in which rank r executes programs[r], a list of words, with the arguments."""
    choices = " ".join(f'{rank}) exec {shlex.join(program)} "$@";;' for rank, program in enumerate(programs))
    subprocess.run([distrun, "launch", "--timeout", "200", "--nproc-per-node", str(len(programs)),
                    "sh", "-c", f"case $RANK in {choices} esac", "sh", *arguments], check=True)


def require_torch(major, minor):
    """Skips the test with an older PyTorch, whose Python behaves differently."""
    if torch.torch_version.TorchVersion(torch.__version__) < (major, minor):
        print(f"compares with PyTorch {major}.{minor} and newer; this is {torch.__version__}")
        sys.exit(77)


def difference(a, b):
    return (a.double() - b.double()).abs().max().item() if a.numel() else 0.0
