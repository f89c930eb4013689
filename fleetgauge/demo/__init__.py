"""The demo: real clients, one road through everything, and a check that each of them arrived at its end."""
