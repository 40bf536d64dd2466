"""How a model is made of annotated images."""
