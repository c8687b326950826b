#!/usr/bin/env bash
# All that needs a GPU, in nine minutes on a bare machine, the most valuable first: builds, tries every benchmark, runs the
# shared suite on the device, and measures. A step has seconds of its own, so that one that hangs takes them from none of
# the others, and figures are written as they are measured. In $OUT, or bench/results: gpu.tar.gz, made anew behind each
# step, with the records that bench/report.py takes, and gpu_table.txt. Wheels come from wheels/, if that is there.
#   bench/gpu.sh [--full] [STEP ...]    --full: sanitizers, offsets beyond 4 GiB, a stream of the user's, two processes, ranks
#   bench/gpu.sh --smoke [STEP ...]     the same steps on few rows: without a GPU on what stands in for one
# STEP_SECONDS=20 gives every step as many seconds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONSAFEPATH=1
python=${PYTHON:-python3}
out=${OUT:-bench/results}
full=false smoke=() alone=()
for argument in "$@"; do
  case $argument in
    --full) full=true ;;
    --smoke) smoke=(--smoke) ;;
    *) alone+=("$argument") ;;
  esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
records=$(mktemp -d)
trap 'rm -rf "$records"' EXIT
table=$out/gpu_table.txt
: > "$table"
status=0

keep() {
  cp "$table" "$records/steps.txt"
  tar -czf "$out/.gpu.tar.gz" -C "$records" . && mv "$out/.gpu.tar.gz" "$out/gpu.tar.gz"
}

# step NAME SECONDS COMMAND ...: what it prints is kept as NAME.txt.
step() {
  local name=$1 seconds=${STEP_SECONDS:-$2} from=$SECONDS code=0 verdict
  shift 2
  if [ ${#alone[@]} -gt 0 ] && [[ " ${alone[*]} " != *" $name "* ]]; then
    return 0
  fi
  timeout --kill-after=10 "$seconds" "$@" > "$records/$name.txt" 2>&1 || code=$?
  case $code in
    0) verdict=done ;;
    124 | 137) verdict="out of time" ;;
    *) verdict="failed ($code)" ;;
  esac
  printf '%-20s %-12s %4d of %d s\n' "$name" "$verdict" $((SECONDS - from)) "$seconds" | tee -a "$table"
  if [ "$code" -ne 0 ]; then
    status=1
    tail -n 3 "$records/$name.txt" | cut -c 1-160 | sed 's/^/    /' | tee -a "$table"
  fi
  keep
}

# Benchmarks import the files beside them: for these the folder of the script belongs on the path.
bench() {
  local name=$1 seconds=$2
  shift 2
  step "$name" "$seconds" env -u PYTHONSAFEPATH "$python" "bench/gpu_$name.py" --json "$records/gpu_$name.json" \
    "${smoke[@]}" "$@"
}

suite() {
  step "$1" "$2" env HEADRACE_MOVED=1 "$python" -m pytest -q -p no:cacheprovider --hypothesis-profile quick \
    -m "twins and not slow and not law and not cpu" "${@:3}"
}

sanitized() {
  local tool=$1 name=$2
  # Torch's allocator would hide reads past the end of a tensor: they find other tensors' memory. Profilers share the
  # interface that the sanitizer needs.
  step "$tool-$name" 120 env -u PYTHONSAFEPATH PYTORCH_NO_CUDA_MEMORY_CACHING=1 HEADRACE_NO_PROFILER=1 \
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$python" "bench/gpu_$name.py" --smoke
}

if [ ${#smoke[@]} -eq 0 ]; then
  if ! "$python" -c "import torch; raise SystemExit(not torch.cuda.is_available())"; then
    echo "bench/gpu.sh: torch finds no GPU here" >&2
    exit 2
  fi
  nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max \
    --format=csv,noheader >> "$table" || true
  if [ -d wheels ]; then
    step wheels 20 "$python" -m pip install --quiet --no-deps wheels/*.whl
  fi
  step build 100 "$python" -m pip install --quiet --no-deps --no-build-isolation .
fi

# 515 seconds with the two above; bare machines have ten minutes.
step smoke 75 env -u PYTHONSAFEPATH "$python" bench/on_gpu.py smoke "$records"
if [ ${#smoke[@]} -eq 0 ]; then
  suite suite 90 -n 8 --timeout 60 tests/ops tests/cuda_host/test_line_cache.py
else
  suite suite 90 tests/ops/features/test_scatter.py
fi
bench gather 40
bench sampling 60
bench plans 45
bench training 85 --timeline "$records/gpu_training.trace"

if $full; then
  if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck synccheck initcheck; do
      for name in gather sampling cache aggregate; do
        sanitized "$tool" "$name"
      done
    done
  else
    echo "compute-sanitizer is not installed" | tee -a "$table"
  fi
  bench offsets 60
  step own-stream 90 env -u PYTHONSAFEPATH "$python" bench/gpu_training.py --own-stream "${smoke[@]}" \
    --json "$records/own_stream.json"
  bench shared 60
  bench cache 120
  bench aggregate 120
  bench ranks 120
fi

env -u PYTHONSAFEPATH "$python" bench/on_gpu.py table "$records" >> "$table" 2>&1
keep
if [ -z "${OUT:-}" ] && [ ${#smoke[@]} -eq 0 ]; then
  cp "$records"/gpu_*.json "$out"
fi
cat "$table"
exit $status
