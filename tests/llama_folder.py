"""Small random models of the kinds of Llama, Mistral, Qwen2, Qwen3 and Gemma in the form of Hugging Face's folders, with
tokenisers that the library `tokenizers` trains. Both libraries are the reference."""
import json
import os

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def tokenizer(kind, texts, size):
    """A byte-level BPE tokeniser like that of Llama 3, Qwen2 or GPT-2, or Gemma's of characters."""
    if kind == "gemma":
        return gemma_tokenizer(texts, size)
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    made = Tokenizer(models.BPE(ignore_merges=kind == "llama"))
    if kind == "qwen2":
        made.normalizer = normalizers.NFC()
    if kind == "gpt2":
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(LLAMA3 if kind == "llama" else QWEN2), "isolated")
        made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    ends = {"llama": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            "gpt2": ["<|endoftext|>"]}[kind]
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size - len(ends), show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.add_special_tokens([AddedToken(end, special=True, normalized=False) for end in ends])
    if kind == "llama":
        made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
            single="<|begin_of_text|> $A", special_tokens=[(ends[0], made.token_to_id(ends[0]))])])
    return made


def write_tokenizer(folder, kind, made):
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    if kind == "gemma":
        config = {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>",
                  "pad_token": "<pad>", "mask_token": "<mask>"}
    else:
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end_of_text|>" if kind == "llama" else "<|endoftext|>"}
    if kind == "llama":
        config["bos_token"] = "<|begin_of_text|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def scaled(kind, **values):
    """rope_parameters of positions that are scaled for longer texts than 64 tokens."""
    usual = {"llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
             "linear": {"factor": 4.0}, "yarn": {"factor": 4.0, "original_max_position_embeddings": 64}}[kind]
    return {"rope_type": kind, "rope_theta": 50000.0, **usual, **values}


def gemma_tokenizer(texts, size):
    """A BPE tokeniser of characters with byte fallback as Gemma has it: no blank before a text, and tokens of line ends."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "\u2581\u2581"]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    trained.train_from_iterator((text.strip("\n") for text in texts), trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*names, *(f"<0x{byte:02X}>" for byte in range(256))], show_progress=False))
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    made = Tokenizer(models.BPE(vocab=model["vocab"], merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names[:7]])
    made.add_tokens([AddedToken(name, normalized=False) for name in names[7:]])
    made.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return made


def fallback_tokenizer(texts, size, legacy=False, scheme="first"):
    """A BPE tokeniser of characters with byte fallback like that of Llama 2 and Mistral: in its old form, whose normaliser writes
    U+2581 for blanks, or in that of transformers 5."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=names, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    made = Tokenizer(models.BPE(vocab=model["vocab"], merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy:
        made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(content=" ", left=1)])
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names[:3]])
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in ("<|im_start|>", "<|im_end|>")])
    made.add_tokens([AddedToken("<tool>", normalized=True)])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def text_of_pieces(pieces):
    """The text of tokens of characters and bytes. The library writes U+FFFD for each byte of several such tokens that are no text
    together; we write what of them is text."""
    return b"".join(bytes([int(piece[3:5], 16)]) if len(piece) == 6 and piece.startswith("<0x") else
                    piece.replace("\u2581", " ").encode() for piece in pieces).decode(errors="replace")


def begin_of(kind, made):
    """The token that a model reads before a text."""
    return made.token_to_id({"llama": "<|begin_of_text|>", "gemma": "<bos>"}.get(kind, "<|endoftext|>"))


def ends_of(kind, made):
    """The tokens that end a text."""
    names = {"llama": ["<|end_of_text|>"], "gemma": ["<eos>", "<end_of_turn>"]}.get(kind, ["<|endoftext|>"])
    return [made.token_to_id(name) for name in names]


def random_model(kind, rows, **changes):
    """A model of transformers with random weights that are not small, and biases and gains that are not trivial."""
    import torch
    import transformers
    shape = {"vocab_size": rows, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "bos_token_id": None, "eos_token_id": None,
             "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0}}
    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma": "Gemma", "gemma2": "Gemma2", "gemma3_text": "Gemma3"}[kind]
    if kind == "mistral":
        shape["sliding_window"] = 7
    if kind.startswith("gemma"):
        shape = {**shape, "head_dim": 12, "bos_token_id": 2, "eos_token_id": [1, 6]}
    if kind == "gemma2":
        shape = {**shape, "sliding_window": 7, "query_pre_attn_scalar": 20}
    if kind == "gemma3_text":
        shape = {**shape, "sliding_window": 7, "query_pre_attn_scalar": 20, "num_hidden_layers": 7, "rope_parameters": {
            "full_attention": scaled("linear"), "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}}
    config = getattr(transformers, f"{name}TextConfig" if kind == "gemma3_text" else f"{name}Config")(**{**shape, **changes})
    torch.manual_seed(1)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    # Gemma's gains are 1 + w.
    centre = 0 if kind.startswith("gemma") else 1
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.normal_(std=0.25).add_(centre if "norm" in parameter_name else 0)
    return model


def log_probs(model, ids):
    """The log-probability of each token but the first."""
    import torch
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float()
    return logits[:-1].log_softmax(-1).gather(1, torch.tensor(ids[1:]).unsqueeze(1)).squeeze(1).tolist()


def telling_model(rows):
    """A Llama whose log-probability of a token tells its number: all embeddings and layers say the same, and token v has
    the logit 0.01 v."""
    import torch
    model = random_model("llama", rows, hidden_size=2, intermediate_size=2, num_hidden_layers=1, num_attention_heads=1,
                         num_key_value_heads=1, tie_word_embeddings=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1 if "norm" in name or "embed" in name else 0)
        model.lm_head.weight[:, 0] = torch.arange(rows) * 0.01
    return model


def told_tokens(log_probs_of_units, rows):
    """The tokens that telling_model()'s log-probabilities tell."""
    import math
    total = math.log(sum(math.exp(0.01 * v) for v in range(rows)))
    return [round((value + total) * 100) for value in log_probs_of_units]
