# Two images:
#   docker build --target fleetgauge       -t fleetgauge .         serve, gateway, export, console and every other command
#   docker build --target fleetgauge-fleet -t fleetgauge-fleet .   the same with PySpark and Java, for fleet on Spark
# docs/start/install.md has how to run them: uid 10001, root file system read-only, data in /var/lib/fleetgauge, configuration
# in /etc/fleetgauge.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
# Another base may need its own package with Python's headers.
ARG BUILD_PACKAGES="gcc libc6-dev"
RUN apt-get update && apt-get install -y --no-install-recommends ${BUILD_PACKAGES}
WORKDIR /src
RUN python3 -m venv --without-pip /opt/fleetgauge && python3 -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir uv==0.13.8
COPY locks /src/locks
# Before the source is copied: a change of the source alone keeps this layer.
RUN /opt/build/bin/uv pip install --python /opt/fleetgauge --no-cache --require-hashes -r locks/image.lock
COPY . /src
ARG SOURCE_DATE_EPOCH=1767225600
RUN FLEETGAUGE_COMPILE=1 /opt/build/bin/uv build --no-cache --wheel --python /opt/fleetgauge/bin/python -o /dist \
    && /opt/build/bin/uv pip install --python /opt/fleetgauge --no-cache --no-deps /dist/*.whl \
    && /opt/fleetgauge/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/fleetgauge/lib

FROM build AS build-fleet
RUN /opt/build/bin/uv pip install --python /opt/fleetgauge --no-cache --require-hashes -r locks/image-fleet.lock \
    && /opt/fleetgauge/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/fleetgauge/lib

FROM ${BASE} AS runtime
# tini forwards signals and reaps what a killed child leaves behind.
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/* \
    && groupadd --gid 10001 fleetgauge \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/fleetgauge --shell /usr/sbin/nologin fleetgauge \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/fleetgauge
COPY examples/image.toml /etc/fleetgauge/fleetgauge.toml
ENV PATH=/opt/fleetgauge/bin:$PATH FLEETGAUGE_CONFIG=/etc/fleetgauge/fleetgauge.toml PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/fleetgauge
VOLUME /var/lib/fleetgauge
USER 10001:10001
# 9092: serve, gateway; 9464: page of client series; 9465: health, metrics, console.
EXPOSE 9092 9464 9465
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD \
    ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9465/healthz', timeout=4)"]
ENTRYPOINT ["/usr/bin/tini", "--", "fleetgauge"]
CMD ["serve"]

FROM runtime AS fleetgauge-fleet
USER root
RUN apt-get update && mkdir -p /usr/share/man/man1 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/*
COPY --from=build-fleet /opt/fleetgauge /opt/fleetgauge
# Spark writes work files to /tmp: mount a tmpfs or a volume there.
ENV SPARK_LOCAL_DIRS=/tmp
USER 10001:10001
HEALTHCHECK NONE
CMD ["fleet", "--help"]

FROM runtime AS fleetgauge
COPY --from=build /opt/fleetgauge /opt/fleetgauge
