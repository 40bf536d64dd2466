"""The version, alone in a file so that nothing needs to be imported to know it."""

__version__ = "0.1.0"
