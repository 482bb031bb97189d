"""Triton kernels: tensors in, tensors out. Importing one needs torch and Triton."""
