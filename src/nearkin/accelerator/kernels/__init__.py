"""Kernels, in Triton and in CUDA C: tensors in, tensors out. Importing one of the first needs torch and Triton."""
