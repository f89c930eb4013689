"""The images, built from the Dockerfile on a base of Debian's packages, and run as a cluster would run them.

Its public base cannot be pulled everywhere, so `BASE` is made of the packages of this machine's Debian. Needs root,
and from Debian: buildah, mmdebstrap.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.http import get_url
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

ROOT = Path(__file__).parents[3]
TOOLS = ("buildah", "mmdebstrap", "unshare")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.soak,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(bool(MISSING) or os.geteuid() != 0, reason=f"needs root and {', '.join(TOOLS)}"),
]
USER = 10001
_BASE = """FROM scratch
ADD debian.tar /
COPY ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt
"""


class Builder:
    """buildah with a store of its own, without a daemon and without namespaces."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._store = ["--storage-driver", "vfs", "--root", f"{directory}/store", "--runroot", f"{directory}/run"]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(["buildah", *self._store, *arguments], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def build(self, tag: str, *arguments: str) -> None:
        self("bud", "--isolation", "chroot", "--quiet", "--tag", tag, *arguments)

    def root_of(self, image: str) -> Path:
        return Path(self("mount", self("from", "--pull-never", image)))

    def end(self) -> None:
        self("rm", "--all")
        self("rmi", "--all", "--force")


def sources() -> list[str]:
    """Files of this machine's apt that name Debian's packages."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian*"))]
    return [str(each) for each in places if each.exists()]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """With the base."""
    directory = tmp_path_factory.mktemp("image")
    release = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text().splitlines())
    context = directory / "base"
    context.mkdir()
    subprocess.run(
        [
            *("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root"),
            *("--include=python3,python3-venv,ca-certificates", release["VERSION_CODENAME"]),
            *(str(context / "debian.tar"), *sources()),
        ],
        check=True,
    )
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", context)
    (directory / "Containerfile").write_text(_BASE)
    builder = Builder(directory)
    builder.build("localhost/base", "--file", str(directory / "Containerfile"), str(context))
    yield builder
    builder.end()


def built(builder: Builder, target: str) -> Path:
    """The root file system of an image."""
    arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", "BUILD_PACKAGES=gcc libc6-dev python3-dev")
    builder.build(f"localhost/{target}", "--target", target, *arguments, str(ROOT))
    print(builder("images", "--format", "{{.Name}}: {{.Size}}", f"localhost/{target}"), file=sys.stderr)
    root = builder.root_of(f"localhost/{target}")
    (root / "etc" / "hosts").touch()  # a runtime mounts its own there
    return root


@pytest.fixture(scope="module")
def root(builder: Builder) -> Path:
    """Of the image without Java."""
    return built(builder, "fleetgauge")


_ISOLATED = """
root=$1 data=$2; shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$data" "$root/var/lib/fleetgauge"
mount --bind /etc/hosts "$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
exec chroot "$root" /usr/bin/setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all \
  --inh-caps=-all /usr/bin/env -i -C /var/lib/fleetgauge PATH=/opt/fleetgauge/bin:/usr/bin:/bin \
  FLEETGAUGE_CONFIG=/etc/fleetgauge/fleetgauge.toml SPARK_LOCAL_DIRS=/tmp "$@"
"""
"""Mounts, user and variables as a runtime makes them: read-only root, one volume, no capability, no new privileges."""


def isolated(root: Path, volume: Path, *command: str) -> list[str]:
    """The command line that runs `command` in the image, with namespaces of its own for mounts and processes."""
    unshared = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", _ISOLATED, "sh"]
    return [*unshared, str(root), str(volume), *command]


class Container:
    """The image's entry point with `command`, on a volume in `directory` and the network of this machine."""

    def __init__(self, directory: Path, root: Path, *command: str) -> None:
        self._root, self.data, self.log = root, directory / "volume", directory / "container.log"
        self.data.mkdir()
        os.chown(self.data, USER, USER)
        entry = ("/usr/bin/tini", "--", "fleetgauge")
        with self.log.open("wb") as log:
            run = isolated(root, self.data, *entry, *command)
            self.process = subprocess.Popen(run, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        follow(self.log)

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """A command in the image, on the same volume."""
        done = isolated(self._root, self.data, *command)
        return subprocess.run(done, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    @property
    def first_pid(self) -> int:
        """The container's process 1, as this machine numbers it."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def wait_for(self, path: str, port: int) -> None:
        """Waits until the HTTP port answers 200 at `path`."""

        def status() -> int:
            assert self.process.poll() is None, self.log.read_text()
            return get_url(f"http://127.0.0.1:{port}", path).status

        wait_for(status, f"{path} to answer 200", until=lambda status: status == 200, ignoring=(OSError,))

    def stop(self) -> int:
        """SIGTERM to process 1, as a runtime stops a container, and its exit code."""
        os.kill(self.first_pid, signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """SIGKILL to all of it, if it still runs."""
        self.process.kill()
        self.process.wait()
        unfollow(self.log)


def test_a_node_in_the_image_serves_with_nothing_but_its_volume(tmp_path: Path, root: Path) -> None:
    port, http = free_ports(2)
    # The HTTP port on all addresses, as the image's own configuration has it.
    listen = (f"listeners=PLAINTEXT://127.0.0.1:{port}", f"http.listeners=http://0.0.0.0:{http}")
    node = Container(tmp_path, root, "serve", *(word for each in listen for word in ("--override", each)))
    try:
        node.wait_for("/readyz", http)
        assert get_url(f"http://127.0.0.1:{http}", "/healthz").status == 200
        with RawClient(port) as client:
            assert client.get().error_code == 0
        assert node.run("fleetgauge", "--version").stdout.strip().endswith("(compiled)")
        assert node.run("python3", "-c", "import os; print(os.getuid())").stdout.strip() == str(USER)
        refused = node.run("python3", "-c", "open('/etc/written', 'w')")
        assert "Read-only file system" in refused.stderr
        checked = node.run("fleetgauge", "doctor", "--format", "json", "--override", listen[0], "--override", listen[1])
        found = [json.loads(line) for line in checked.stdout.splitlines()]
        assert checked.returncode == 0, checked.stdout
        assert {each["check"] for each in found if each["check"].startswith("extra ")} >= {
            "extra kafka",
            "extra console",
        }
        memory = node.run("fleetgauge", "status", "--log-dirs", "/var/lib/fleetgauge", "--format", "json")
        assert memory.returncode == 0, memory.stderr
        print(f"{resident_mib(node.first_pid):.0f} MiB idle", file=sys.stderr)
        code = node.stop()
    finally:
        node.kill()
    assert code == 0, node.log.read_text()
    assert "node.stopped" in node.log.read_text()
    assert list((node.data / "push-log").iterdir())


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("gateway", ["gateway.broker=127.0.0.1:1", "listeners=PLAINTEXT://127.0.0.1:0"]),
        ("console", ["push.log.type=kafka", "push.log.kafka.bootstrap.servers=127.0.0.1:1"]),
        (
            "export",
            [
                *("push.log.type=kafka", "push.log.kafka.bootstrap.servers=127.0.0.1:1"),
                *("exporters.zone.type=landing", "exporters.zone.path=/var/lib/fleetgauge/zone"),
            ],
        ),
    ],
)
def test_other_commands_of_the_image_start_without_their_brokers(
    command: str, keys: list[str], tmp_path: Path, root: Path
) -> None:
    (http,) = free_ports(1)
    words = (word for key in (*keys, f"http.listeners=http://0.0.0.0:{http}") for word in ("--override", key))
    container = Container(tmp_path, root, command, *words)
    try:
        container.wait_for("/healthz", http)
        print(f"{command}: {resident_mib(container.first_pid):.0f} MiB idle", file=sys.stderr)
        code = container.stop()
    finally:
        container.kill()
    assert code == 0, container.log.read_text()


def test_the_image_with_java_judges_a_zone_on_spark(tmp_path: Path, builder: Builder) -> None:
    root, volume = built(builder, "fleetgauge-fleet"), tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, USER, USER)

    def fleet(*words: str) -> str:
        command = isolated(root, volume, "/usr/bin/tini", "--", "fleetgauge", "fleet", *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    fleet("simulate", "simulated", "--clients", "30", "--hours", "2", "--seed", "1")
    zone = ("--source", "simulated/landing")
    ran = json.loads(fleet("run", *zone, "--tables", "tables", "--master", "local[2]", "--format", "json"))
    assert ran["pushes"] > 1_000
    assert not ran["rejects"]
    here = json.loads(fleet("run", *zone, "--tables", "tables-of-no-java", "--format", "json"))
    assert (here["pushes"], here["points"]) == (ran["pushes"], ran["points"])
    listed = [fleet("verdicts", "--tables", tables, "--format", "csv") for tables in ("tables", "tables-of-no-java")]
    assert listed[0] == listed[1]


def resident_mib(pid: int) -> float:
    """Proportional set size of a process and all below it [MiB]."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return own / 1024 + sum(resident_mib(int(each)) for each in below)
