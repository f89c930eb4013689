#!/bin/sh
# Every asset of a release from the commit that is checked out, in dist/, with SHA256SUMS. Two runs give the same bytes.
# Compiled wheels of other platforms and Python versions come from cibuildwheel: put them into dist/ and run it again with
# `sh .ci/dist.sh sums`.
set -eu
umask 022 # jars keep the modes of their files
cd "$(dirname "$0")/.."
sums() { (cd dist && rm -f SHA256SUMS && LC_ALL=C sha256sum -- * >../SHA256SUMS.part && mv ../SHA256SUMS.part SHA256SUMS); }
if [ "${1:-}" = sums ]; then sums; exit; fi

uv=${UV:-$PWD/.venv/bin/uv} python=${PYTHON:-$PWD/.venv/bin/python} tools="$PWD/build/tools" source="$PWD/build/source"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf dist "$source"
mkdir -p dist "$source"
test -x "$tools/bin/python" || "$uv" venv --quiet --python "$python" "$tools"
"$uv" pip sync --quiet --python "$tools/bin/python" --require-hashes locks/release.lock
git archive HEAD | tar -x -C "$source" # what is committed, and nothing that lies about

# Not isolated: the locked tools build, so that the same commit gives the same bytes later.
out=$PWD/dist
(
    cd "$source"
    "$tools/bin/python" -m build --no-isolation --sdist --outdir "$out" .
    FLEETGAUGE_COMPILE=0 "$tools/bin/python" -m build --no-isolation --wheel --outdir "$out" .
    FLEETGAUGE_COMPILE=1 "$tools/bin/python" -m build --no-isolation --wheel --outdir "$out" .
    for project in bridge bridge/kroxylicious; do
        mvn -q -B -f "$project/pom.xml" -DskipTests package org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom \
            -DoutputFormat=json -DincludeBomSerialNumber=false
    done
)
"$tools/bin/twine" check --strict dist/*.whl dist/*.tar.gz

version=$("$tools/bin/python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
for target in bridge/target bridge/kroxylicious/target; do
    jar=$(basename "$source/$target/fleetgauge-"*"-$version.jar" .jar)
    cp "$source/$target/$jar.jar" dist/
    cp "$source/$target/bom.json" "dist/$jar.cdx.json"
done
for set in base image image-fleet; do
    cp "locks/$set.lock" "dist/fleetgauge-$version-$set.lock"
    "$tools/bin/cyclonedx-py" requirements "locks/$set.lock" --pyproject pyproject.toml --output-reproducible \
        --output-file "dist/fleetgauge-$version-$set.cdx.json"
done
sums
