#!/usr/bin/env bash
# What gpu.sh has no time for, in another nine minutes: sanitizers, offsets beyond 4 GiB, a stream of the user's, two
# processes with one table, caches, aggregations, and ranks where there are several GPUs.
#   bench/gpu_second.sh [STEP ...]
#   bench/gpu_second.sh --rehearse [STEP ...]    the same steps without a GPU; see gpu_steps.sh, also for what they leave
source "$(dirname "${BASH_SOURCE[0]}")/gpu_steps.sh"

# under TOOL: put the sanitizer in front of what comes; without it in front of nothing, to rehearse.
under() {
  sanitizer=(compute-sanitizer --tool "$1" --error-exitcode 9)
  if $rehearse && ! command -v compute-sanitizer > /dev/null; then
    sanitizer=()
  fi
}

# sanitized TOOL NAME SECONDS. Torch's allocator would hide reads past the end of a tensor, which find other tensors'
# memory; profilers share the interface that the sanitizer needs.
sanitized() {
  under "$1"
  beside "$1-$2" "$3" PYTORCH_NO_CUDA_MEMORY_CACHING=1 HEADRACE_NO_PROFILER=1 "${sanitizer[@]}" "$python" \
    "bench/gpu_$2.py" --smoke
}

begin
# Machines that are lent may keep debuggers out: a few calls of the driver under the sanitizer ask in a second.
under memcheck
step sanitizer 10 "${sanitizer[@]}" "$python" bench/cuda_context.py "${smoke[@]}"
if [ "$verdict" = done ] || [ ${#alone[@]} -gt 0 ]; then
  sanitized memcheck gather 45
  sanitized memcheck sampling 45
  sanitized racecheck cache 45
else
  say "not measured, as the sanitizer does not run here: memcheck of gathers and sampling, racecheck of caches"
  planned=$((planned + 135))
fi
bench offsets 30
beside own-stream 40 "$python" bench/gpu_training.py --own-stream "${smoke[@]}" --json "$records/own_stream.json"
bench shared 30
bench cache 35
bench aggregate 35
bench ranks 15
finish
