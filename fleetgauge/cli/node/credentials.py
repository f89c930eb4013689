"""`fleetgauge credentials`: prints a user's configuration lines, made from a password or token that is not stored."""

import getpass
import json
import sys
from typing import Annotated, Literal

import typer

from fleetgauge.base.errors import ConfigError
from fleetgauge.http.users import (
    MIN_TOKEN_CHARACTERS,
    TOKEN,
    TOKEN_KEY,
    UsersFileError,
    check_name,
    token_hash,
)
from fleetgauge.wire.sasl.credentials import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)

HttpRole = Literal["read", "operate"]
"""Rights of an HTTP user; `operate` includes `read`."""


def credentials(
    user: Annotated[str, typer.Argument(help="The user name, as clients send it.")],
    mechanism: Annotated[
        list[ScramMechanism] | None,
        typer.Option("--mechanism", case_sensitive=False, help="Only this mechanism; may be repeated. By default all."),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="PBKDF2 iterations of the hash; more slow down guessing."
        ),
    ] = DEFAULT_ITERATIONS,
    http: Annotated[
        HttpRole | None, typer.Option("--http", help="Print a user of http.users.file with this role instead.")
    ] = None,
    token: Annotated[
        bool, typer.Option("--token", help="With --http: read a bearer token instead of a password.")
    ] = False,
) -> None:
    """Print the lines of a user for the configuration file, [sasl.users.NAME]; with --http, of an HTTP user.

    The password is prompted for without echo, or read from standard input if that is not a terminal. It is not stored:
    the lines hold salted hashes, which are used for PLAIN as well.

    Examples:
        fleetgauge credentials alice >> users.toml
        fleetgauge credentials grafana --http read --token
    """
    if http is not None:
        if mechanism:
            raise ConfigError("", "--mechanism is for users of listeners; a password of the HTTP port has one form")
        _print_http_user(user, http, is_token=token, iterations=iterations)
        return
    if token:
        raise ConfigError("", "--token makes a user of the HTTP port, and needs --http read or --http operate")
    password = _read_secret("Password")
    typer.echo(f"[sasl.users.{json.dumps(user, ensure_ascii=False)}]")
    for each in mechanism or list(ScramMechanism):
        credential = ScramCredential.make(each, password, iterations=iterations)
        typer.echo(f'{each.value.lower()} = "{credential}"')


def _print_http_user(user: str, role: HttpRole, *, is_token: bool, iterations: int) -> None:
    try:
        check_name(user)
    except UsersFileError as error:
        raise ConfigError("", str(error)) from error
    secret = _read_secret("Token" if is_token else "Password")
    if is_token and not TOKEN.fullmatch(secret):
        raise ConfigError(
            "", "a token consists of letters, digits and -._~+/ (RFC 6750); no client could send this one"
        )
    if is_token and len(secret) < MIN_TOKEN_CHARACTERS:
        raise ConfigError(
            "", f"a token has at least {MIN_TOKEN_CHARACTERS} characters; make one by: openssl rand -hex 32"
        )
    typer.echo(f"[{json.dumps(user, ensure_ascii=False)}]")
    typer.echo(f'role = "{role}"')
    if is_token:
        typer.echo(f'{TOKEN_KEY} = "{token_hash(secret)}"')
        return
    mechanism = ScramMechanism.SCRAM_SHA_512
    typer.echo(f'{mechanism.value.lower()} = "{ScramCredential.make(mechanism, secret, iterations=iterations)}"')


def _read_secret(what: str) -> str:
    try:
        secret = _ask(what)
        secret.encode()
    except UnicodeError as error:
        raise ConfigError("", f"the {what.lower()} is not UTF-8, as which clients send it") from error
    if not secret:
        raise ConfigError("", f"a {what.lower()} needs at least one character")
    return secret


def _ask(what: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    secret = getpass.getpass(f"{what}: ")
    if getpass.getpass("Once more: ") != secret:
        raise ConfigError("", f"the two {what.lower()}s differ")
    return secret
