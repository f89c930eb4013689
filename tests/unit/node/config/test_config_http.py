"""`http.*`: which addresses are served without a login, and what is said of the others."""

from pathlib import Path

import pytest

from fleetgauge.node.config import ConfigError
from fleetgauge.node.config.load import load_config
from fleetgauge.wire.tls.server import ClientAuth

PAGE = ("exporters.page.type=prometheus",)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("http.listeners=http://127.0.0.1:9465,http://localhost:9466,http://[::1]:9467",),
        ("http.listeners=http://0.0.0.0:9465", "http.users.file=/etc/users.toml"),
        ("http.listeners=http://:9465", "http.anonymous.access=everywhere"),
        (
            *("http.listeners=https://0.0.0.0:9465", "http.ssl.keystore.location=s.pem"),
            *("http.ssl.client.auth=required", "http.ssl.truststore.location=ca.pem"),
        ),
        (*PAGE, "exporters.page.listen=0.0.0.0:9464", "http.users.file=/etc/users.toml"),
        (*PAGE, "exporters.page.listen=0.0.0.0:9464", "exporters.page.http.anonymous.access=everywhere"),
        (*PAGE, "exporters.page.listen=https://127.0.0.1:9464", "http.ssl.keystore.location=s.pem"),
    ],
)
def test_these_addresses_may_be_served(overrides: tuple[str, ...]) -> None:
    load_config(overrides=overrides)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (("http.listeners=http://0.0.0.0:9465",), r"http\.listeners.* no login: set http\.users\.file .*everywhere"),
        (("http.listeners=http://node1.example.com:9465",), "no login"),
        (("http.listeners=https://127.0.0.1:9465",), r"http\.ssl\.keystore\.location names no certificate"),
        (
            (
                *("http.listeners=http://0.0.0.0:9465", "http.ssl.keystore.location=s.pem"),
                *("http.ssl.client.auth=required", "http.ssl.truststore.location=ca.pem"),
            ),
            "no login",
        ),
        (("http.listeners=ftp://127.0.0.1:9465",), "is not http://host:port or https://host:port"),
        (("http.listeners=http://127.0.0.1:1,https://127.0.0.1:1",), "an address occurs twice"),
        ((*PAGE, "exporters.page.listen=0.0.0.0:9464"), r"exporters\.page.*no login: set http\.users\.file"),
        ((*PAGE, "exporters.page.listen=https://127.0.0.1:9464"), r"exporters\.page.*names no certificate"),
        (("http.anonymous.access=yes",), "everywhere"),
        (("http.ssl.enabled.protocols=TLSv1.1",), "older versions are broken"),
    ],
)
def test_these_are_refused_in_a_sentence_that_says_what_to_set(overrides: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_config(overrides=overrides)


def test_the_page_has_the_nodes_keys_but_for_its_own(tmp_path: Path) -> None:
    own = "exporters.page.http.ssl.client.auth=required"
    config = load_config(
        overrides=(
            *(*PAGE, own, "http.users.file=u.toml", "http.ssl.keystore.location=s.pem"),
            *("http.ssl.truststore.location=ca.pem", "http.ssl.enabled.protocols=TLSv1.3"),
        )
    )
    from fleetgauge.exporters.prometheus.settings import prometheus_settings

    access = prometheus_settings("page", config.exporters["page"]).access
    assert access.users_file == Path("u.toml")
    assert access.tls is not None
    assert (access.tls.client_auth, access.tls.versions) == (ClientAuth.REQUIRED, ("TLSv1.3",))
    assert config.http_access().tls is not None
    assert config.http_access().tls.client_auth is ClientAuth.NONE  # type: ignore[union-attr]
