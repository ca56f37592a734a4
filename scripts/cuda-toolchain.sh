#!/usr/bin/env bash
# Finds or installs the CUDA compiler and prints what make needs to use it, one "NAME := value" a line.
#
#   scripts/cuda-toolchain.sh            print NVCC, CUDA_INC, CUDA_LIB (make variables), installing the wheels if there is no fit nvcc
#   scripts/cuda-toolchain.sh --find     the same, but exit 1 instead of installing
#   scripts/cuda-toolchain.sh --nvcc     print only the path of nvcc
#
# An nvcc named by the variable NVCC, on PATH or in /usr/local/cuda/bin is taken when its release is at least 13.0 and below 14. Else
# five wheels from PyPI, pinned below, go into bin/tools/cuda-13.0 (ignored by git). That takes python3 with pip, and a host compiler (g++).
set -euo pipefail

WHEELS="nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85"
root="$(cd "$(dirname "$0")/.." && pwd)"
dir="${WEIR_CUDA_DIR:-$root/bin/tools/cuda-13.0}"
mode="${1:-}"

die() {
	echo "cuda-toolchain: error: $1" >&2
	[ -z "${2:-}" ] || echo "cuda-toolchain: hint: $2" >&2
	exit 1
}

# release NVCC prints "13.0" or nothing.
release() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p'; }

fit() { case "$(release "$1")" in 13.*) return 0 ;; *) return 1 ;; esac; }

show() {
	if [ "$mode" = --nvcc ]; then
		echo "$1"
		return
	fi
	local home
	home="$(cd "$(dirname "$(readlink -f "$1")")/.." && pwd)"
	local inc="" lib=""
	# CUB is below include/cccl since 13.0; nvcc adds it by itself only in a full toolkit.
	for d in "$home/include" "$home/include/cccl" "$home/targets/x86_64-linux/include" "$home/targets/x86_64-linux/include/cccl"; do
		[ -d "$d" ] && inc="$inc -isystem $d"
	done
	for d in "$home/lib" "$home/lib64" "$home/targets/x86_64-linux/lib"; do
		[ -e "$d/libcudart_static.a" ] && lib="-L$d"
	done
	[ -n "$lib" ] || die "libcudart_static.a is not beside $1" "install the CUDA runtime's development files, or hide this nvcc from PATH"
	echo "NVCC := $1"
	echo "CUDA_INC :=$inc"
	echo "CUDA_LIB := $lib"
}

found=""
for c in ${NVCC:-} "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
	if [ -n "$c" ] && [ -x "$c" ]; then
		if fit "$c"; then
			show "$c"
			exit 0
		fi
		found="$found $c ($(release "$c"))"
	fi
done

wheel="$dir/nvidia/cu13/bin/nvcc"
if [ -f "$dir/.complete" ] && [ "$(cat "$dir/.complete")" = "$WHEELS" ] && fit "$wheel"; then
	show "$wheel"
	exit 0
fi
[ "$mode" != --find ] || die "no nvcc from 13.0 to below 14${found:+; found$found}" "run scripts/cuda-toolchain.sh without --find to install it from wheels"

[ "$(uname -s)" = Linux ] || die "the wheels are for Linux, this is $(uname -s)"
command -v python3 >/dev/null || die "no nvcc from 13.0 to below 14${found:+; found$found}, and no python3 to install it with" "install CUDA 13 or python3 with pip"
python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip" "install python3-pip, or CUDA 13"
command -v g++ >/dev/null || die "nvcc needs a host compiler and there is no g++" "install g++"

# The wheels unpack beside their place and move there whole, so that an interrupted install is never taken for a whole one.
tmp="$dir.$$"
trap 'rm -rf "$tmp"' EXIT
rm -rf "$tmp"
mkdir -p "$tmp"
echo "cuda-toolchain: installing $WHEELS" >&2
# shellcheck disable=SC2086 # a list of words
python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary=:all: --target "$tmp" $WHEELS >&2 ||
	die "pip could not install $WHEELS" "a package index with these wheels is needed; or put nvcc 13 on PATH"
[ -x "$tmp/nvidia/cu13/bin/nvcc" ] || die "the wheels hold no nvidia/cu13/bin/nvcc"
echo "$WHEELS" >"$tmp/.complete"
rm -rf "$dir"
mv "$tmp" "$dir"
fit "$wheel" || die "$wheel does not run here"
show "$wheel"
