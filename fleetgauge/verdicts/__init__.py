"""The judge: wide rows of a fleet's windows into verdicts. See docs/analyse/verdicts.md."""
