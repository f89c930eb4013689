"""The origin of a change: scheme, name and port are those of the page itself."""

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from fleetgauge.console.api.sessions import check_origin


def request(scheme: str, **headers: str) -> Request:
    listed = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "scheme": scheme, "path": "/", "headers": listed, "server": ("127.0.0.1", 9465)})


HOST = "console.example:9465"


@pytest.mark.parametrize(
    ("scheme", "headers"),
    [
        ("http", {"origin": f"https://{HOST}"}),
        ("http", {"origin": f"https://{HOST}", "sec_fetch_site": "none"}),
        ("https", {"origin": f"http://{HOST}"}),
        ("https", {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin"}),
        ("https", {"origin": f"ftp://{HOST}"}),
        ("https", {"origin": HOST}),
        ("https", {"origin": f"x-https://{HOST}"}),
        ("https", {"origin": ""}),
        ("https", {"origin": f"https://{HOST}", "sec_fetch_site": ""}),
    ],
)
def test_a_change_of_another_origin_is_refused(scheme: str, headers: dict[str, str]) -> None:
    with pytest.raises(HTTPException) as refused:
        check_origin(request(scheme, host=HOST, **headers))
    assert refused.value.status_code == 403


@pytest.mark.parametrize(
    ("scheme", "headers"),
    [
        ("http", {}),
        ("http", {"origin": f"http://{HOST}"}),
        ("https", {"origin": f"https://{HOST}", "sec_fetch_site": "same-origin"}),
        ("http", {"origin": f"https://{HOST}", "sec_fetch_site": "same-origin"}),  # behind a proxy with TLS
    ],
)
def test_a_change_of_the_page_itself_is_taken(scheme: str, headers: dict[str, str]) -> None:
    check_origin(request(scheme, host=HOST, **headers))
