"""Every architecture of transformers whose file looks its attention up by name, with small random weights: outputs,
gradients and generated tokens under fovea:full against eager, or the line that refuses it.

    python3 bench/huggingface_table.py                 # all; some minutes
    python3 bench/huggingface_table.py bart llama -v   # these folders of transformers/models

Prints one line per architecture, then the counts. Ends with 1 if a difference is larger than rounding explains.
"""
import argparse
import collections
import importlib
import inspect
import re
import signal
import sys
import warnings
from pathlib import Path

import torch
import transformers

import clone  # noqa: F401
import fovea
from huggingface_inputs import inputs_of
from huggingface_small import small_config

# Endings of the classes that are measured: of each group the first that runs in eager.
GROUPS = (("ForConditionalGeneration", "ForSpeechSeq2Seq", "ForVisionText2Text"), ("ForCausalLM", "LMHeadModel"),
          ("ForMaskedLM", "ForPreTraining", "ForImageClassification", "ForCTC", "ForObjectDetection", "ForUniversalSegmentation",
           "ForPrediction", "ForDepthEstimation", "ForSemanticSegmentation"),
          ("VisionModel", "AudioModel", "VisionTransformer", "Encoder"), ("Model",), ("",))
SECONDS = 90  # an architecture may take


class NotMeasured(Exception):
    """The script cannot build the model, or cannot make its inputs."""


def folders():
    root = Path(transformers.__file__).parent / "models"
    for file in sorted(root.glob("*/modeling_*.py")):
        if "ALL_ATTENTION_FUNCTIONS" in file.read_text():
            yield file.parent.name, file.stem


def groups_of(folder, file):
    """The classes of a file, in groups of which one is measured."""
    module = importlib.import_module(f"transformers.models.{folder}.{file}")
    left = [cls for cls in vars(module).values() if inspect.isclass(cls) and cls.__module__ == module.__name__
            and issubclass(cls, transformers.PreTrainedModel) and cls.config_class is not None
            and not cls.__name__.endswith("PreTrainedModel") and "forward" in vars(cls)]
    for endings in GROUPS:
        found = [cls for end in endings for cls in left if cls.__name__.endswith(end)]
        left = [cls for cls in left if cls not in found]
        yield list(dict.fromkeys(found))


def numbers_in(output):
    """All tensors of floating numbers in an output, in order."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, dict):
        output = [value for name, value in output.items() if name not in ("past_key_values", "cache")]
    return [x for part in output for x in numbers_in(part)] if isinstance(output, (list, tuple)) else []


def passes(model, inputs):
    """(outputs, gradients) of one call. Rows of padding are left out, as their values mean nothing."""
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    outputs = numbers_in(model(**inputs))
    if not outputs:
        raise NotMeasured("no output of floating numbers")
    of_input = inputs.get("attention_mask")
    mask = inputs.get("decoder_attention_mask", None if "decoder_input_ids" in inputs else of_input)

    def without_padding(x):
        own = next((m for m in (mask, of_input) if m is not None and x.dim() > 2 and x.shape[:2] == m.shape), None)
        return x if own is None else x[own.bool()]

    kept = [without_padding(x) for x in outputs]
    if mask is not None:
        if outputs[0].shape[:2] != mask.shape:
            raise NotMeasured("an output whose rows are not those of the mask")
        kept = kept[:1]
    if kept[0].requires_grad:
        weights = torch.linspace(-1, 1, kept[0].numel()).view_as(kept[0])
        (kept[0] * weights).nansum().backward()
    grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return [x.detach() for x in kept], torch.cat(grads) if grads else torch.zeros(1)


def distance(got, expected):
    """The greatest difference, relative to the greatest number."""
    if got.shape != expected.shape:
        return float("inf")
    if not got.numel():
        return 0.0
    scale = expected.nan_to_num(0, 0, 0).abs().max().clamp(min=1e-6)
    return float(((got - expected).nan_to_num(0, 0, 0).abs().max() / scale))


def stable_topk(scores, k, dim=-1, **_):
    """Takes the earlier of equal scores, like fovea.index_topk; torch's own takes any, and indexers have many zeros."""
    values, indices = torch.sort(scores, dim=dim, descending=True, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


def built(classes):
    """The first class that runs in eager, its inputs by variant, and what they give."""
    reasons = []
    for cls in classes:
        try:
            torch.manual_seed(1)
            model = cls._from_config(small_config(cls.config_class), attn_implementation="eager").eval().float()
            with torch.no_grad():  # or all tokens would get nearly the same outputs
                for parameter in model.parameters():
                    if parameter.numel() > 2e7:
                        raise NotMeasured(f"{cls.__name__} stays too large")
                    parameter.mul_(2 if parameter.dim() > 1 else 1)
            variants = inputs_of(model)
            expected = {}
            for name, inputs in variants.items():
                try:
                    expected[name] = passes(model, inputs)
                except Exception:
                    if not expected:
                        raise
            return model, {name: variants[name] for name in expected}, expected
        except TimeoutError:
            raise
        except Exception as error:
            reasons.append(f"{cls.__name__}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200])
    raise NotMeasured(" | ".join(reasons) or "no class")


def generated(model, inputs):
    torch.manual_seed(3)
    start = {"decoder_start_token_id": 2} if model.config.is_encoder_decoder else {}
    tokens = model.generate(**inputs, **start, max_new_tokens=6, do_sample=False)
    return tokens if isinstance(tokens, torch.Tensor) else tokens.sequences


def generates(model):
    return model.can_generate() and "ForCausalLM" in type(model).__name__ or model.config.is_encoder_decoder and model.can_generate()


def texts_of(model, variants):
    """Generated tokens by variant, where eager generates. Right padding is left out: its last token is padding."""
    tokens = {}
    for name, inputs in variants.items() if generates(model) else ():
        if name == "right" and not model.config.is_encoder_decoder:
            continue
        try:
            tokens[name] = generated(model, {key: x for key, x in inputs.items() if not key.startswith("decoder_")})
        except Exception:
            continue
    return tokens


def worst_of(got, expected):
    """(difference, text) of the variant that differs most."""
    worst, text = -1.0, ""
    for name, (outputs, grad) in expected.items():
        values, slopes = max(map(distance, got[name][0], outputs)), distance(got[name][1], grad)
        if max(values, slopes) > worst:
            worst, text = max(values, slopes), f"{name}: outputs {values:.1e}, gradients {slopes:.1e}"
    return worst, text


def measured(classes, close):
    """(kind, text) of the first class that runs in eager: equal, different or refused."""
    model, variants, expected = built(classes)
    tokens = texts_of(model, variants)
    try:
        fovea.sparsify(model, "full")
        got = {name: passes(model, inputs) for name, inputs in variants.items()}
        texts = texts_of(model, {name: variants[name] for name in tokens})
    except TimeoutError:
        raise
    except Exception as error:
        if str(error).startswith("fovea:") and "\n" not in str(error):
            return "refused", f"{type(model).__name__}: {error}"
        return "different", f"{type(model).__name__}: {type(error).__name__}: {str(error)[:200]}"
    worst, text = worst_of(got, expected)
    peer = "eager"
    if worst >= close:  # without a mask, some modules are causal in sdpa alone
        try:
            model.set_attn_implementation("sdpa")
            by_sdpa, other = worst_of(got, {name: passes(model, inputs) for name, inputs in variants.items()})
            if by_sdpa < close:
                worst, text, peer, tokens = by_sdpa, other, "sdpa, which differs from eager", texts_of(model, variants)
        except Exception:
            pass
    same = tokens.keys() == texts.keys() and all(torch.equal(texts[name], tokens[name]) for name in tokens)
    text = f"{type(model).__name__} as {peer}, {len(variants)} inputs, worst {text}" + (
        "" if not tokens else ", generates the same" if same else ", generates other tokens")
    return ("equal" if worst < close and same else "different"), text


def lines_of(folder, file, close):
    """(kind, text) of the classes of a file."""
    for classes in groups_of(folder, file):
        signal.alarm(SECONDS)
        try:
            yield measured(classes, close)
        except NotMeasured as error:
            yield "not measured", str(error)
        except TimeoutError:
            yield "not measured", f"more than {SECONDS} seconds"
        except Exception as error:
            yield "not measured", f"{type(error).__name__}: {error}"[:200]
        finally:
            signal.alarm(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="folders of transformers/models; default: all")
    parser.add_argument("--close", type=float, default=2e-4, help="greatest relative difference that rounding explains")
    parser.add_argument("-v", action="store_true", help="also print why an architecture is not measured")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)

    def out_of_time(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, out_of_time)
    torch.Tensor.topk = stable_topk
    counts, refusals = collections.Counter(), collections.Counter()
    for folder, file in folders():
        if arguments.folders and folder not in arguments.folders:
            continue
        lines = list(lines_of(folder, file, arguments.close))
        kinds = [kind for kind, _ in lines]
        if "equal" in kinds:  # parts without attention by name are no refusals of the whole
            lines = [(kind, text) for kind, text in lines if "did not call it" not in text]
            kinds = [kind for kind, _ in lines]
        kind = next((kind for kind in ("different", "refused", "equal") if kind in kinds), "not measured")
        counts[kind] += 1
        for text in {text.split("fovea: ", 1)[1] for own, text in lines if own == "refused"}:
            refusals[re.sub(r"\b[A-Z]\w+ (passes|accepted)", r"... \1", text).split("; ")[0]] += 1
        for own, text in lines:
            if own != "not measured" or kind == own and arguments.v:
                print(f"{folder:28} {own:12} {text}", flush=True)
    print()
    for kind, count in counts.most_common():
        print(f"{count:4} {kind}")
    for text, count in refusals.most_common():
        print(f"     refused {count} times: {text}")
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
