"""The studio: a local web page to annotate with a model's help, check annotations, see models move, fit and review.

It calls the library and knows no algorithm. `server` puts it together; each page has a module of endpoints here and
an HTML fragment with a script of the same name in `pages`.
"""
