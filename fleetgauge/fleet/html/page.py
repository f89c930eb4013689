"""The report laid out as one HTML file that needs no network: style and script are inside, allowed by their hashes.

What clients chose (ids, principals, software) is text for Jinja's autoescape everywhere, never part of a script, a
style, an address or a tag. No markup is made in Python.
"""

import base64
import hashlib
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fleetgauge.fleet.explain.over_time import amount
from fleetgauge.fleet.html import chart, heat, problems, sections, words
from fleetgauge.fleet.html.report import Report, SubjectReport


def page(report: Report) -> str:
    """The report of a fleet."""
    return _rendered("report.html", report=report)


def subject_page(report: SubjectReport) -> str:
    """The report's page of one name."""
    return _rendered("subject.html", report=report)


def _rendered(template: str, **given: Any) -> str:
    environment = Environment(
        loader=PackageLoader("fleetgauge.fleet.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=words.shown,
        name=words.name,
        moment=words.moment,
        count=words.count,
        records=sections.records,
        amount=amount,
        number=lambda value: f"{value:,}",
    )
    environment.globals.update(
        shapes=words.SHAPES,
        chart_width=chart.WIDTH,
        chart_height=chart.HEIGHT,
        chart_box=chart.BOX,
        shade_labels=heat.shade_labels(),
        most_clients=heat.MOST_CLIENTS,
        most_plotted=problems.MOST_PLOTTED,
    )
    style, script = (_source(environment, name) for name in ("page.css", "page.js"))
    return environment.get_template(template).render(
        style=Markup(style),  # noqa: S704  # a file of this package
        script=Markup(script),  # noqa: S704  # as above
        policy=_POLICY.format(style=_digest(style), script=_digest(script)),
        **given,
    )


_POLICY: Final = (
    "default-src 'none'; style-src {style}; script-src {script}; img-src data:; base-uri 'none'; form-action 'none'"
)
"""The Content-Security-Policy of the page: nothing is fetched, and nothing runs but the script inside."""


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].strip()


def _digest(text: str) -> str:
    """Hash of an inline script or style, in the form of a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
