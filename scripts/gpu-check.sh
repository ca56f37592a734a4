#!/usr/bin/env bash
# Checks the CUDA backend on this machine's GPU and measures it. It lies in a folder, or archive, that make gpu-check-files has made, and needs nothing but that folder:
# no Go, no compiler, no toolkit, only NVIDIA's driver.
#
#   gpu-check.sh [-o FOLDER] [STEP...]
#
# Steps, in this order where none is named:
#   msm       sums in G1 and G2, fields and curves against known logarithms and the processor's arithmetic
#   ntt       transforms against the CPU backend's and by definition
#   poly      witnesses, sparse products and quotients against the SDK's
#   sums      sums through the library's C interface against gnark-crypto's
#   suite     conformance suite, fixtures of circom byte for byte, limits of memory, 50 proofs with flat memory
#   large     proofs of 2^16 and 2^20 rows byte for byte, resident and streamed
#   sanitize  compute-sanitizer memcheck and racecheck on small sizes, where it is installed and works
#   times     tables of times: sums, transforms, sparse products
#   proofs    times of whole proofs
#
# -o FOLDER keeps the output of every step there. WEIR_SHARED may name a folder with more fixtures. GPU_CHECK_MAX_LOG bounds the sizes of times (default 26).
# Exit status 0 only if every step that ran passed.
set -uo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
out=""
if [ "${1:-}" = -o ]; then
	[ $# -ge 2 ] || { echo "gpu-check: error: -o needs a folder" >&2; exit 2; }
	out="$2"
	shift 2
fi
[ -n "$out" ] || out="$(mktemp -d)"
mkdir -p "$out"
export WEIR_ROOT="$here" WEIR_TEST_CUDA_LIBRARY="$here/libweir_cuda.so"
[ -n "${WEIR_SHARED:-}" ] || export WEIR_SHARED="$here/shared"
max="${GPU_CHECK_MAX_LOG:-26}"
cd "$here" || exit 2
failed=""
ran=0

# run NAME SECONDS COMMAND... keeps the output and shows its end.
run() {
	local name="$1" limit="$2" start="$SECONDS" rc
	shift 2
	timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
	rc=$?
	ran=$((ran + 1))
	if [ "$rc" = 0 ]; then
		echo "gpu-check: $name passed ($((SECONDS - start)) s)"
	else
		[ "$rc" = 124 ] && echo "timed out after $limit s" >>"$out/$name.log"
		echo "gpu-check: $name FAILED with status $rc ($((SECONDS - start)) s)"
		failed="$failed $name"
		grep -E 'FAIL|panic|rror' "$out/$name.log" | head -25
	fi
	tail -n "${lines:-3}" "$out/$name.log"
}

# gotest NAME SECONDS PATTERN runs tests of the backend on the device; tests that were skipped are shown with the reason.
gotest() {
	run "$1" "$2" ./cuda.test -test.v -test.timeout "$2s" -test.run "$3"
	grep -A1 -E '^ *--- SKIP' "$out/$1.log" | grep -v '^--$'
}

sanitizer() {
	local tool
	if ! command -v compute-sanitizer >/dev/null; then
		echo "gpu-check: sanitize did not run: compute-sanitizer is not installed"
		return
	fi
	for tool in memcheck racecheck; do
		run "sanitize-$tool-msm" 120 compute-sanitizer --tool "$tool" --error-exitcode 9 ./msm_check small
		if grep -qiE 'device not supported|unable to|not supported' "$out/sanitize-$tool-msm.log"; then
			echo "gpu-check: sanitize did not run: this machine does not let compute-sanitizer at the device"
			failed="${failed/ sanitize-$tool-msm/}"
			return
		fi
		run "sanitize-$tool-ntt" 120 compute-sanitizer --tool "$tool" --error-exitcode 9 ./ntt_check vectors -small -no-times
		run "sanitize-$tool-poly" 120 compute-sanitizer --tool "$tool" --error-exitcode 9 ./poly_check vectors -small -no-times
	done
}

step() {
	case "$1" in
	msm) run msm 240 ./msm_check check ;;
	ntt) run ntt 240 ./ntt_check vectors -max "$max" -no-times ;;
	poly) run poly 240 ./poly_check vectors -no-times ;;
	sums) gotest sums 240 'TestSumsAreGnarks' ;;
	suite) gotest suite 540 'TestConformance|TestFixturesAreTheCPUs|TestLimits|TestMemoryIsFlat|TestDescribes' ;;
	large) gotest large 420 'TestLargeProofsAreTheCPUs' ;;
	sanitize) sanitizer ;;
	times)
		lines=200
		run times-msm 300 ./msm_check time "$max"
		run times-ntt 300 ./ntt_check vectors -times -max "$((max < 27 ? max + 1 : max))"
		run times-poly 300 ./poly_check vectors -times -max "$max"
		lines=3
		;;
	proofs) lines=60 run proofs 540 ./cuda.test -test.v -test.run '^$' -test.bench BenchmarkProof -test.benchtime "${GPU_CHECK_PROOFS:-20x}" ;;
	*)
		echo "gpu-check: error: no step is called $1" >&2
		exit 2
		;;
	esac
}

nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm,uuid --format=csv,noheader 2>/dev/null | tee "$out/device.log"
date -u +%Y-%m-%dT%H:%MZ | tee -a "$out/device.log"
[ $# -gt 0 ] || set -- msm ntt poly sums suite large sanitize times proofs
for s in "$@"; do step "$s"; done
if [ -n "$failed" ]; then
	echo "gpu-check: FAILED:$failed; output in $out"
	exit 1
fi
[ "$ran" -gt 0 ] || { echo "gpu-check: nothing ran"; exit 1; }
echo "gpu-check: all of $ran runs passed; output in $out"
