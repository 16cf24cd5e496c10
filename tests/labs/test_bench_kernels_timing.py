"""How `specdec bench kernels` times, on a stand-in for CUDA: events, rotation, graphs, and a capture that fails."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specdec_labs.bench_kernels.timing import copies_for, copy_bandwidth, time_calls

CUDA = SimpleNamespace(type="cuda")


class Device:
    """A device on which every call takes 10 microseconds, and 2 when a graph makes it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, breaks: bool = False) -> None:
        self.now, self.log, self.captured = 0.0, [], None
        device = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = device.now

            def elapsed_time(self, later: Any) -> float:
                return (later.at - self.at) / 1e3

        class Graph:
            def replay(self) -> None:
                device.now += 2.0 * len(device.captured)

        @contextmanager
        def graph(_: Graph) -> Any:
            if breaks:
                raise RuntimeError("operation not permitted when stream is capturing")
            device.captured = []
            yield
            device.captured = list(device.captured)

        stream = SimpleNamespace(wait_stream=lambda _: None)
        stand_in = {
            "Event": Event, "CUDAGraph": Graph, "graph": graph, "synchronize": lambda *_: None,
            "Stream": lambda: stream, "current_stream": lambda: stream, "stream": contextmanager(lambda _: iter([0])),
            "get_device_properties": lambda _: SimpleNamespace(L2_cache_size=50 << 20),
        }  # fmt: skip
        for name, value in stand_in.items():
            monkeypatch.setattr(torch.cuda, name, value)

    def call(self, name: int) -> None:
        self.log.append(name)
        if isinstance(self.captured, list):
            self.captured.append(name)
        self.now += 10.0


def test_single_calls_and_a_graph_are_timed_over_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    calls = [lambda name=name: device.call(name) for name in range(3)]
    timing = time_calls(calls, CUDA, seconds=0.001)  # pyright: ignore[reportArgumentType]
    assert (timing.inputs, timing.min_us, timing.median_us) == (3, 10.0, 10.0)
    assert (timing.graph_min_us, timing.graph_median_us, timing.graph_error) == (2.0, 2.0, None)
    assert device.captured == [0, 1, 2]
    assert min(device.log.count(name) for name in range(3)) >= 10
    assert timing.first_s is not None


def test_without_a_graph_the_single_calls_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, breaks=True)
    timing = time_calls([lambda: device.call(0)] * 2, CUDA, seconds=0.001)  # pyright: ignore[reportArgumentType]
    assert (timing.median_us, timing.graph_median_us) == (10.0, None)
    assert timing.graph_error == "RuntimeError: operation not permitted when stream is capturing"


def test_inputs_together_are_twice_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    Device(monkeypatch)
    sizes = [1 << 20, 30 << 20, 1 << 30, 1]
    assert [copies_for(CUDA, size) for size in sizes] == [100, 4, 2, 256]  # pyright: ignore[reportArgumentType]


def test_a_cpu_is_not_timed() -> None:
    log: list[int] = []
    timing = time_calls([lambda: log.append(0), lambda: log.append(1)], torch.device("cpu"))
    assert log == [0, 1]
    assert (timing.min_us, timing.median_us, timing.graph_median_us, timing.first_s) == (None, None, None, None)
    assert copy_bandwidth(torch.device("cpu")) is None
