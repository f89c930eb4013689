#!/bin/sh
# Java 17 to 25 is there, or one sentence says how to get it. Spark needs it; the sink does not.
wanted="PySpark needs Java 17, 21 or 25"
version=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
if [ -n "$version" ] && [ "$version" -ge 17 ] && [ "$version" -lt 26 ]; then exit 0; fi
if [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "$wanted, and ${version:-none} is here: installing openjdk-17-jre-headless."
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless >/dev/null; then
        exit 0
    fi
fi
echo "$wanted, but 'java -version' says ${version:-that there is none}. Install it (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME to it, then run make again." >&2
exit 1
