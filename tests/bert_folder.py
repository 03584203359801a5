"""A small random BERT in the form of Hugging Face's folders, and what it computes, written anew with PyTorch's own layers:
a reference that shares no code with Fovea or with `transformers`."""
import json
import math
import pathlib
import struct


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    import torch
    bytes_ = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", bytes_[:8])[0]
    header, tensors = json.loads(bytes_[8:8 + size]), {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(bytes_[begin:end]), dtype=torch.float32).view(entry["shape"])
    return tensors


CONFIG = {"model_type": "bert", "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
          "intermediate_size": 40, "hidden_act": "gelu", "max_position_embeddings": 40, "type_vocab_size": 2,
          "layer_norm_eps": 1e-12}


def pieces(words, cased):
    """A vocab.txt that spells everything of ASCII, and the words whole."""
    alphabet = [chr(c) for c in range(33, 127) if cased or not chr(c).isupper()]
    every = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *alphabet, *("##" + c for c in alphabet if c.isalnum()),
             *(w for w in words if len(w) > 1 and (cased or w == w.lower()))]
    return list(dict.fromkeys(every))


def tensors_of(config, seed=1):
    import torch
    generator = torch.Generator().manual_seed(seed)

    def random(*shape, scale=0.3, shift=0.0):
        return torch.randn(*shape, generator=generator) * scale + shift
    width, inner = config["hidden_size"], config["intermediate_size"]
    tensors = {"embeddings.word_embeddings.weight": random(config["vocab_size"], width),
               "embeddings.position_embeddings.weight": random(config["max_position_embeddings"], width),
               "embeddings.token_type_embeddings.weight": random(config["type_vocab_size"], width),
               "embeddings.LayerNorm.weight": random(width, shift=1.0), "embeddings.LayerNorm.bias": random(width)}
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        shapes = {"attention.self.query": (width, width), "attention.self.key": (width, width),
                  "attention.self.value": (width, width), "attention.output.dense": (width, width),
                  "intermediate.dense": (inner, width), "output.dense": (width, inner)}
        for name, shape in shapes.items():
            tensors[layer + name + ".weight"] = random(*shape)
            tensors[layer + name + ".bias"] = random(shape[0])
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors[layer + name + ".weight"] = random(width, shift=1.0)
            tensors[layer + name + ".bias"] = random(width)
    return tensors


def write_bert(folder, words, cased=False, prefix="", more=None, **changes):
    """Returns (config, tensors) of the model that it writes."""
    folder.mkdir(parents=True)
    vocabulary = pieces(words, cased)
    (folder / "vocab.txt").write_text("".join(piece + "\n" for piece in vocabulary))
    config = {**CONFIG, "vocab_size": len(vocabulary), **changes}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = tensors_of(config)
    write_safetensors(folder / "model.safetensors",
                      {prefix + name: tensor for name, tensor in {**tensors, **(more or {})}.items()}, {"format": "pt"})
    return config, tensors


def tokenizer_json(vocabulary, cased=False, added=()):
    """The file that transformers 5 writes in place of vocab.txt; `added` are (number, text, changes)."""
    specials = [(vocabulary[name], name, {"special": True, "normalized": False}) for name in
                ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if name in vocabulary]
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    around = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": text, **token, **changes} for i, text, changes in [*specials, *added]],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": not cased},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": around, "pair": around, "special_tokens": {}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": vocabulary}}


def layers(config, tensors, ids):
    """The embeddings and each layer's output of one sequence, [tokens, width], in double."""
    import torch
    from torch.nn import functional
    w = {name: tensor.double() for name, tensor in tensors.items()}
    width, heads, eps = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]

    def norm(x, name):
        return functional.layer_norm(x, (width,), w[name + ".LayerNorm.weight"], w[name + ".LayerNorm.bias"], eps)

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]
    x = (w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:len(ids)]
         + w["embeddings.token_type_embeddings.weight"][0])
    outputs = [x := norm(x, "embeddings")]
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(x, layer + "attention.self." + name).view(len(ids), heads, -1).transpose(0, 1)
                   for name in ("query", "key", "value"))
        scores = q @ k.transpose(1, 2) / math.sqrt(width // heads)
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(ids), width)
        x = norm(x + linear(mixed, layer + "attention.output.dense"), layer + "attention.output")
        inner = linear(x, layer + "intermediate.dense")
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        outputs.append(x := norm(x + linear(inner, layer + "output.dense"), layer + "output"))
    return outputs
