"""What speaks for a fit: evidence, what it means for the error, and how that is learned."""
