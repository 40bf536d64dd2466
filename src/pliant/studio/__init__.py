"""Studio: annotate, check, explore and fit in the browser; a local server and its static pages."""
