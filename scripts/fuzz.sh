#!/usr/bin/env bash
# Runs every fuzz target for a while: scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."
time="${1:-10s}"
n=0
while IFS=: read -r file _ line; do
    name="${line#func }"
    name="${name%%(*}"
    echo "fuzz $(dirname "$file") $name for $time"
    go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$(dirname "$file")"
    n=$((n + 1))
done < <(git grep -n '^func Fuzz[A-Za-z0-9_]*(' -- '*_test.go' | sort)
[ "$n" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$n fuzz targets passed"
