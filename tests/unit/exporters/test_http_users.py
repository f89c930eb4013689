"""The users' file of the HTTP ports: what in it would let in more than its author means."""

from pathlib import Path

import pytest

from fleetgauge.http.users import UsersFileError, read_users, token_hash


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (f'[""]\nrole = "operate"\ntoken-sha-256 = "{token_hash("0123456789abcdef")}"\n', "empty name"),
        ('[ops]\nrole = "operate"\ncertificate = ""\n', "certificate of user 'ops' is empty"),
    ],
)
def test_a_user_of_whom_nothing_is_known_is_refused(tmp_path: Path, table: str, problem: str) -> None:
    """A certificate without a subject, and a request without a login, have an empty text."""
    file = tmp_path / "users.toml"
    file.write_text(table)
    with pytest.raises(UsersFileError, match=problem):
        read_users(file)
