"""Client measurements by window: one table of measures, and Arrow functions that compute rows from them."""
