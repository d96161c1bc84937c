"""One command of the command line a module; `ptxguard.cli` imports only the one that is called."""
