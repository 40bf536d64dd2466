// The page Results.
