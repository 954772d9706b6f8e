"""The host of the tests of a Python file.  distrun starts it:

    python3 FOLDER FILE [arguments of FILE]

It imports FILE once, lists its tests, and forks their ranks.  Descriptor 0 is the socket to distrun.
"""
import os
import signal
import sys

if sys.version_info < (3, 10):
    sys.exit(f"distrun test needs Python 3.10 or newer; this is {sys.version.split()[0]}")

import distrun_host
import distrun_packets
import distrun_process
import distrun_tests


def main():
    path = os.path.abspath(sys.argv[1])
    executed = distrun_host.executed_rank()
    if executed is None:
        channel = distrun_packets.Channel(os.dup(0))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        for question in distrun_process.QUESTIONS:  # Until a rank can answer.
            signal.signal(question, signal.SIG_IGN)
        # PyTorch then asks for GPUs without using them, and starts no threads that a fork would lack.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        distrun_process.flush_each_line()
    sys.path[0] = os.path.dirname(path)
    sys.argv[:] = [path, *sys.argv[2:]]
    tests = distrun_tests.find_tests(distrun_tests.load(path), path)
    if executed is None:
        distrun_host.Host(channel, tests).serve()
    else:
        distrun_host.run_rank(tests, executed)


_this = sys.modules["__main__"]  # load() replaces it; its functions still need it.
main()
