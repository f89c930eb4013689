"""A package, so that what the trips share ends with the last of them."""
