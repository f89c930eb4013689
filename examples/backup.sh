#!/bin/sh
# Copies the data directory of a running (or stopped) Fleetgauge: sh backup.sh <log.dirs> <new directory>
#
# Needs sqlite3. Databases are copied by SQLite's own backup, a plain copy of one that is written may be broken; the exporters'
# positions first, so that with the copy a push may be delivered again, and none is missed.
set -eu
umask 077
data=$(cd "$1" && pwd)
mkdir "$2"
target=$(cd "$2" && pwd)
cd "$data"

database() {
    mkdir -p "$target/$(dirname "$1")"
    sqlite3 -cmd ".timeout 60000" "file:$data/$1?mode=ro" ".backup '$target/$1'" || [ ! -e "$1" ]  # retention has removed it
}

find . -name cursors.db | while read -r file; do database "$file"; done
find . -name '*.db' ! -name cursors.db | while read -r file; do database "$file"; done
find . -type f ! -name '*.db' ! -name '*.db-*' ! -name '*.sqlite' ! -name '*.sqlite-*' ! -name '*.lock' ! -name .lock |
    while read -r file; do
        mkdir -p "$target/$(dirname "$file")"
        cp -p "$file" "$target/$file" || [ ! -e "$file" ]
    done
find . -name '*.sqlite' | sort | while read -r file; do database "$file"; done
