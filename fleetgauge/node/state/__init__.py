"""State that tools change while a node runs: subscriptions, quotas, users, ACLs; kept on disk or on a topic."""
