"""Exit codes, the same for every command; docs/reference/commands.md has them for users."""

DONE = 0
ERROR = 1
"""Something was wrong that the user can mend; a sentence says what."""
USAGE = 2
"""The command line was not understood."""
INCOMPLETE = 3
"""Finished, but not everything was good: images that could not be fitted, samples that do not pass a check."""
INTERRUPTED = 130
"""Ctrl-C; what was finished is in place."""
