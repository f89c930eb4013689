"""Parts of a broker's responses that the gateway replaces."""
