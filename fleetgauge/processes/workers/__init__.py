"""Several listener processes of one node (`workers`): a parent that keeps them, and what makes one node of them."""
