"""The command line, `videomme`: each command reads its options, calls the library and prints.

Results go to standard output, the rest to standard error. Imports wait until a command needs them.
"""
