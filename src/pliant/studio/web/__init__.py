"""The web server's parts that know nothing of images: endpoints from typed functions, events, jobs, who may ask."""
