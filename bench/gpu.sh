#!/usr/bin/env bash
# Everything that needs a GPU, in one run: builds, runs the shared suite on the device, lets compute-sanitizer look, and
# measures. Prints a table; records go to $OUT, or to bench/results. Takes wheels from wheels/, if that is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONSAFEPATH=1
out=${OUT:-bench/results}
mkdir -p "$out"
python=${PYTHON:-python3}

if ! "$python" -c "import torch; raise SystemExit(not torch.cuda.is_available())"; then
  echo "bench/gpu.sh: torch finds no GPU here" >&2
  exit 2
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
if [ -d wheels ]; then
  "$python" -m pip install --quiet --no-deps wheels/*.whl
fi
"$python" -m pip install --quiet --no-deps --no-build-isolation .

echo "=== shared suite on the device"
"$python" -m pytest -q --hypothesis-profile quick -m "twins and not slow" tests/ops | tee "$out/gpu_suite.txt" | tail -3

echo "=== compute-sanitizer"
for tool in memcheck racecheck; do
  if command -v compute-sanitizer > /dev/null; then
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$python" bench/gpu_kernels.py --smoke \
      > "$out/gpu_$tool.txt" 2>&1 && echo "$tool: clean" || echo "$tool: see $out/gpu_$tool.txt"
  else
    echo "$tool: compute-sanitizer is not installed"
  fi
done

echo "=== measurements"
"$python" bench/gpu_kernels.py --json "$out/gpu_kernels.json" | tee "$out/gpu_kernels.txt"
