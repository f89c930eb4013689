"""Kafka's defaults and constants of quotas, for `quotas.config` and for the configs of each manager."""

from typing import Final

NUM_QUOTA_SAMPLES_DEFAULT: Final = 11
"""10 whole windows and the current one."""
QUOTA_WINDOW_SIZE_SECONDS_DEFAULT: Final = 1
INT_MAX: Final = 2**31 - 1
"""Java's `Integer.MAX_VALUE`: the most that a key of Kafka's type int takes, and Kafka's "no limit" of connections, of
their rates, of percentages and of rates of mutations.
"""
INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS: Final = 3_600
"""Who records nothing for longer [s] begins anew (chapter 19, "Gotchas")."""
