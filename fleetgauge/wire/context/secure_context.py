"""Objects that the connections of a listener with TLS, SASL or a load balancer share."""

import asyncio

from fleetgauge.wire.context.handshakes import Handshakes
from fleetgauge.wire.context.listener_counters import AuthenticationCounters
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.password_checks import PasswordChecks
from fleetgauge.wire.sasl.mechanism import PasswordCheck


class SecureContext:
    """State that the connections of one listener share, in addition to `ListenerContext`.

    Attributes:
        security: current security settings of the listener.
        handshakes: connections that are not authenticated yet.
        counters: counts of authentications.
        checks: password checks.
    """

    def __init__(self, security: ListenerSecurity, handshakes: Handshakes, counters: AuthenticationCounters) -> None:
        self.security = security
        self.handshakes = handshakes
        self.counters = counters
        # At most half of the unfinished handshakes wait for a check, which exempts them from eviction; the other half
        # can be closed in favour of new connections.
        self.checks = PasswordChecks(handshakes.max_unfinished // 2)

    def check(self, check: PasswordCheck, network: str, loop: asyncio.AbstractEventLoop) -> asyncio.Future[bool | None]:
        """Submits a password check to a thread; see `PasswordChecks.submit`."""
        return self.checks.submit(check, network, loop)
