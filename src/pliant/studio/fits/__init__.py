"""The page Fit: runs of algorithms on an image, and what is shown of them."""
