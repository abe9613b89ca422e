"""What a person can mend: one line that says what to do. The command line prints it and exits with 1."""


class UserError(Exception):
    """The message is complete: what is wrong, with its value, and what to do next."""
