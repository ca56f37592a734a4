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
#   weir      weir itself with the plugin: doctor, prove, verify, a missing library, a plugin that is killed at work
#   fault     a kernel that reads where nothing is: no proof comes of it, and the device counts as lost
#   devices   on a machine with several GPUs: the one that is assigned does the work, in whatever order they are visible
#   sanitize  compute-sanitizer memcheck and racecheck on small sizes, where it is installed and works
#   times     tables of times: sums, transforms, sparse products
#   proofs    times of whole proofs
#   bench     weir bench: many proofs of 2^20 rows through the whole engine, the development key made on the device
#
# -o FOLDER keeps the output of every step there. WEIR_SHARED may name a folder with more fixtures. GPU_CHECK_MAX_LOG bounds the sizes of times and transforms (default 27),
# GPU_CHECK_LIMIT the seconds of a run, GPU_CHECK_PROOFS says how many proofs are timed (20x).
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
max="${GPU_CHECK_MAX_LOG:-27}"
cd "$here" || exit 2
failed=""
ran=0

# run NAME SECONDS COMMAND... keeps the output and shows its end.
run() {
	local name="$1" limit="$2" start="$SECONDS" rc
	shift 2
	[ -z "${GPU_CHECK_LIMIT:-}" ] || [ "$GPU_CHECK_LIMIT" -ge "$limit" ] || limit="$GPU_CHECK_LIMIT"
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

# plugin LOG prints the process of the CUDA backend that weir tells of in its log.
plugin() { sed -n 's/.*plugin started: plugin=cuda kind=prover pid=\([0-9]*\).*/\1/p' "$1" | head -1; }

# used prints the MiB in use on the GPUs.
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk '{ n += $1 } END { print n }'; }

endtoend() {
	local f=testdata/circom/dom_1022 w p q i before after
	local -a witnesses=()
	w="$(mktemp -d)"
	set -e
	./weir doctor
	./weir doctor | grep '^ok  *gpu .*NVIDIA'
	./weir prove --backend cuda --key $f/circuit.zkey --circuit $f/circuit.r1cs --witness $f/witness.wtns --proof "$w/p.json" --public "$w/pub.json"
	./weir verify --vkey $f/vkey.json --public "$w/pub.json" --proof "$w/p.json"

	echo "-- without its library: by name an error, else the processor, and loudly"
	if WEIR_CUDA_LIBRARY=/nowhere/lib.so ./weir prove --backend cuda --key $f/circuit.zkey --witness $f/witness.wtns --proof "$w/q.json"; then return 1; fi
	[ ! -e "$w/q.json" ]
	WEIR_CUDA_LIBRARY=/nowhere/lib.so ./weir prove --key $f/circuit.zkey --witness $f/witness.wtns --proof "$w/q.json" --public "$w/pub.json" 2>"$w/said"
	cat "$w/said"
	grep -q cuda "$w/said"
	./weir verify --vkey $f/vkey.json --public "$w/pub.json" --proof "$w/q.json"

	echo "-- a development key of 2^19 rows made on the device"
	./circuitgen -kind sha256 -log2 19 -seed 1 -name sha -out "$w"
	time ./weir setup --backend cuda --circuit "$w/sha.r1cs" --key "$w/sha.wkey"

	echo "-- mixed: one key fits the device, the other does not; by name an error, else the processor, and loudly"
	export WEIR_CUDA_VRAM_LIMIT=60MiB
	if ./weir prove --backend cuda --key "$w/sha.wkey" --witness "$w/sha.wtns" --proof "$w/q.json"; then return 1; fi
	./weir bench --json --proofs 6 --concurrency 2 --warmup 0 --kind key=$f/circuit.zkey,witness=$f/witness.wtns --kind "key=$w/sha.wkey,witness=$w/sha.wtns" 2>"$w/said" >"$w/mixed.json"
	unset WEIR_CUDA_VRAM_LIMIT
	grep -E '"(backend|verified|attempts)"' "$w/mixed.json"
	grep -q '"verified": 6' "$w/mixed.json"
	grep 'proved again.*backend=cuda' "$w/said" | head -1 | cut -c1-300
	grep -q 'proved again.*backend=cuda' "$w/said"

	echo "-- 100 proofs of 2^19 rows; the plugin is killed at work"
	for i in $(seq 100); do witnesses+=(--witness "$w/sha.wtns"); done
	before="$(used)"
	time ./weir prove --backend cuda --key "$w/sha.wkey" "${witnesses[@]}" --proof "$w/all.json" --public "$w/all.pub.json"
	./weir verify --vkey "$w/sha.wkey" --public "$w/all.pub.json" --proof "$w/all.json"
	./weir prove --backend cuda --key "$w/sha.wkey" "${witnesses[@]}" --proof "$w/killed.json" --public "$w/killed.pub.json" --log-level debug 2>"$w/log" &
	p=$!
	q=""
	for i in $(seq 500); do
		q="$(plugin "$w/log")"
		if [ -n "$q" ] && grep -q 'BUFFERS\[device_done' "$w/log"; then break; fi
		kill -0 "$p" || { echo "weir ended before the plugin was killed"; return 1; }
		sleep 0.01
	done
	[ -n "$q" ] || { echo "the plugin was never seen"; return 1; }
	kill -9 "$q"
	echo "killed $q while weir was $(kill -0 "$p" && echo at work)"
	for i in $(seq 50); do # a process is gone when the driver has taken back what it had
		[ -e "/proc/$q" ] || break
		sleep 0.1
	done
	[ ! -e "/proc/$q" ] || { echo "the killed plugin still holds the device"; return 1; }
	echo "gone after less than ${i}00 ms"
	wait "$p"
	grep -E 'WARN|ERROR' "$w/log" | cut -c1-300 | head
	grep -q 'proved again.*backend=cuda' "$w/log"
	./weir verify --vkey "$w/sha.wkey" --public "$w/killed.pub.json" --proof "$w/killed.json"
	sleep 1
	after="$(used)"
	echo "MiB in use on the device before: $before, after: $after"
	[ "$after" -le $((before + 100)) ]
	rm -rf "$w"
}

# bench proves a bit-heavy circuit again and again.
bench() {
	local w
	w="$(mktemp -d)"
	set -e
	./circuitgen -kind porep -log2 20 -seed 1 -name porep -out "$w"
	time ./weir setup --backend cuda --circuit "$w/porep.r1cs" --key "$w/porep.wkey"
	./weir bench --backend cuda --key "$w/porep.wkey" --witness "$w/porep.wtns" --proofs 60 --concurrency 4 --warmup 4 --assert failed==0 --assert verified==60 --json >"$out/bench.json"
	./weir bench --backend cuda --key "$w/porep.wkey" --witness "$w/porep.wtns" --proofs 60 --concurrency 4 --warmup 4
	rm -rf "$w"
}

# devices runs one proof for each GPU and each of two orders.
devices() {
	local -a uuids
	local u i=0 forward backward
	mapfile -t uuids < <(nvidia-smi --query-gpu=uuid --format=csv,noheader)
	if [ "${#uuids[@]}" -lt 2 ]; then
		echo "gpu-check: devices did not run: ${#uuids[@]} GPU here"
		return
	fi
	forward="$(seq -s, 0 $((${#uuids[@]} - 1)))"
	backward="$(seq -s, $((${#uuids[@]} - 1)) -1 0)"
	for u in "${uuids[@]}"; do
		WEIR_TEST_DEVICE="$u" CUDA_VISIBLE_DEVICES="$forward" gotest "device-$i-forward" 60 'TestAssignedDevice'
		WEIR_TEST_DEVICE="$u" CUDA_VISIBLE_DEVICES="$backward" gotest "device-$i-backward" 60 'TestAssignedDevice'
		i=$((i + 1))
	done
}

step() {
	case "$1" in
	msm) run msm 240 ./msm_check check ;;
	ntt) run ntt 240 ./ntt_check vectors -max "$max" -no-times ;;
	poly) run poly 240 ./poly_check vectors -no-times ;;
	sums) gotest sums 240 'TestSumsAreGnarks' ;;
	suite) gotest suite 540 'TestConformance|TestFixturesAreTheCPUs|TestLimits|TestMemoryIsFlat|TestMakeKeyIsTheCPUs' ;;
	large) gotest large 420 'TestLargeProofsAreTheCPUs' ;;
	weir)
		export -f endtoend plugin used
		export here
		lines=25 run weir 240 bash -c endtoend
		;;
	fault) WEIR_TEST_DEVICE_FAULT=1 gotest fault 60 'TestDeviceFault' ;;
	devices) devices ;;
	sanitize) sanitizer ;;
	times)
		lines=200
		run times-msm 300 ./msm_check time "$max"
		run times-ntt 300 ./ntt_check vectors -times -max "$max"
		run times-poly 300 ./poly_check vectors -times -max "$max"
		lines=3
		;;
	bench)
		export -f bench
		export out
		lines=40 run bench 240 bash -c bench
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
[ $# -gt 0 ] || set -- msm ntt poly sums suite large weir fault devices sanitize times proofs bench
for s in "$@"; do step "$s"; done
if [ -n "$failed" ]; then
	echo "gpu-check: FAILED:$failed; output in $out"
	exit 1
fi
[ "$ran" -gt 0 ] || { echo "gpu-check: nothing ran"; exit 1; }
echo "gpu-check: all of $ran runs passed; output in $out"
