"""What is open and what is known of it: every change in a history first, then in the landmark file."""
