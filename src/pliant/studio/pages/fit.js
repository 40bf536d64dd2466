// The page Fit.
