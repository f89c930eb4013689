"""Several listener processes of one node (`workers`): their parent, which presents them as one node."""
