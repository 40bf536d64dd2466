"""Where a fit may begin: boxes, detectors, the usual placement, a scan, noise, and the choice between them."""
