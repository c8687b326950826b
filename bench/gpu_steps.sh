# Sourced by gpu.sh and gpu_second.sh: steps with a limit each, what they leave, and what both begin with.
#   [PYTHON=...] SCRIPT [--rehearse] [STEP ...]    all steps, or those alone; by python3, or by PYTHON
# --rehearse walks through the steps without a GPU, on few rows and on what stands in for one, says what each may take and
# took, and fails where the steps are planned for more than nine minutes, or leave more than 64 MiB. There a step may take
# SLOWER=8 times as long, as the machine may have two cores and other work. STEP_SECONDS=20 gives every step as many seconds.
# In $OUT, or bench/results, as they come: gpu.tar.gz with the records that bench/report.py takes, and gpu_table.txt; of
# gpu_second.sh the same with that name. Nothing reaches for a network: wheels are taken from wheels/, if that is there
# (torchdata, pytest, pytest-timeout, pytest-xdist and hypothesis, with what they need; without xdist tests run one by one).
# shellcheck shell=bash
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONSAFEPATH=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
MOST_SECONDS=540 MOST_MIB=64
script=$(basename "$0" .sh)
out=${OUT:-bench/results}
rehearse=false smoke=() alone=() slower=1
for argument in "$@"; do
  case $argument in
    --rehearse) rehearse=true smoke=(--smoke) slower=${SLOWER:-8} ;;
    -*)
      echo "bench/$script.sh: expected --rehearse or names of steps, got $argument" >&2
      exit 2
      ;;
    *) alone+=("$argument") ;;
  esac
done
# A rehearsal uses what `make` has installed, if that is there.
python=${PYTHON:-$($rehearse && [ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
mkdir -p "$out"
out=$(cd "$out" && pwd)
records=$(mktemp -d)
trap 'rm -rf "$records"' EXIT
steps=$records/steps.txt
: > "$steps"
status=0 planned=0 behind=0

say() {
  echo "$*" | tee -a "$steps"
}

# Write what there is now: a run that is cut off leaves all that came before.
keep() {
  env -u PYTHONSAFEPATH "$python" bench/on_gpu.py table "$records" > "$records/figures.txt" 2>&1 || status=1
  cat "$steps" "$records/figures.txt" > "$out/${script}_table.txt"
  tar -czf "$out/.$script.tar.gz" -C "$records" .
  if [ "$(wc -c < "$out/.$script.tar.gz")" -gt $(((MOST_MIB - 1) << 20)) ]; then
    tar -czf "$out/.$script.tar.gz" --exclude "*timeline*" -C "$records" .
  fi
  mv "$out/.$script.tar.gz" "$out/$script.tar.gz"
}

stop() {
  say "$1"
  keep
  echo "bench/$script.sh: $1" >&2
  exit 2
}

# step NAME SECONDS COMMAND ...: what it prints is kept as NAME.txt. `verdict` says how it went. With stop_by=INT a command
# that is out of time is interrupted.
step() {
  local name=$1 seconds=$2 limit from=$SECONDS code=0
  shift 2
  verdict=""
  if [ ${#alone[@]} -gt 0 ] && [[ " ${alone[*]} " != *" $name "* ]]; then
    return 0
  fi
  planned=$((planned + seconds))
  limit=${STEP_SECONDS:-$((seconds * slower))}
  if ! $rehearse && [ "$limit" -gt $((MOST_SECONDS - SECONDS)) ]; then
    limit=$((MOST_SECONDS - SECONDS))
  fi
  if [ "$limit" -lt 1 ]; then
    verdict="left out"
  else
    timeout --signal="${stop_by:-TERM}" --kill-after=5 "$limit" "$@" > "$records/$name.txt" 2>&1 || code=$?
    case $code in
      0) verdict=done ;;
      124 | 137) verdict="out of time" ;;
      *) verdict="failed ($code)" ;;
    esac
  fi
  say "$(printf '%-20s %-12s %4d of %d s' "$name" "$verdict" $((SECONDS - from)) "${STEP_SECONDS:-$seconds}")"
  if [ "$verdict" != done ]; then
    status=1
    [ ! -f "$records/$name.txt" ] || tail -n 3 "$records/$name.txt" | cut -c 1-160 | sed 's/^/    /' | tee -a "$steps"
  fi
  keep
}

# Benchmarks import the files beside them: for these the folder of the script belongs on the path.
beside() {
  local name=$1 seconds=$2
  shift 2
  step "$name" "$seconds" env -u PYTHONSAFEPATH "$@"
}

bench() {
  beside "$1" "$2" "$python" "bench/gpu_$1.py" --json "$records/gpu_$1.json" "${smoke[@]}" "${@:3}"
}

has() {
  "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2> /dev/null
}

# suite NAME SECONDS PATH ...: tests on the device, in this order. Warnings are no errors, as the versions installed are
# not those of the project; what is kept in junit's form is written when the time is over as well.
suite() {
  local options=()
  ! has xdist || options+=(-n "$($rehearse && nproc || echo 8)")
  ! has pytest_timeout || options+=(--timeout "$((60 * slower))")
  stop_by=INT step "$1" "$2" env HEADRACE_MOVED=1 PYTHONPATH="$PWD/tests" "$python" -m pytest -v -o addopts= \
    --import-mode=importlib -W default -p no:cacheprovider -p gpu.launches --junit-xml "$records/$1.xml" \
    --hypothesis-profile quick -m "twins and not slow and not law and not cpu" "${options[@]}" "${@:3}"
}

# What both scripts begin with: 290 seconds at most, until all kernels are compiled.
begin() {
  local version include missing
  version=$("${CXX:-g++}" --version 2> /dev/null) || stop "no C++ compiler: ${CXX:-g++} --version fails"
  include=$("$python" -c "import sysconfig; print(sysconfig.get_path('include'))") || stop "no Python: $python fails"
  [ -f "$include/Python.h" ] || stop "no headers of Python: there is no $include/Python.h"
  say "$(date -u +%F), ${version%%$'\n'*}, $include"

  step torch 60 "$python" -c "import torch; print(torch.__version__, torch.version.cuda)
raise SystemExit(not ($($rehearse && echo True || echo False) or torch.cuda.is_available()))"
  [ "$verdict" = done ] || [ -z "$verdict" ] || stop "torch finds no GPU here, or cannot be imported"
  $rehearse || say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max \
    --format=csv,noheader 2>&1)"
  if compgen -G "wheels/*.whl" > /dev/null; then
    step wheels 15 "$python" -m pip install --quiet --no-deps "$($rehearse && echo --dry-run || echo --upgrade)" wheels/*.whl
  else
    planned=$((planned + (${#alone[@]} ? 0 : 15)))
  fi
  missing=$(for name in cupy nanobind scikit_build_core pytest hypothesis xdist pytest_timeout torchdata; do
    has "$name" || echo "$name"
  done)
  [ -z "$missing" ] || say "not installed: ${missing//$'\n'/, }"
  if $rehearse; then # what is installed stays
    step build 90 "$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$records/wheel" .
    rm -rf "$records/wheel"
  else
    step build 90 "$python" -m pip install --quiet --no-deps --no-build-isolation .
    [ "$verdict" = done ] || [ -z "$verdict" ] || stop "headrace does not build here"
  fi
  # Python processes that it starts must not have this folder, whose cuda/ hides NVIDIA's, on their path.
  step compile 40 "$python" bench/compile_kernels.py
  [ ! -f "$records/compile.txt" ] || say "$(< "$records/compile.txt")"
}

# The last lines, and the exit status.
finish() {
  local bytes
  if [ "$(nvidia-smi --list-gpus 2> /dev/null | wc -l)" -lt 2 ]; then
    say "not measured, as it takes two GPUs: reads of a peer's memory, CUDA IPC between GPUs, all-to-all by NCCL"
  fi
  say "$(printf '%-20s %-12s %4d of %d s' "planned in all" "" "$planned" $MOST_SECONDS)"
  say "$(printf '%-20s %-12s %4d s' "taken in all" "" "$SECONDS")"
  keep
  bytes=$(cat "$out/$script.tar.gz" "$out/${script}_table.txt" | wc -c)
  say "$(printf '%-20s %-12s %4d of %d MiB (%d bytes)' "files" "" $(((bytes + 1048575) >> 20)) $MOST_MIB "$bytes")"
  if [ "$planned" -gt $MOST_SECONDS ] || [ "$bytes" -gt $((MOST_MIB << 20)) ]; then
    status=1
  fi
  keep
  if [ -z "${OUT:-}" ] && ! $rehearse; then
    cp "$records"/gpu_*.json "$out"
  fi
  $rehearse || cat "$records/figures.txt" # of a stand-in they mean nothing
  exit $status
}
