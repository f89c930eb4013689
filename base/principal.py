"""Who is on the other end of a connection, as Kafka names it. Imports nothing of the project."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """A principal in Kafka's form `type:name`.

    Attributes:
        principal_type: `User` for everything that Kafka's default builder makes.
        name: the name within the type; may hold any character, colons too.
    """

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "KafkaPrincipal":
        """Reads `User:alice` back into its parts.

        Raises:
            ValueError: there is no colon, or nothing before it.
        """
        principal_type, colon, name = text.partition(":")
        if not colon or not principal_type:
            raise ValueError(f"a principal is written type:name, for example User:alice, not {text!r}")
        return cls(principal_type, name)


ANONYMOUS = KafkaPrincipal("User", "ANONYMOUS")
