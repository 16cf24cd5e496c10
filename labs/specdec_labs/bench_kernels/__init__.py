"""`specdec bench kernels`: are the kernels right on this device, and how fast are they beside torch, vLLM, FlashInfer.

Needs torch, numpy, jaxtyping and Triton alone (plots: plotly), so that it runs on a GPU machine without the lab's
other packages: `python -m specdec_labs.bench_kernels` is the same command. The parts, in the order of a run: `plan`
(what, most important first), `supervisor` (a worker process, its limits, its restarts), `worker` (one job after
another), `checks` and `near_ties` (correctness), `inputs`, `arms`, `torch_arms`, `peers`, `timing` (speed), `report`
and `page` (tables and plots).
"""
