"""Kafka principals: the authenticated user of a connection. Imports nothing of the project."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """A principal in Kafka's form `type:name`.

    Attributes:
        principal_type: `User` for every principal that Kafka's default builder makes.
        name: the name within the type; may contain any character, including colons.
    """

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "KafkaPrincipal":
        """Parses `User:alice`.

        Raises:
            ValueError: the colon or the type before it is missing.
        """
        principal_type, colon, name = text.partition(":")
        if not colon or not principal_type:
            raise ValueError(f"a principal is written type:name, for example User:alice, not {text!r}")
        return cls(principal_type, name)


ANONYMOUS = KafkaPrincipal("User", "ANONYMOUS")
