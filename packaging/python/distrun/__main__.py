"""python -m distrun: the program distrun itself."""

import sys

from distrun import execute

execute("distrun", sys.argv[1:])
