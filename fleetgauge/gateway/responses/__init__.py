"""What is replaced in a broker's responses."""
