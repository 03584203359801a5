"""The refusals of fovea.transformers, each in one line: models, masks, devices and services that it cannot serve."""
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fovea
import hf
from fovea.transformers import _attention, _names
from hf import transformers

FULL = fovea.transformers.register("full")
FUNCTION = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[FULL]
# Small sizes under the names that these configurations use.
SMALL = {"vocab_size": 97, "hidden_size": 48, "d_model": 48, "num_hidden_layers": 1, "n_layer": 1, "n_layers": 1,
         "encoder_layers": 1, "decoder_layers": 1, "num_layers": 1, "num_attention_heads": 6, "n_head": 6, "n_heads": 6}
OWN_ATTENTION = ["XLNet", "Bloom", "Longformer", "FSMT", "Deberta", "DebertaV2", "Falcon", "Reformer"]
OWN_ATTENTION_IN_4 = ["T5", "Mpt", "Bert", "Roberta", "ModernBert"]


def one_line(error):
    return "\n" not in str(error.value)


@pytest.mark.parametrize("kind", OWN_ATTENTION + (OWN_ATTENTION_IN_4 if hf.VERSION < (5, 0) else []))
def test_models_with_an_attention_of_their_own(kind):
    config = getattr(transformers, f"{kind}Config")()
    for name, value in SMALL.items():
        if name in config.to_dict() and isinstance(getattr(config, name), int):
            setattr(config, name, value)
    with torch.device("meta"), pytest.raises(
            ValueError, match=f"{kind}.* has an attention of its own and never calls 'fovea:full'") as error:
        getattr(transformers, f"{kind}Model")._from_config(config, attn_implementation=FULL)
    assert one_line(error)


def test_loaded_models_with_an_attention_of_their_own():
    made = transformers.BloomModel(transformers.BloomConfig(n_layer=1, hidden_size=48, n_head=6, vocab_size=97))
    with pytest.raises(ValueError, match=r"BloomModel has an attention of its own and never calls 'fovea:topk\(3\)'"):
        fovea.sparsify(made, "topk(3)")
    assert not hasattr(made.config, "fovea_attention")


class OwnConfig(transformers.PretrainedConfig):
    model_type = "own"


class OwnModel(transformers.PreTrainedModel):
    """A class of somebody's own, as remote code has it, whose file does not look attention up by name."""
    config_class = OwnConfig
    _supports_sdpa = _supports_attention_backend = True


def test_a_class_of_remote_code():
    with pytest.raises(ValueError, match="OwnModel has an attention of its own and never calls 'fovea:full'"):
        OwnModel._from_config(OwnConfig(), attn_implementation=FULL)


def test_continuous_batching():
    """generate_batch keeps its cache in pages, which only its own implementations read."""
    made = hf.model("llama", FULL)
    with pytest.raises(Exception, match="paged caches are not supported|is not supported for continuous batching"):
        made.init_continuous_batching().switch_to_cb_friendly_attn(made) if hf.VERSION >= (5, 0) else FUNCTION(
            made.model.layers[0].self_attn, *[torch.randn(1, 2, 4, 8)] * 3, None, cache=object())


@pytest.mark.parametrize("sinks, spec, error, says", [
    (torch.ones(1, 2, 4), "full", ValueError, "passes attention sinks of shape \\[1, 2, 4\\]; expected \\[2\\], one a head, or"),
    (torch.ones(2), "entmax(1.5)", ValueError, "which go with softmax, and 'entmax\\(1.5\\)' does not; choose a spec"),
    (torch.ones(2), "dsa(4)", NotImplementedError, "'dsa\\(4\\)' beside attention sinks, which Module passes, is not")])
def test_sinks(sinks, spec, error, says):
    function = _attention.function(_names.parse(spec))
    with pytest.raises(error, match=says):
        function(torch.nn.Module(), *[torch.randn(1, 2, 4, 8)] * 3, None, s_aux=sinks)


def test_float16_and_cuda_of_a_torch_without_it():
    x = torch.randn(1, 2, 4, 8)
    with pytest.raises(ValueError, match="float16 on a CPU is not supported; load the model in bfloat16 or float32"):
        FUNCTION(torch.nn.Module(), x.half(), x.half(), x.half(), None)
    if torch.version.cuda is None and torch.version.hip is None:
        with FakeTensorMode():
            x = torch.empty(1, 2, 4, 8, device="cuda")
            with pytest.raises(ValueError, match="q is on cuda:0, and this torch has no CUDA; move the tensors to the CPU") as e:
                FUNCTION(torch.nn.Module(), x, x, x, None)
            assert one_line(e)


def test_half_of_the_heads_do_not_divide():
    q, k = torch.randn(1, 6, 4, 8), torch.randn(1, 4, 4, 8)
    with pytest.raises(RuntimeError, match="q has 6 heads and k 4; with enable_gqa expected a number of heads of k that"):
        FUNCTION(torch.nn.Module(), q, k, k, None)


@pytest.mark.parametrize("shape", [(2, hf.LENGTH), (4, hf.LENGTH), (3, 1, hf.LENGTH), (3, 1, hf.LENGTH, hf.LENGTH - 1)])
def test_masks_of_another_shape(shape):
    made = hf.model("llama", FULL)
    with pytest.raises(ValueError, match=rf"has shape \[{', '.join(map(str, shape))}\]; expected \[3, {hf.LENGTH}\]") as error:
        made(hf.tokens(), attention_mask=torch.ones(shape))
    assert one_line(error)


def test_weights_that_the_configuration_asks_for():
    """transformers itself allows this with eager alone; the argument of a call works."""
    made = hf.model("llama", FULL)
    with pytest.raises(ValueError, match="output_attentions"):
        made.config.output_attentions = True
    assert made(hf.tokens(), output_attentions=True).attentions[0].shape == (3, 6, hf.LENGTH, hf.LENGTH)


@pytest.mark.parametrize("name", ["flash", "sdpa", "flex_attention", "paged|full", "a/b", "a/b:full"])
def test_names_that_transformers_reads_otherwise(name):
    with pytest.raises(ValueError):
        fovea.transformers.register(name)


class Wrapper(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


@pytest.mark.parametrize("change", [lambda model: fovea.sparsify(model, "full"), lambda model: fovea.sweep(model, BATCH, ["full"])],
                         ids=["sparsify", "sweep"])
def test_what_is_no_model_of_transformers(change):
    made = hf.model("llama")
    for wrong, name in (("gpt2", "str"), (Wrapper(made), "Wrapper"), (torch.compile(made, backend="eager"), "OptimizedModule")):
        with pytest.raises(TypeError, match=f"got an object of type {name}; expected a loaded model of transformers") as error:
            change(wrong)
        assert one_line(error)


BATCH = {"input_ids": hf.tokens()}


@pytest.mark.parametrize("batch, specs, kind, message", [
    (BATCH, "topk(2)", TypeError, "specs is the text 'topk\\(2\\)'; expected a list"),
    ({"attention_mask": torch.ones(3, 4)}, ["full"], ValueError, "the batch has neither labels nor input_ids")])
def test_sweeps_without_a_loss_or_a_list(batch, specs, kind, message):
    with pytest.raises(kind, match=message) as error:
        fovea.sweep(hf.model("llama"), batch, specs)
    assert one_line(error)


# Random keys are drawn by place.
DRAWN = pytest.mark.parametrize("spec", ["random(3)", "topk(2,keep=random(1))"])


@DRAWN
def test_random_keys_under_a_mask_of_pairs(spec):
    """They would come from hidden keys."""
    made, ids = hf.model("mistral", fovea.transformers.register(spec)), hf.tokens()
    pairs = torch.ones(hf.LENGTH, hf.LENGTH, dtype=torch.bool).tril()[None, None].clone()
    pairs[0, 0, 20, 7] = False
    with pytest.raises(NotImplementedError, match="goes with masks that are causal or of padding") as error:
        made(ids, attention_mask=pairs)
    assert one_line(error)


@DRAWN
def test_random_keys_of_a_static_cache(spec):
    """A cache that has dropped the beginning of a text does not tell how much of it; that of transformers 4 keeps all of it."""
    made, ids = hf.model("mistral", fovea.transformers.register(spec)), hf.tokens()
    static = lambda: made.generate(ids, max_new_tokens=3, do_sample=False, cache_implementation="static")
    if hf.VERSION < (5, 0):
        assert static().equal(made.generate(ids, max_new_tokens=3, do_sample=False))
        return
    with pytest.raises(ValueError, match="goes by places, and MistralAttention has 1 queries and 7 keys") as error:
        static()
    assert one_line(error)


def test_heads_that_do_not_fit_are_refused_at_once():
    made = hf.model("llama", "sdpa")
    heads = made.config.num_attention_heads
    with pytest.raises(fovea.SpecError, match="heads"):
        fovea.sparsify(made, f"{heads + 1}*topk(3);1*full")
    assert made.config._attn_implementation == "sdpa"
