"""The law of texts made by the Triton kernels from their own random numbers, and mutants of the kernels."""
