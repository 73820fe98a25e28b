"""The base of errors that a user of the command line reads as one line."""


class UserError(ValueError):
    """Something cannot be used as asked. The message says all; the exit code of a command is 2."""
