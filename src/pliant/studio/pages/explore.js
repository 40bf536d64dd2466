// The page Explore.
