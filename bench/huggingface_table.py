"""Every architecture of transformers whose file looks its attention up by name, with small random weights: outputs,
gradients and generated tokens under fovea:full against eager, or the line that refuses it.

    PYTHONPATH=python python3 bench/huggingface_table.py                 # all; some minutes
    PYTHONPATH=python python3 bench/huggingface_table.py bart llama -v   # these folders of transformers/models

Prints one line per architecture, then the counts. Ends with 1 if a difference is larger than rounding explains.
"""
import argparse
import collections
import importlib
import inspect
import signal
import sys
import warnings
from pathlib import Path

import torch
import transformers

import fovea
from huggingface_inputs import inputs_of
from huggingface_small import small_config

# Classes that are tried in this order; the first that runs in eager is measured.
ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForSpeechSeq2Seq", "ForMaskedLM", "Model",
           "ForImageClassification", "ForCTC", "ForObjectDetection", "ForPreTraining", "")
SECONDS = 90  # an architecture may take


class NotMeasured(Exception):
    """The script cannot build the model, or cannot make its inputs."""


def folders():
    root = Path(transformers.__file__).parent / "models"
    for file in sorted(root.glob("*/modeling_*.py")):
        if "ALL_ATTENTION_FUNCTIONS" in file.read_text():
            yield file.parent.name, file.stem


def classes_of(folder, file):
    module = importlib.import_module(f"transformers.models.{folder}.{file}")
    found = [cls for cls in vars(module).values() if inspect.isclass(cls) and cls.__module__ == module.__name__
             and issubclass(cls, transformers.PreTrainedModel) and cls.config_class is not None
             and not cls.__name__.endswith("PreTrainedModel") and "forward" in vars(cls)]
    rank = {cls: next(i for i, end in enumerate(ENDINGS) if cls.__name__.endswith(end)) for cls in found}
    return sorted(found, key=rank.get)


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
    mask = inputs.get("decoder_attention_mask", None if "decoder_input_ids" in inputs else inputs.get("attention_mask"))
    kept = [x[mask.bool()] if mask is not None and x.dim() > 2 and x.shape[:2] == mask.shape else x for x in outputs]
    if mask is not None:
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


def built(folder, file):
    """The first class that runs in eager, its inputs by variant, and what they give."""
    reasons = []
    for cls in classes_of(folder, file):
        try:
            torch.manual_seed(1)
            model = cls._from_config(small_config(cls.config_class), attn_implementation="eager").eval().float()
            with torch.no_grad():  # or all tokens would get nearly the same outputs
                for parameter in model.parameters():
                    if parameter.numel() > 2e7:
                        raise NotMeasured(f"{cls.__name__} stays too large")
                    parameter.mul_(2 if parameter.dim() > 1 else 1)
            variants = inputs_of(model)
            return model, variants, {name: passes(model, inputs) for name, inputs in variants.items()}
        except TimeoutError:
            raise
        except Exception as error:
            reasons.append(f"{cls.__name__}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200])
    raise NotMeasured(" | ".join(reasons) or "no class")


def generated(model, inputs):
    torch.manual_seed(3)
    return model.generate(**inputs, max_new_tokens=6, do_sample=False)


def generates(model):
    return model.can_generate() and "ForCausalLM" in type(model).__name__ or model.config.is_encoder_decoder and model.can_generate()


def measured(folder, file, close):
    """(kind, text) of an architecture: equal, different, refused or not measured."""
    model, variants, expected = built(folder, file)
    tokens = {}
    for name, inputs in variants.items() if generates(model) else ():
        try:
            tokens[name] = generated(model, {key: x for key, x in inputs.items() if not key.startswith("decoder_")})
        except Exception:
            continue  # eager does not generate from these inputs
    try:
        fovea.sparsify(model, "full")
        got = {name: passes(model, inputs) for name, inputs in variants.items()}
        texts = {name: generated(model, {key: x for key, x in variants[name].items() if not key.startswith("decoder_")})
                 for name in tokens}
    except TimeoutError:
        raise
    except Exception as error:
        if str(error).startswith("fovea:") and "\n" not in str(error):
            return "refused", f"{type(model).__name__}: {error}"
        return "different", f"{type(model).__name__}: {type(error).__name__}: {str(error)[:200]}"
    worst, text = 0.0, ""
    for name, (outputs, grad) in expected.items():
        values = max(map(distance, got[name][0], outputs))
        slopes = distance(got[name][1], grad)
        if max(values, slopes) >= worst:
            worst, text = max(values, slopes), f"{name}: outputs {values:.1e}, gradients {slopes:.1e}"
    same = all(torch.equal(texts[name], tokens[name]) for name in tokens)
    text = f"{type(model).__name__}, {len(variants)} inputs, worst {text}" + (
        "" if not tokens else ", generates the same" if same else ", generates other tokens")
    return ("equal" if worst < close and same else "different"), text


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
    counts, refusals = collections.Counter(), collections.Counter()
    for folder, file in folders():
        if arguments.folders and folder not in arguments.folders:
            continue
        signal.alarm(SECONDS)
        try:
            kind, text = measured(folder, file, arguments.close)
        except NotMeasured as error:
            kind, text = "not measured", str(error) if arguments.v else ""
        except TimeoutError:
            kind, text = "not measured", f"more than {SECONDS} seconds"
        except Exception as error:
            kind, text = "not measured", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
        signal.alarm(0)
        counts[kind] += 1
        if kind == "refused":
            refusals[text.split(": ", 1)[1].split("; ")[0]] += 1
        print(f"{folder:32} {kind:13} {text}", flush=True)
    print()
    for kind, count in counts.most_common():
        print(f"{count:4} {kind}")
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
