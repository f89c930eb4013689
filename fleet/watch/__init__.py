"""The standing watch: rules on a stream of pushes, and alerts that open once and clear once."""
