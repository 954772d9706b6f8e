"""python -m distrun.shm: compiles the backend shm, unless it is compiled, and prints the path of the library."""

from distrun import shm

print(shm.LIBRARY)
