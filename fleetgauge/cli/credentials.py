"""`fleetgauge credentials`: a user's lines for the configuration, made of a password that is not kept."""

import getpass
import json
import sys
from typing import Annotated

import typer

from fleetgauge.errors import ConfigError
from wire.sasl.credentials import DEFAULT_ITERATIONS, MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism


def credentials(
    user: Annotated[str, typer.Argument(help="The user's name, as clients give it.")],
    mechanism: Annotated[
        list[ScramMechanism] | None,
        typer.Option("--mechanism", case_sensitive=False, help="For these alone; repeatable. By default for each."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="Of the hash: more cost a guesser more.")
    ] = DEFAULT_ITERATIONS,
) -> None:
    """Make the lines of one SASL user for the configuration file, [sasl.users.NAME].

    The password is asked for without echo, or read from standard input where that is no terminal. It is not kept: the
    lines hold salted hashes, with which PLAIN is checked as well.
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
