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
# In the order of how long their files take.
if $rehearse; then
  suite suite 65 tests/ops/random/test_dropout.py tests/ops/features/test_scatter.py
else
  suite suite 65 tests/ops/{random,partition,features,cache} tests/cuda_host/test_line_cache.py tests/ops/{aggregate,sampling}
fi
bench gather 35
bench sampling 40
bench plans 30
bench training 60 --timeline "$records/timeline.json"
finish
