"""Twins of kernels for GPUs: CUDA C++ in ``kernels/``, compiled when first used, and what launches them.

A twin gives the bits that its kernel in ``ops/native`` gives. Whatever it computes of random numbers it takes from the
same headers, ``ops/native/random``, which CUDA's compiler reads as well.
"""
