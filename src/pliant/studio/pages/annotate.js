// The page Annotate.
