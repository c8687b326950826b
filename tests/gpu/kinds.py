"""What runs tests of kernels that the CPU has no twin of: what stands in for a GPU, and a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

#: For a fixture. On a GPU tests have the mark by which bench/gpu.sh chooses.
GPUS = ["cuda_host", *([pytest.param("gpu", marks=pytest.mark.twins)] if torch.cuda.is_available() else [])]
