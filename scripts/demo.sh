#!/usr/bin/env bash
# Proves a real circom circuit, through plugin processes, and verifies the proof: make demo
set -euo pipefail
cd "$(dirname "$0")/.."
weir=bin/weir
circuitgen=bin/circuitgen
fixture=testdata/circom/dom_1022
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

run() {
    printf '\n$ bin/weir %s\n' "$*"
    "$weir" "$@"
}

run version
run inspect $fixture/circuit.zkey
run plugin list

# A key of snarkjs' ceremony and a witness of circom: two plugin processes, one that synthesises and one that proves.
run prove --key $fixture/circuit.zkey --circuit $fixture/circuit.r1cs --witness $fixture/witness.wtns \
    --proof "$work/proof.json" --public "$work/public.json"
run verify --vkey $fixture/vkey.json --public "$work/public.json" --proof "$work/proof.json"

# A witness program and its inputs; a development key; two partitions in one job, as bellman's bytes.
small=testdata/circom/multiplier
run setup --circuit $small/circuit.r1cs --key "$work/key.wkey" --vkey "$work/vkey.json"
run prove --key "$work/key.wkey" --wasm $small/circuit.wasm --input $small/input.json --input $small/input.json \
    --format bellman --proof "$work/proofs.bin" --public "$work/publics.json"
run verify --vkey "$work/vkey.json" --public "$work/publics.json" --proof "$work/proofs.bin"

# Another public input: the same proof must not hold.
echo '["1"]' > "$work/wrong.json"
code=0
run verify --vkey $fixture/vkey.json --public "$work/wrong.json" --proof "$work/proof.json" || code=$?
[ "$code" = 1 ] || { echo "expected exit code 1, found $code" >&2; exit 1; }

# Something larger: SHA-256, two messages at once, within a budget of memory.
printf '\n$ bin/circuitgen -kind sha256 -log2 16\n'
for seed in 1 2; do
    "$circuitgen" -kind sha256 -log2 16 -seed $seed -name sha$seed -out "$work"
done
run setup --circuit "$work/sha1.r1cs" --key "$work/sha.wkey"
run prove --key "$work/sha.wkey" --witness "$work/sha1.wtns" --witness "$work/sha2.wtns" --memory-budget 512MiB \
    --proof "$work/sha.json" --public "$work/sha.public.json"
run verify --vkey "$work/sha.wkey" --public "$work/sha.public.json" --proof "$work/sha.json"

printf '\nThree circuits proved and verified.\n'
