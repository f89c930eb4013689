"""What every room needs and none owns: the clock, principals, error codes, limited logging, redaction."""
