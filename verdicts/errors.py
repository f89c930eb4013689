"""Errors of the judge."""


class RulesError(ValueError):
    """A rule file cannot be read, or names an unknown verdict, key or figure."""
