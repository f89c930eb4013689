"""Errors of the judge."""


class RowsError(ValueError):
    """Rows are not what the judge reads: a column is missing."""


class RulesError(ValueError):
    """A rule file cannot be read, or names an unknown verdict, key or figure."""
