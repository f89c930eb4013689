"""What happens in every fleet although nothing is wrong."""

from fleet.simulate.plan import Plan


def add_healthy_complications(plan: Plan) -> None:
    """None yet."""
