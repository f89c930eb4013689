"""The wheel as users install it, with compiled modules: rooms pass their tests on it, and a node does the same."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from support.built import BUILD_WITHIN_S, built
from support.clients.raw_client import ZSTD, RawClient
from support.programs.node import Node
from zstandard import ZstdCompressor

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
ROOT = Path(__file__).parents[3]
CONFIG = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 100\n'
IN_ANY_ORDER = "tests/property/fleet/test_any_order_of_pushes.py::test_any_order_split_and_repetition_of_pushes"
ON_THE_WHEEL = [
    *(f"tests/{kind}/{room}" for kind in ("unit", "property") for room in ("quotas", "telemetry", "wire", "push_log")),
    *("tests/golden", "tests/property/test_ways_of_a_push.py"),
    *(f"{IN_ANY_ORDER}_gives_the_same_tables[{seed}]" for seed in range(3)),
    *(f"tests/property/fleet/test_{each}.py" for each in ("columns_of_mutations", "measures", "readers_agree")),
    *("tests/unit/fleet/decode/test_decode_payloads.py", "tests/unit/fleet/decode/test_decode_distributions.py"),
]
"""The tests that run on the wheel as well."""


@pytest.fixture(scope="module")
def installed() -> Path:
    """The unpacked wheel. It is built in this environment; the test below builds as pip and uv do."""

    def build(target: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target / "dist")],
            cwd=ROOT,
            env={**os.environ, "FLEETGAUGE_COMPILE": "1"},
            check=True,
            timeout=BUILD_WITHIN_S,
        )
        unpacked(target / "dist", target / "installed")

    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    sources = [ROOT / room for room in wheel["packages"]]
    made_by = (ROOT / "pyproject.toml", ROOT / "hatch_build.py", sys.version, importlib.metadata.version("mypy"))
    return built("compiled-wheel", build, *made_by, *sources) / "installed"


def unpacked(dist: Path, directory: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    assert not wheel.name.endswith("none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def python(
    installed: Path, *arguments: str, timeout: float = BUILD_WITHIN_S, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Python with the modules of the wheel before those of the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1", **variables}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def compiled_names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)).partition(".")[0] for path in directory.rglob("*.so")}


def test_every_module_that_is_named_is_compiled_and_loaded(installed: Path) -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    modules = [path.removesuffix(".py").replace("/", ".") for path in named["hooks"]["custom"]["modules"]]
    script = "import importlib, sys; print([importlib.import_module(name).__file__ for name in sys.argv[1:]])"
    ran = python(installed, "-c", script, *modules)
    assert ran.stdout.count(str(installed)) == ran.stdout.count(".so'") == len(modules), ran.stderr


def test_the_version_says_which_form_is_installed(installed: Path) -> None:
    assert python(installed, "-m", "fleetgauge", "--version").stdout.strip().endswith("(compiled)")
    assert python(ROOT, "-m", "fleetgauge", "--version").stdout.strip().endswith("(pure Python)")


def test_the_rooms_pass_their_tests_on_the_wheel(installed: Path) -> None:
    """All but those that put something in the place of a class's parts."""
    ran = python(
        installed,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not replaces and not soak"),
        *("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *ON_THE_WHEEL),
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert " passed" in ran.stdout


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_ten_million_changed_payloads_are_judged_and_read_as_by_protobuf(installed: Path) -> None:
    ran = python(
        installed,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "7000"),
        *("tests/property/telemetry/test_check_of_mutations.py", "tests/property/fleet/test_columns_of_mutations.py"),
        timeout=7_100,
        FLEETGAUGE_MUTATED_INPUTS="10000000",
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert " passed" in ran.stdout


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_changed_payloads_touch_no_memory_but_their_own(tmp_path: Path) -> None:
    """The modules that read strangers' bytes, built with AddressSanitizer: what it finds ends the process."""
    sanitizer = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = Path(sanitizer.stdout.strip())
    if not library.is_absolute():
        pytest.skip("needs the compiler's AddressSanitizer (Debian: libgcc-12-dev)")
    flags = "-fsanitize=address -fno-omit-frame-pointer -O1"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=ROOT,
        env={**os.environ, "FLEETGAUGE_COMPILE": "1", "CFLAGS": flags, "LDFLAGS": "-fsanitize=address"},
        check=True,
        timeout=2 * BUILD_WITHIN_S,
    )
    checked = unpacked(tmp_path / "dist", tmp_path / "installed")
    assert all(b"__asan_init" in path.read_bytes() for path in checked.rglob("*.so"))
    ran = python(
        checked,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "7000"),
        *("tests/property/telemetry/test_check_of_mutations.py", "tests/property/fleet/test_columns_of_mutations.py"),
        timeout=7_100,
        LD_PRELOAD=str(library),
        ASAN_OPTIONS="detect_leaks=0",  # CPython keeps memory to its end
        PYTHONMALLOC="malloc",  # each object's memory is known to the sanitizer
        FLEETGAUGE_MUTATED_INPUTS="200000",
    )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-8000:]
    assert " passed" in ran.stdout


@pytest.mark.soak
def test_an_isolated_build_compiles_the_same_modules(installed: Path, tmp_path: Path) -> None:
    """As `pip install .` and `uv pip install .` build: only with what the build itself requires."""
    environment = {**os.environ, "FLEETGAUGE_COMPILE": "1"}
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(pip, env=environment, check=True, timeout=BUILD_WITHIN_S)
    assert compiled_names(unpacked(tmp_path / "dist", tmp_path / "isolated")) == compiled_names(installed)


@pytest.mark.parametrize(("variable", "builds"), [("", True), ("0", True), ("1", False)])
def test_without_a_compiler_the_wheel_is_pure_python_unless_it_has_to_be_compiled(
    variable: str, builds: bool, tmp_path: Path
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "FLEETGAUGE_COMPILE": variable, "CC": "/nowhere/cc"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    assert (ran.returncode == 0) is builds, ran.stderr
    assert [path.name.endswith("none-any.whl") for path in tmp_path.glob("*.whl")] == [True] * builds
    assert ("is built as pure Python, since" in ran.stdout + ran.stderr) is (variable == "")


def test_a_node_of_compiled_modules_answers_refuses_and_logs_as_ever(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # or the working directory would come first
    payload = (ROOT / "tests" / "fuzz" / "recorded").rglob("*.otlp")
    metrics = next((path.read_bytes() for path in payload), b"")
    with Node(tmp_path, config=CONFIG) as node:
        with RawClient(node.port) as client:
            subscription = client.get()
            assert client.push(subscription, ZstdCompressor().compress(metrics), compression_type=ZSTD).error_code == 0
            assert client.push(subscription, b"", subscription_id=subscription.subscription_id + 1).error_code == 89
            assert client.push(subscription, b"no zstd", compression_type=ZSTD, terminating=True).error_code == 87
            assert client.push(subscription, b"", subscription_id=1, terminating=True).error_code == 117
        with RawClient(node.port) as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionError):
                client.receive_frame()
        status = node.wait_for(lambda s: s["push_log"].get("logged") == 1, what="the accepted push in the log")
        assert status["connections"][0]["closed"]["frame_too_large"] == 1
        assert node.stop() == 0
