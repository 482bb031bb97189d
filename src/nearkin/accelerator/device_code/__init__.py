"""Device code in Triton and in CUDA C: tensors in, tensors out. Importing `triton_code` needs torch and Triton."""
