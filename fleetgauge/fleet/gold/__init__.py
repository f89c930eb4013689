"""The answers: one pure `DataFrame -> DataFrame` function a table."""
