"""The analysis of the client fleet on PySpark: decode, normalise, analyse, report."""
