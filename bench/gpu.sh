#!/usr/bin/env bash
# Everything that needs a GPU, in one run: builds, runs the shared suite on the device, lets compute-sanitizer look, and
# measures. Prints tables; records go to $OUT, or to bench/results, from where bench/report.py takes them. Wheels come
# from wheels/, if that is there. Names of benchmarks as arguments (gather training ...) run these alone.
# With --smoke nothing is built or measured: each benchmark is tried on what is there, a GPU or its stand-in.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONSAFEPATH=1
out=${OUT:-bench/results}
mkdir -p "$out"
python=${PYTHON:-python3}
smoke=false
if [ "${1:-}" = --smoke ]; then
  smoke=true
  shift
fi
alone=("$@")
names=(gather sampling training shared cache aggregate)
if [ ${#alone[@]} -gt 0 ]; then
  names=("${alone[@]}")
fi
status=0

# Benchmarks import the files beside them: for these the folder of the script belongs on the path.
bench() {
  local name=$1
  shift
  env -u PYTHONSAFEPATH "$python" "bench/gpu_$name.py" "$@"
}

failed() {
  echo "$1" >&2
  status=1
}

if $smoke; then
  for name in "${names[@]}"; do
    bench "$name" --smoke > "$out/gpu_$name.txt" || failed "gpu_$name: failed"
  done
  exit $status
fi

if ! "$python" -c "import torch; raise SystemExit(not torch.cuda.is_available())"; then
  echo "bench/gpu.sh: torch finds no GPU here" >&2
  exit 2
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader || true
if [ -d wheels ]; then
  "$python" -m pip install --quiet --no-deps wheels/*.whl
fi
"$python" -m pip install --quiet --no-deps --no-build-isolation .

if [ ${#alone[@]} -eq 0 ]; then
  echo "=== shared suite on the device"
  "$python" -m pytest -q --hypothesis-profile quick -m "twins and not slow" tests/ops \
    tests/cuda_host/test_line_cache.py > "$out/gpu_suite.txt" 2>&1 ||
    failed "shared suite: see $out/gpu_suite.txt"
  tail -3 "$out/gpu_suite.txt"

  echo "=== compute-sanitizer"
  for tool in memcheck racecheck; do
    if ! command -v compute-sanitizer > /dev/null; then
      echo "$tool: compute-sanitizer is not installed"
      continue
    fi
    for name in gather sampling cache aggregate; do
      # Torch's allocator would hide reads past the end of a tensor: they find other tensors' memory.
      if env -u PYTHONSAFEPATH PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$tool" --error-exitcode 9 "$python" "bench/gpu_$name.py" \
        --smoke > "$out/gpu_${name}_$tool.txt" 2>&1; then
        echo "$tool, $name: clean"
      else
        failed "$tool, $name: see $out/gpu_${name}_$tool.txt"
      fi
    done
  done
fi

echo "=== measurements"
for name in "${names[@]}"; do
  extra=()
  if [ "$name" = training ]; then
    extra=(--timeline "$out/gpu_training.trace")
  fi
  bench "$name" --json "$out/gpu_$name.json" "${extra[@]}" > "$out/gpu_$name.txt" || failed "gpu_$name: failed"
  cat "$out/gpu_$name.txt"
done
exit $status
