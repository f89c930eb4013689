"""Several listener processes of one node (`workers`): a parent that keeps them, and what makes one node of them."""

from fleetgauge.lean_imports import import_kio

import_kio()  # a worker begins here
