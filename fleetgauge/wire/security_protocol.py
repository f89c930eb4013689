"""Kafka's four security protocols."""

import enum


class SecurityProtocol(enum.StrEnum):
    """The values of `listener.security.protocol.map`.

    >>> SecurityProtocol("SASL_SSL").has_tls, SecurityProtocol("SSL").has_sasl
    (True, False)
    """

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """True if the connection uses TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """True if clients authenticate by SASL before any other request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
