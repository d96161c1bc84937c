"""`python -m ptxguard`: the command line without its console script."""

from ptxguard.cli import main

main()
