"""`fleetgauge credentials`: prints a user's configuration lines, made from a password that is not stored."""

import getpass
import json
import sys
from typing import Annotated

import typer

from fleetgauge.errors import ConfigError
from wire.sasl.credentials import DEFAULT_ITERATIONS, MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism


def credentials(
    user: Annotated[str, typer.Argument(help="The user name, as clients send it.")],
    mechanism: Annotated[
        list[ScramMechanism] | None,
        typer.Option("--mechanism", case_sensitive=False, help="Only this mechanism; repeatable. By default all."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="Of the hash; more make guessing slower.")
    ] = DEFAULT_ITERATIONS,
) -> None:
    """Print the lines of one SASL user for the configuration file, [sasl.users.NAME].

    The password is prompted for without echo, or read from standard input if that is not a terminal. It is not stored:
    the lines hold salted hashes, which are used for PLAIN as well.
    """
    password = _read_password()
    typer.echo(f"[sasl.users.{json.dumps(user, ensure_ascii=False)}]")
    for each in mechanism or list(ScramMechanism):
        credential = ScramCredential.make(each, password, iterations=iterations)
        typer.echo(f'{each.value.lower()} = "{credential}"')


def _read_password() -> str:
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Once more: ") != password:
            raise ConfigError("", "the two passwords differ")
    if not password:
        raise ConfigError("", "a password needs at least one character")
    return password
