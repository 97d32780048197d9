# SPDX-License-Identifier: Apache-2.0
"""spillway.torch: tensors and nests, in and out, as they were."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spillway  # noqa: E402
import spillway.torch as st  # noqa: E402
from conftest import run_python  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
          torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64,
          torch.float8_e4m3fn, torch.float8_e5m2]


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(
        one.contiguous().reshape(-1).view(torch.uint8),
        other.contiguous().reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_shape_and_strides(cache, dtype):
    base = (torch.randn(3, 4, 5) * 10).to(dtype)
    for tensor in (base, base.transpose(0, 2), base[1], base[:, :, 0], base[:0],
                   base.flatten()[3:4].squeeze()):
        assert st.put(cache, "k", tensor, tokens=1)
        back = st.get(cache, "k")
        assert same_bits(back, tensor)
        if tensor.numel() and st._dense(tensor):
            assert back.stride() == tensor.stride()
        else:
            assert back.is_contiguous()


def test_nests(cache):
    nest = {"layers": [(torch.ones(2, 3), torch.zeros(1)), []], "raw": b"x", "n": 3, "t": "text",
            "none": None, "inf": float("inf"), "array": bytearray(b"yz")}
    assert st.put(cache, "k", nest, tokens=9) and cache.total_tokens == 9
    back = st.get(cache, "k")
    assert torch.equal(back["layers"][0][0], nest["layers"][0][0])
    assert isinstance(back["layers"][0], tuple) and back["layers"][1] == []
    assert {k: v for k, v in back.items() if k != "layers"} == \
        {k: v for k, v in nest.items() if k != "layers"}


def test_nests_of_thousands(cache):
    nest = [{"k": torch.full((2, 2), float(at)), "name": f"layer {at}"} for at in range(3000)]
    assert st.put(cache, "k", nest)
    back = st.get(cache, "k")
    assert all(torch.equal(a["k"], b["k"]) and a["name"] == b["name"] for a, b in zip(nest, back))


def test_what_comes_back_is_yours(cache):
    st.put(cache, "k", torch.zeros(4))
    st.get(cache, "k").fill_(1)
    assert st.get(cache, "k").sum() == 0


def test_parameters_and_gradients(cache):
    parameter = torch.nn.Parameter(torch.randn(3))
    st.put(cache, "k", {"w": parameter})
    assert torch.equal(st.get(cache, "k")["w"], parameter.detach())
    cache.set("plain", parameter)
    assert len(cache.get("plain")) == 12


@pytest.mark.parametrize("value", [object(), {"x": object()}, {1: torch.ones(1)}, {"x": 1},
                                   torch.ones(2).to_sparse(), torch.ones(2, device="meta")],
                         ids=lambda value: type(value).__name__)
def test_what_can_not_travel_is_named(cache, value):
    with pytest.raises(spillway.ValueTypeError):
        st.put(cache, "k", value)
    assert "k" not in cache


def test_deep_nests_are_refused(cache):
    nest = torch.ones(1)
    for _ in range(100):
        nest = [nest]
    with pytest.raises(spillway.ValueTypeError, match="deep"):
        st.put(cache, "k", nest)


def test_plain_entries_are_told_from_nests(cache):
    cache.set("k", b"plain")
    with pytest.raises(spillway.InvalidArgument, match="plain"):
        st.get(cache, "k")
    assert st.get(cache, "nowhere") is None


def test_refused_when_blocked(cache):
    cache.apply(0.97)
    assert st.put(cache, "k", torch.ones(1)) is False
    with pytest.raises(spillway.Blocked):
        st.put(cache, "k", torch.ones(1), strict=True)


def test_dlpack_in_and_out_without_a_copy(cache):
    tensor = torch.arange(24, dtype=torch.int32).reshape(4, 6)
    cache.set("k", tensor.t())  # Strided: piece by piece.
    lease = cache.lease("k")
    address = lease.address
    lent = torch.from_dlpack(lease.dlpack(0, 32, [6, 4]))
    assert torch.equal(lent, tensor.t()) and lent.data_ptr() == address
    assert cache.stats()["leases"] == 1
    with pytest.raises(spillway.LeaseReleased):
        lease.view
    cache.close()
    assert torch.equal(lent, tensor.t())
    into = torch.zeros(24, dtype=torch.int32)
    with spillway.Cache(capacity="8MiB") as other:
        other.set("k", tensor)
        assert other.get("k", into=into) == 96 and torch.equal(into, tensor.flatten())
        exported = other.lease("k").dlpack(0, 32, [24])
        torch.from_dlpack(exported)
        with pytest.raises(spillway.LeaseReleased):
            exported.__dlpack__()
        with pytest.raises(spillway.InvalidArgument, match="within"):
            other.lease("k").dlpack(0, 32, [25]).__dlpack__()
        assert other.stats()["leases"] == 0


def test_rescue_says_what_is_lacking(cache):
    with pytest.raises(spillway.InvalidArgument, match="cuda:0"):
        st.install_rescue(cache)


def test_no_torch_is_said():
    out = run_python("""
import sys
sys.modules["torch"] = None
import spillway
try:
    import spillway.torch
except spillway.NotInstalled as error:
    print(error)
""")
    assert "pip install torch" in out


@pytest.mark.parametrize("number", [2**63, 2**64 + 5, -1, 2.5, True])
@pytest.mark.parametrize("name", ["tokens", "token_count"])
def test_a_number_of_tokens_out_of_its_range_is_refused_by_name(cache, name, number):
    with pytest.raises(ValueError, match=f"{name} is {number!r}: .* from 0 to 1000000000"):
        st.put(cache, "k", torch.ones(2), **{name: number})
    assert len(cache) == 0


@pytest.mark.parametrize("number", [2**64 + (1 << 30), -1, 2**63, 0.5])
def test_a_rescues_numbers_out_of_range_are_refused_by_name(cache, number):
    for call, name in ((lambda: st.install_rescue(cache, reserve=number), "reserve"),
                       (lambda: st.retry(cache, times=number), "times")):
        with pytest.raises(ValueError, match=f"{name} is {number!r}: .* from 0 to"):
            call()
    for within in (-1, float("nan"), True, "5"):
        for call in (lambda: st.install_rescue(cache, within=within),
                     lambda: st.retry(cache, within=within)):
            with pytest.raises(ValueError, match="within is .* seconds, 0 or more"):
                call()


@pytest.mark.parametrize("other", [None, {}, "redis://127.0.0.1:7379"], ids=repr)
def test_what_is_no_cache_is_refused_at_once(other):
    for call in (lambda: st.put(other, "k", torch.ones(2)), lambda: st.get(other, "k"),
                 lambda: st.install_rescue(other), lambda: st.retry(other)):
        with pytest.raises(spillway.CacheTypeError, match="a spillway.Cache of this process"):
            call()
