"""Paths of tables and landing zones: which are on this machine, and the settings with which delta-rs and pyarrow reach
the others.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_S3: Final = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint.region": "aws_region",
}
"""Settings of Hadoop's s3a, with their names in delta-rs."""


_S3_PARAMETERS: Final = ("region", "scheme", "endpoint_override")
"""Parameters of a landing zone's URI, the same as in exporters."""


def qualified(path: str) -> str:
    """A complete URI; a text without file system is a path on this machine.

    >>> qualified("/var/./fleet/"), qualified("file:///var/fleet"), qualified("s3a://lake/fleet/")
    ('file:/var/fleet', 'file:/var/fleet', 's3a://lake/fleet')
    """
    directory = local_path(path)
    return path.rstrip("/") if directory is None else f"file:{directory}"


def local_path(path: str) -> Path | None:
    """The absolute path of a file on this machine; None for a URI of another file system.

    >>> local_path("file:///var/fleet"), local_path("s3a://lake/fleet")
    (PosixPath('/var/fleet'), None)
    """
    plain = plain_path(path)
    return None if _SCHEME.match(plain) else Path(os.path.abspath(plain))  # noqa: PTH100  # without following links


def plain_path(uri: str) -> str:
    """Path of a file on this machine without its scheme (libraries write one or three slashes); otherwise the URI.

    >>> plain_path("file:///tmp/a"), plain_path("file:/tmp/a"), plain_path("s3a://b/a")
    ('/tmp/a', '/tmp/a', 's3a://b/a')
    """
    return re.sub(r"^file:/+", "/", uri)


def storage_options(conf: Mapping[str, str]) -> dict[str, str]:
    """Options of delta-rs for object stores, beside the environment: the settings of s3a among those of Spark.

    >>> storage_options({"spark.hadoop.fs.s3a.access.key": "me", "spark.hadoop.fs.s3a.path.style.access": "true"})
    {'aws_access_key_id': 'me', 'aws_virtual_hosted_style_request': 'false'}
    """
    given = {key.removeprefix("spark.hadoop.fs.s3a."): value for key, value in conf.items()}
    options = {name: given[key] for key, name in _S3.items() if key in given}
    if "path.style.access" in given:
        options["aws_virtual_hosted_style_request"] = "false" if given["path.style.access"] == "true" else "true"
    if options.get("aws_endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    return options


def is_s3(uri: str) -> bool:
    """True for an S3 URI in the form of exporters (s3) or Spark (s3a)."""
    return uri.startswith(("s3://", "s3a://"))


def check_s3(uri: str) -> None:
    """Raises ValueError for a landing zone's URI in S3 that is not supported; the reason does not quote the URI."""
    bucket = uri.partition("://")[2].partition("/")[0].partition("?")[0]
    if "@" in bucket or ":" in bucket:  # tables and messages have the URI
        raise ValueError(
            "credentials are not taken from the URI: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or --conf "
            "spark.hadoop.fs.s3a.access.key=... and secret.key=..."
        )
    if not bucket:
        raise ValueError("the bucket is missing: use s3://bucket/path")
    if unknown := dict(parse_qsl(urlsplit(uri).query)).keys() - set(_S3_PARAMETERS):
        raise ValueError(
            f"the parameters of such a URI are {', '.join(_S3_PARAMETERS)}, not {', '.join(sorted(unknown))}"
        )


def without_parameters(source: str) -> str:
    """A landing zone's path or URI without the parameters that one in S3 may have.

    >>> without_parameters("s3://lake/pushes/?region=eu-west-1"), without_parameters("/var/why?")
    ('s3://lake/pushes/', '/var/why?')
    """
    return source.partition("?")[0] if is_s3(source) else source


def s3_arguments(uri: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of `pyarrow.fs.S3FileSystem` beside the environment: parameters of a URI, then `storage_options`.

    >>> s3_arguments("s3://lake/pushes?region=eu-west-1", {"aws_endpoint": "127.0.0.1:9000"})
    {'endpoint_override': '127.0.0.1:9000', 'region': 'eu-west-1'}
    """
    endpoint = options.get("aws_endpoint", "")
    place = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    given = {
        "access_key": options.get("aws_access_key_id"),
        "secret_key": options.get("aws_secret_access_key"),
        "session_token": options.get("aws_session_token"),
        "endpoint_override": place.netloc,
        "scheme": place.scheme,
        "region": options.get("aws_region"),
        "force_virtual_addressing": options.get("aws_virtual_hosted_style_request") == "true",
    }
    return {name: value for name, value in given.items() if value} | dict(parse_qsl(urlsplit(uri).query))
