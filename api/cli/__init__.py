"""The command line: ``main`` finds the command's module and runs it."""
