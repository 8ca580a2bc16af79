"""GPU kernels of our own, in Triton: what a decoding step needs to stream its weights at the bus's
speed, and a sampler that sorts nothing.

Each file has kernels and the functions that launch them. Nothing here is imported on a machine
without a GPU, except by tests that interpret the kernels.
"""
