"""Rows of a file while the kernel is short of something for its reads (io_uring)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from headrace.ops import _native

#: Linked before the C library, this refuses to take reads for half a second, and says how often it was asked meanwhile.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
static double first;
static long refused;
long syscall(long number, ...) {
  static long (*original)(long, ...);
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_io_uring_enter) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    double now = time.tv_sec + 1e-9 * time.tv_nsec;
    if (first == 0) first = now;
    if (now < first + 0.5) { errno = ++refused % 2 ? EAGAIN : EBUSY; return -1; }
  }
  if (!original) original = dlsym(RTLD_NEXT, "syscall");
  return original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
__attribute__((destructor)) static void say(void) { printf("%ld\n", refused); }
"""

READING = """
import sys
import numpy as np, torch, headrace as hr
rows = np.load(sys.argv[1])
x = hr.DiskFeature(sys.argv[1], engine="io_uring", gap_bytes=0)
ids = torch.arange(0, len(rows), 2)
assert np.array_equal(x.read(ids).rows.numpy(), rows[::2])
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.skipif(not _native.has_io_uring(), reason="needs io_uring")
def test_a_kernel_that_refuses_for_a_while_is_asked_less_and_less_often(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "shim.c").write_text(SHIM)
    shim = str(tmp_path / "shim.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, str(tmp_path / "shim.c"), "-ldl"], check=True)
    np.save(tmp_path / "x.npy", np.arange(4000, dtype=np.float32).reshape(1000, 4))
    command = [sys.executable, "-c", READING, str(tmp_path / "x.npy")]
    variables = {**os.environ, "LD_PRELOAD": shim}
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert 20 < int(result.stdout) < 2000  # without a pause, a hundred thousand times
