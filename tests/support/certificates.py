"""Certificates of a test's own authority, made by openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.waiting import PATIENCE_S


def openssl(*arguments: str, directory: Path, text: str = "") -> str:
    """Runs one openssl command; what it prints."""
    done = subprocess.run(
        ["openssl", *arguments],
        cwd=directory,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"openssl {arguments}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Certificate:
    """One certificate: its own PEM file, its private key, and both with the authority's in one file."""

    certificate: Path
    key: Path
    keystore: Path


class Authority:
    """A certificate authority in a directory of its own.

    Args:
        directory: for its files.
        name: its common name.
        is_strict: its certificate says what its key is for, as RFC 5280 has it. Those that openssl and keytool
            make by default do not.
    """

    def __init__(self, directory: Path, name: str = "Test CA", *, is_strict: bool = True) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.certificate = directory / "ca.pem"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"),
            *("-keyout", "ca.key", "-out", "ca.pem", "-subj", f"/CN={name}"),
            *(("-addext", "keyUsage=critical,keyCertSign,cRLSign") if is_strict else ()),
            directory=directory,
        )

    def issue(
        self, name: str, subject: str, *, days: int = 30, names: str = "DNS:localhost,IP:127.0.0.1"
    ) -> Certificate:
        """A certificate of that subject, written /CN=a/O=b, good for localhost or other `names`."""
        key, request, certificate = f"{name}.key", f"{name}.csr", f"{name}.pem"
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-utf8", "-multivalue-rdn"),
            *("-keyout", key, "-out", request, "-subj", subject),
            directory=self.directory,
        )
        (self.directory / f"{name}.ext").write_text(
            f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
        )
        openssl(
            *("x509", "-req", "-in", request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", str(days), "-out", certificate, "-extfile", f"{name}.ext"),
            directory=self.directory,
        )
        keystore = self.directory / f"{name}.keystore.pem"
        parts = [self.directory / key, self.directory / certificate, self.certificate]
        keystore.write_text("".join(part.read_text() for part in parts))
        return Certificate(self.directory / certificate, self.directory / key, keystore)
