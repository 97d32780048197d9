# SPDX-License-Identifier: Apache-2.0
"""spillway.transformers: restored caches go on as if nothing had happened, bit by bit."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", minversion="5.0",
                                   reason="transformers 5 is not installed")

import spillway  # noqa: E402
import spillway.transformers as st  # noqa: E402
from spillway import _kv as kv  # noqa: E402

CHUNK = 16
COMMON = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=4,
              num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              max_position_embeddings=512)


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON))


def qwen():
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**COMMON))


def gemma():
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **COMMON, sliding_window=20, layer_types=["sliding_attention", "full_attention"] * 2))


def mistral():
    return transformers.MistralForCausalLM(transformers.MistralConfig(**COMMON, sliding_window=8))


@pytest.fixture(autouse=True)
def quiet():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    with torch.no_grad():
        yield


def run_on(model, ids, past, tokens):
    return [model(ids[:, at:at + 1], past_key_values=past, use_cache=True).logits
            for at in range(tokens, ids.shape[1])]


@pytest.mark.parametrize("make", [llama, qwen, gemma, mistral])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_logits_are_bit_identical(cache, make, dtype, batch):
    model = make().eval().to(dtype)
    for tokens in (5, 16, 41):  # Inside, at and beyond chunks and windows.
        ids = torch.randint(0, 128, (batch, tokens + 6))
        past = transformers.DynamicCache(config=model.config)
        model(ids[:, :tokens], past_key_values=past, use_cache=True)
        assert st.save(past, "k", cache, model, ids[:, :tokens], chunk=CHUNK)
        back = st.load("k", model, cache)
        assert back.tokens == tokens == back.cache.get_seq_length()
        assert st.longest_prefix(ids, model, cache, chunk=CHUNK) == tokens
        found = st.load_prefix(ids, model, cache, chunk=CHUNK)
        assert found.tokens == tokens
        whole = run_on(model, ids, past, tokens)
        for other in (back.cache, found.cache):
            for one, two in zip(whole, run_on(model, ids, other, tokens)):
                assert torch.equal(one, two)


@pytest.mark.parametrize("make", [llama, gemma])
def test_through_the_tiers(tiers, make):
    model = make().eval()
    contexts = {}
    for at in range(40):
        ids = torch.randint(0, 128, (2, 203))
        past = transformers.DynamicCache(config=model.config)
        model(ids[:, :200], past_key_values=past, use_cache=True)
        assert st.save(past, f"agent:{at}", tiers, model, ids[:, :200], chunk=64)
        contexts[f"agent:{at}"] = ids, past
    for key, (ids, past) in contexts.items():
        back = st.load(key, model, tiers)
        for one, two in zip(run_on(model, ids, past, 200), run_on(model, ids, back.cache, 200)):
            assert torch.equal(one, two)


def test_without_ids_a_key_has_chunks_of_its_own(cache):
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 43))
    past = transformers.DynamicCache(config=model.config)
    model(ids[:, :40], past_key_values=past, use_cache=True)
    assert st.save(past, "mine", cache, chunk=CHUNK)
    back = st.load("mine", model, cache)
    assert torch.equal(run_on(model, ids, past, 40)[-1], run_on(model, ids, back.cache, 40)[-1])
    assert st.load("nowhere", model, cache) is None


def test_common_beginnings_are_kept_once(cache):
    model = llama().eval()
    system = torch.randint(0, 128, (1, 64))
    sizes = []
    for at in range(3):
        ids = torch.cat([system, torch.randint(0, 128, (1, 32))], 1)
        past = transformers.DynamicCache(config=model.config)
        model(ids, past_key_values=past, use_cache=True)
        assert st.save_prefix(past, model, ids, cache, chunk=CHUNK) == 96
        sizes.append(cache.stats()["device"]["bytes"])
    token = 4 * 2 * 2 * 16 * 4  # layers, K and V, heads, dim, float32
    assert sizes[0] == 96 * token
    assert [b - a for a, b in zip(sizes, sizes[1:])] == [32 * token, 32 * token]
    assert cache.total_tokens == 64 + 3 * 32


def test_equal_chunks_behind_different_beginnings_are_not_the_same(cache):
    model = llama().eval()
    common = torch.randint(0, 128, (1, 32))
    prompts = []
    for _ in range(2):
        ids = torch.cat([torch.randint(0, 128, (1, 16)), common], 1)
        past = transformers.DynamicCache(config=model.config)
        model(ids, past_key_values=past, use_cache=True)
        st.save_prefix(past, model, ids, cache, chunk=CHUNK)
        prompts.append((ids, past))
    for ids, past in prompts:
        back = st.load_prefix(ids, model, cache, chunk=CHUNK)
        assert back.tokens == 48
        for one, two in zip(past.layers, back.cache.layers):
            assert torch.equal(one.keys, two.keys) and torch.equal(one.values, two.values)


def test_a_prefix_of_what_was_saved_is_found(cache):
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 60))
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    st.save_prefix(past, model, ids, cache, chunk=CHUNK)
    assert st.longest_prefix(ids, model, cache, chunk=CHUNK) == 60
    assert st.longest_prefix(ids[:, :50], model, cache, chunk=CHUNK) == 48
    other = ids.clone()
    other[0, 20] += 1
    assert st.longest_prefix(other % 128, model, cache, chunk=CHUNK) == 16
    assert st.longest_prefix(ids.flip(1), model, cache, chunk=CHUNK) == 0
    assert st.longest_prefix(ids, qwen().eval(), cache, chunk=CHUNK) == 0  # Not this model's.
    cut = st.load_prefix(ids[:, :50], model, cache, chunk=CHUNK)
    fresh = transformers.DynamicCache(config=model.config)
    model(ids[:, :48], past_key_values=fresh, use_cache=True)
    assert cut.tokens == 48 and cut.cache.get_seq_length() == 48


@pytest.mark.parametrize("make", [llama, gemma])
def test_read_by_several_hands_it_is_the_same(cache, make, monkeypatch):
    monkeypatch.setattr(kv, "HANDS_ON_HOST", 4)  # As on a GPU.
    monkeypatch.setattr(kv, "BY_ONE_THREAD", 100)  # Several parts of one table.
    model = make().eval()
    ids = torch.randint(0, 128, (2, 413))  # Many chunks for each hand, and a tail.
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    assert st.save_prefix(past, model, ids, cache, chunk=CHUNK) == 413
    calls = []
    carry = kv.Mover._carry
    monkeypatch.setattr(kv.Mover, "_carry", lambda self, operations, first, end:
                        (calls.append(end - first), carry(self, operations, first, end)))
    back = st.load_prefix(ids, model, cache, chunk=CHUNK)
    assert back.tokens == 413 and sum(calls) == 413 // CHUNK + 1 and max(calls) == kv.TOGETHER
    for one, two in zip(past.layers, back.cache.layers):
        assert torch.equal(one.keys, two.keys) and torch.equal(one.values, two.values)
    # What one of them meets is heard, and a hole is no answer.
    monkeypatch.setattr(kv.Mover, "_carry", lambda *_: (_ for _ in ()).throw(ValueError("mine")))
    with pytest.raises(ValueError, match="mine"):
        st.load_prefix(ids, model, cache, chunk=CHUNK)
    monkeypatch.setattr(kv.Mover, "_carry", carry)
    cache.clear()
    assert st.load_prefix(ids, model, cache, chunk=CHUNK).tokens == 0


def test_a_prefix_is_left_alone_where_the_rest_behind_it_takes_longer_than_all(cache, monkeypatch):
    # A model of 8 billion parameters, 32 heads of 128 and 32 layers, as measured.
    a_token, a_pair = 2 * 7.5e9, 4.0 * 32 * 128 * 32
    assert not st._is_faster(2048, 25811, a_token, a_pair)  # 3.2 s, and 1 s without it.
    assert not st._is_faster(2048, 12493, a_token, a_pair)  # 0.83 s, and 0.4 s.
    assert st._is_faster(9984, 12057, a_token, a_pair)  # 0.2 s, and 0.4 s.
    assert st._is_faster(25411, 25811, a_token, a_pair)
    assert not st._is_faster(0, 25811, a_token, a_pair)
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 60))
    past = transformers.DynamicCache(config=model.config)
    model(ids[:, :48], past_key_values=past, use_cache=True)
    st.save_prefix(past, model, ids[:, :48], cache, chunk=CHUNK)
    monkeypatch.setattr(st, "_model_costs", lambda model: (1.0, 1000.0))
    other = ids.clone()
    other[0, 20] += 1
    other %= 128
    assert st.load_prefix(other, model, cache, chunk=CHUNK).tokens == 16
    assert st.load_prefix(other, model, cache, chunk=CHUNK, when_faster=True).tokens == 0
    assert st.load_prefix(ids[:, :50], model, cache, chunk=CHUNK, when_faster=True).tokens == 48
    monkeypatch.undo()
    assert st._model_costs(model)[0] > 0
    assert st.load_prefix(ids[:, :50], model, cache, chunk=CHUNK, when_faster=True).tokens == 48
    assert not st.attach(model, cache, chunk=CHUNK).when_faster  # Only where it was measured.
    model.spillway.detach()


def test_a_window_is_only_restored_where_it_was_saved(cache):
    model = gemma().eval()
    ids = torch.randint(0, 128, (1, 60))
    past = transformers.DynamicCache(config=model.config)
    model(ids[:, :40], past_key_values=past, use_cache=True)
    st.save_prefix(past, model, ids[:, :40], cache, chunk=CHUNK)
    assert st.longest_prefix(ids, model, cache, chunk=CHUNK) == 40
    assert st.longest_prefix(ids[:, :39], model, cache, chunk=CHUNK) == 0


@pytest.mark.parametrize("make", [llama, gemma])
def test_attach_changes_nothing_but_the_work(cache, make):
    model = make().eval()
    prompt = torch.randint(0, 128, (1, 50))
    plain = model.generate(prompt, max_new_tokens=8, do_sample=False)
    attached = st.attach(model, cache, chunk=CHUNK)
    first = model.generate(prompt, max_new_tokens=8, do_sample=False)
    assert torch.equal(plain, first) and attached.last_restored == 0 and attached.saved == 1
    turn = torch.cat([first, torch.randint(0, 128, (1, 9))], 1)
    second = model.generate(turn, max_new_tokens=8, do_sample=False)
    assert attached.last_restored == 57
    full = model.generate(turn, max_new_tokens=8, do_sample=False, return_dict_in_generate=True)
    assert torch.equal(full.sequences, second)
    attached.detach()
    assert torch.equal(model.generate(turn, max_new_tokens=8, do_sample=False), second)
    assert not hasattr(model, "spillway")


def test_attach_passes_on_what_it_can_not_serve(cache):
    model = llama().eval()
    attached = st.attach(model, cache, chunk=CHUNK)
    prompt = torch.randint(0, 128, (2, 20))
    mask = torch.ones_like(prompt)
    mask[0, :3] = 0
    options = dict(max_new_tokens=3, do_sample=False, pad_token_id=0)
    for extra, why in (({"num_beams": 2}, "multiplied"), ({"attention_mask": mask}, "padded"),
                       ({"use_cache": False}, "use_cache=False"),
                       ({"past_key_values": transformers.DynamicCache(config=model.config)},
                        "given")):
        model.generate(prompt, **options, **extra)
        assert why in attached.last_reason
    assert attached.passed_by == 4 and attached.saved == 0
    model.generate(prompt, **options)
    assert attached.saved == 1 and attached.last_reason == ""


def test_what_can_not_be_restored_is_refused_with_the_reason(cache):
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 20))
    static = transformers.StaticCache(config=model.config, max_cache_len=64)
    with pytest.raises(spillway.CannotRestore, match="StaticCache"):
        st.save(static, "k", cache)
    with pytest.raises(spillway.CannotRestore, match="empty"):
        st.save(transformers.DynamicCache(config=model.config), "k", cache)
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    with pytest.raises(spillway.InvalidArgument, match="holds 20 tokens"):
        st.save(past, "k", cache, model, ids[:, :10])
    assert st.save(past, "k", cache, model, ids)
    with pytest.raises(spillway.CannotRestore, match="another model"):
        st.load("k", qwen().eval(), cache)
    with pytest.raises(spillway.CannotRestore, match="bfloat16"):
        st.load("k", model.to(torch.bfloat16), cache)
    cache.set("plain", b"x")
    with pytest.raises(spillway.InvalidArgument, match="not saved by"):
        st.load("plain", model, cache)
    past.layers[0].keys = past.layers[0].keys[:, :, :-1]
    with pytest.raises(spillway.CannotRestore, match="layer 0 holds"):
        st.save(past, "k", cache)


@pytest.mark.parametrize("chunk", [0, -256, 2.5, "256", True, 10**9 + 1, 2**63, 2**64 + 256])
def test_a_chunk_of_no_tokens_is_refused(cache, chunk):
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 40))
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    for call in (lambda: st.load_prefix(ids, model, cache, chunk=chunk),
                 lambda: st.longest_prefix(ids, model, cache, chunk=chunk),
                 lambda: st.save_prefix(past, model, ids, cache, chunk=chunk),
                 lambda: st.save(past, "k", cache, chunk=chunk),
                 lambda: st.attach(model, cache, chunk=chunk)):
        with pytest.raises(ValueError, match=f"chunk is {chunk!r}: .* from 1 to 1000000000"):
            call()
    assert len(cache) == 0


def test_a_hole_is_a_miss_not_a_wrong_answer(cache):
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 64))
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    st.save(past, "k", cache, model, ids, chunk=CHUNK)
    victim = [key for key in cache.keys() if key.startswith("kv:")][1]
    cache.delete(victim)
    assert st.load("k", model, cache) is None
    assert st.load_prefix(ids, model, cache, chunk=CHUNK).tokens in (0, 16, 32, 48)


def test_blocked_saves_nothing_and_says_so(cache):
    model = llama().eval()
    ids = torch.randint(0, 128, (1, 20))
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    cache.apply(0.97)
    assert st.save(past, "k", cache, model, ids) is False
    assert st.load("k", model, cache) is None


# --- attach, when the cache fails ---


def answers_like_the_model(model, prompt, attached):
    """The answer with the cache, and the warnings on the way to it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = [model.generate(prompt, max_new_tokens=6, do_sample=False) for _ in range(3)]
    attached.detach()
    plain = model.generate(prompt, max_new_tokens=6, do_sample=False)
    assert all(torch.equal(one, plain) for one in found)
    return [warning for warning in said if "spillway" in str(warning.message)]


@pytest.mark.parametrize("when", ["before", "between restore and save"])
def test_generate_answers_though_the_cache_is_closed(when):
    model, prompt = llama().eval(), torch.randint(0, 128, (1, 40))
    cache = spillway.Cache(capacity="64MiB", start=False)
    attached = st.attach(model, cache, chunk=CHUNK)
    if when == "before":
        cache.close()
    else:
        generate = attached._generate
        attached._generate = lambda *args, **kwargs: (cache.close(), generate(*args, **kwargs))[1]
    said = answers_like_the_model(model, prompt, attached)
    assert isinstance(attached.last_error, spillway.Closed) and attached.faults == 3
    assert attached.saved == 0 and attached.last_error.__traceback__ is None
    assert len(said) == 1 and said[0].category is RuntimeWarning
    assert "Closed" in str(said[0].message) and said[0].filename == __file__


@pytest.mark.parametrize("capacity", ["64KiB", "100KiB", "192KiB"])
def test_generate_answers_though_the_cache_is_tiny(capacity):
    model, prompt = llama().eval(), torch.randint(0, 128, (1, 300))
    with spillway.Cache(capacity=capacity, start=False) as cache:
        attached = st.attach(model, cache, chunk=256)
        said = answers_like_the_model(model, prompt, attached)
        assert isinstance(attached.last_error, spillway.TooLarge) and len(said) == 1
        assert "TooLarge" in str(said[0].message)


FAULTS = [spillway.Corrupt("damaged"), spillway.NoMemory("none"), spillway.Unavailable("gone"),
          spillway.NotResident("below"), spillway.DeadlineExceeded("late"), OSError("pipe"),
          RuntimeError("CUDA out of memory"), KeyError("layout"), AssertionError("ours")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("where", ["match", "contains_many", "_run"])
def test_generate_answers_whatever_the_cache_raises(cache, monkeypatch, where, fault):
    model, prompt = llama().eval(), torch.randint(0, 128, (1, 40))
    attached = st.attach(model, cache, chunk=CHUNK)
    model.generate(prompt, max_new_tokens=6, do_sample=False)  # There is something to restore.
    assert attached.last_error is None and attached.faults == 0 and attached.saved == 1
    monkeypatch.setattr(spillway.Cache, where,
                        lambda *_: (_ for _ in ()).throw(type(fault)(*fault.args)))
    said = answers_like_the_model(model, prompt, attached)
    assert type(attached.last_error) is type(fault) and attached.faults == 3 and len(said) == 1


def test_a_warning_that_is_an_error_costs_no_answer(capsys):
    model, prompt = llama().eval(), torch.randint(0, 128, (1, 40))
    cache = spillway.Cache(capacity="64MiB", start=False)
    attached = st.attach(model, cache, chunk=CHUNK)
    cache.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = model.generate(prompt, max_new_tokens=6, do_sample=False)
    assert "Closed" in capsys.readouterr().err
    attached.detach()
    assert torch.equal(first, model.generate(prompt, max_new_tokens=6, do_sample=False))


def test_an_error_of_the_model_stays_the_models(cache):
    model = llama().eval()
    attached = st.attach(model, cache, chunk=CHUNK)
    with pytest.raises(ValueError, match="not_a_word"):
        model.generate(torch.randint(0, 128, (1, 40)), not_a_word=1, max_new_tokens=2)
    assert attached.last_error is None


def test_after_a_fault_the_cache_is_used_again(cache, monkeypatch):
    model, prompt = llama().eval(), torch.randint(0, 128, (1, 40))
    attached = st.attach(model, cache, chunk=CHUNK)
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="OSError"):
        patch.setattr(spillway.Cache, "match", lambda *_: (_ for _ in ()).throw(OSError("once")))
        model.generate(prompt, max_new_tokens=6, do_sample=False)
    model.generate(prompt, max_new_tokens=6, do_sample=False)
    model.generate(prompt, max_new_tokens=6, do_sample=False)
    assert attached.last_restored > 0 and attached.saved == 2 and attached.faults == 1
    assert isinstance(attached.last_error, OSError)  # The latest there was.


class NoCache:
    pass


@pytest.mark.parametrize("make, words", [
    (lambda path: None, "cache is None"),
    (lambda path: spillway.Client(socket=path), "cache is a Client.*another process"),
    (lambda path: spillway.AsyncCache(capacity="1MiB"), "cache is a AsyncCache.*cache.sync"),
    (lambda path: "redis://127.0.0.1:7379", "cache is a str"),
    (lambda path: NoCache(), "cache is a NoCache"), (lambda path: {}, "cache is a dict")],
    ids=["None", "Client", "AsyncCache", "str", "class", "dict"])
def test_what_is_no_cache_is_refused_at_once(daemon, make, words):
    model, other = llama().eval(), make(daemon[0])
    before = model.generate
    with pytest.raises(TypeError, match=words + ".*") as said:
        st.attach(model, other)
    assert "a spillway.Cache of this process is needed" in str(said.value)
    assert isinstance(said.value, spillway.CacheTypeError)
    assert model.generate == before and not hasattr(model, "spillway")
    if other is None:
        return  # In these: the one that was attached.
    ids = torch.randint(0, 128, (1, 20))
    past = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=past, use_cache=True)
    for call in (lambda: st.save(past, "k", other), lambda: st.load("k", model, other),
                 lambda: st.save_prefix(past, model, ids, other),
                 lambda: st.load_prefix(ids, model, other),
                 lambda: st.longest_prefix(ids, model, other)):
        with pytest.raises(TypeError, match=words):
            call()


def test_ids_that_do_not_fit_64_bits_are_refused(cache):
    model = llama().eval()
    for ids in ([1, 2**63], [2**64 + 5], torch.tensor([1, 2], dtype=torch.uint64), [1.5], ["a"],
                torch.tensor([True, False]), torch.tensor([1j]), None, 7):
        with pytest.raises(ValueError, match="whole numbers under 2\\^63"):
            st.longest_prefix(ids, model, cache)
