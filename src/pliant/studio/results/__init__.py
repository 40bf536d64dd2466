"""The page Results: outcomes of other commands, found, opened, sorted, drawn and corrected."""
