"""The registry of fast operators."""

from collections.abc import Iterator

import pytest

from specdec_core import ops
import specdec_kernels


@pytest.fixture(autouse=True)
def restored_registry() -> Iterator[None]:
    before = {name: ops.get(name) for name in ops.NAMES}
    yield
    for name, operator in before.items():
        ops.unregister(name)
        if operator is not None:
            ops.register(name, operator)


def test_a_name_without_operator_answers_none() -> None:
    ops.unregister("verify_chain")
    assert ops.get("verify_chain") is None


def test_the_latest_registration_answers() -> None:
    ops.register("verify_chain", max)
    ops.register("verify_chain", min)
    assert ops.get("verify_chain") is min
    ops.unregister("verify_chain")
    ops.unregister("verify_chain")
    assert ops.get("verify_chain") is None


@pytest.mark.parametrize("call", [lambda: ops.get("verfy"), lambda: ops.register("verfy", max)])
def test_an_unknown_name_is_refused_with_the_known_ones(call) -> None:
    with pytest.raises(ValueError, match="operator name is 'verfy'; expected one of noise_words, verify_chain"):
        call()


def test_something_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ValueError, match="operator for 'kv_compact' is 3; expected a function"):
        ops.register("kv_compact", 3)  # pyright: ignore[reportArgumentType]


def test_the_kernels_package_registers_what_it_has() -> None:
    names = specdec_kernels.register()
    assert names
    assert all(ops.get(name) is not None for name in names)
