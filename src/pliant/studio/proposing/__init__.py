"""The model in the loop: it learns after every image, proposes shapes, and says which image it wants next."""
