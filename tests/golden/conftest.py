"""The scenarios register themselves when they are imported: looking for doctests would import them again."""

collect_ignore_glob = ["scenarios/*"]
