"""The command line, `videomme`: each command reads its options, calls the library and prints.

Results go to standard output, everything else to standard error. A command imports what it needs
when it runs, so that `videomme --help` starts quickly.
"""
