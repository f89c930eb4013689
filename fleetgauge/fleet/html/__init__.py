"""The page that an operator can forward: one HTML file about the whole fleet, or about one subject."""
