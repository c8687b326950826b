#!/usr/bin/env bash
# The evidence that needs a GPU, in nine minutes on a bare machine, the most valuable first: builds, compiles all kernels,
# tries every benchmark, runs tests on the device, and measures. A step has seconds of its own, so that one that hangs takes
# them from none of the others, and figures are kept as they come. gpu_second.sh has what takes another nine minutes.
#   bench/gpu.sh [STEP ...]
#   bench/gpu.sh --rehearse [STEP ...]    the same steps without a GPU; see gpu_steps.sh, also for what they leave
source "$(dirname "${BASH_SOURCE[0]}")/gpu_steps.sh"

begin
beside try 50 "$python" bench/on_gpu.py try "$records" $((25 * slower))
suite device 45 tests/gpu
# In the order of how long they take on the stand-in: the last two as long as all others.
fast=(tests/ops/random tests/ops/partition tests/ops/aggregate tests/ops/features)
slow=(tests/ops/cache tests/cuda_host/test_line_cache.py)
for name in compact blended_picks fetch_rows excluded_by_tree excluded trees negatives picks weighted_picks parallel_edges \
  labor_importance segments typed_hop sample; do
  slow+=("tests/ops/sampling/test_$name.py")
done
if $rehearse; then
  slow=()
fi
suite suite 65 "${fast[@]}" "${slow[@]}"
bench gather 35
bench sampling 40
bench plans 30
bench training 60 --timeline "$records/timeline.json"
finish
