// The page Check.
