#!/bin/sh
# Copies the data directory of a running (or stopped) Fleetgauge: sh backup.sh <log.dirs> <new directory>
#
# Needs sqlite3. Databases are copied with SQLite's own backup, since a plain copy during a write may be damaged. The exporters'
# positions are copied first: after a restore, pushes may be delivered again, but none is lost.
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
