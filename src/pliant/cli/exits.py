"""Exit codes, the same for every command; docs/reference/commands.md has them for users."""

DONE = 0
ERROR = 1
"""Something was wrong that the user can mend; a sentence says what."""
USAGE = 2
"""The command line was not understood."""
INCOMPLETE = 3
"""Finished, but not everything is good: images without a fit, samples that fail a check, scales not known."""
INTERRUPTED = 130
"""Ctrl-C; what was finished is in place."""
