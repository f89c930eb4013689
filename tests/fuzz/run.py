"""Fuzzes one target with atheris (libFuzzer, coverage-guided): `python tests/fuzz/run.py TARGET DIRECTORY [flags]`.

The flags are libFuzzer's. The corpus grows in the directory, filled from the kept one first; a finding is written to
`<directory>/findings` and ends the run with an exit code that is not 0. A file in place of the directory is run alone.
`test_fuzz.py` runs this in `make soak`.
"""

import logging
import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # it has no stubs

RSS_LIMIT_MB = 2_048
TIMEOUT_S = 20
"""For one input, on a busy machine; libFuzzer reports it as a finding."""


def main() -> None:
    """See the module's head."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    name, work, *flags = sys.argv[1:]
    with atheris.instrument_imports(include=["fleetgauge"]):
        from fuzz.targets import load

        target = load(name)
    from fuzz.corpus import read_corpus

    if Path(work).is_file():
        target.run(Path(work).read_bytes())
        return
    corpus, findings = Path(work) / "corpus", Path(work) / "findings"
    for directory in (corpus, findings):
        directory.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*target.seeds(), *read_corpus(name)]):
        (corpus / f"kept-{number:05}").write_bytes(data[: target.max_bytes])
    logging.disable()
    arguments = [
        sys.argv[0], str(corpus), f"-artifact_prefix={findings}/", f"-max_len={target.max_bytes}",
        f"-rss_limit_mb={RSS_LIMIT_MB}", f"-timeout={TIMEOUT_S}", "-print_final_stats=1", *flags,
    ]  # fmt: skip
    atheris.Setup(arguments, target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
