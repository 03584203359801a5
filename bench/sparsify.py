"""Measures the loss of a dense model when its layers choose their keys. A small byte-level Llama is trained on a
text. Then it is trained further twice, from the same weights and with the same batches: as it is, and sparsified.

    python3 bench/sparsify.py --text lm/english.train.txt.xz --valid lm/english.valid.txt.xz \
        --length 256 --spec "dsa(32)" --updates 100 --more 20
"""
import argparse
import copy
import lzma
import time

import torch
import transformers

import clone  # noqa: F401
import fovea


def tokens_of(path):
    opened = lzma.open(path) if path.endswith(".xz") else open(path, "rb")
    with opened as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()


def small_llama(length):
    config = transformers.LlamaConfig(vocab_size=256, hidden_size=128, intermediate_size=352, num_hidden_layers=4,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=length)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")


def batches(text, length, count, seed):
    random = torch.Generator().manual_seed(seed)
    while True:
        begins = torch.randint(len(text) - length, (count,), generator=random)
        yield torch.stack([text[b:b + length] for b in begins.tolist()])


def train(model, data, updates, rate):
    """Trains for so many updates, the rate falling to a tenth; returns the seconds."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    begin = time.perf_counter()
    model.train()
    for update, ids in zip(range(updates), data):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - 0.9 * update / updates) * min(1, (update + 1) / 20)
        model(ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return time.perf_counter() - begin


@torch.no_grad()
def validated(model, text, length, windows=32):
    """Nats a byte over windows at even distances."""
    model.eval()
    begins = torch.linspace(0, len(text) - length, windows).long().tolist()
    parts = [torch.stack([text[b:b + length] for b in begins[i:i + 4]]) for i in range(0, windows, 4)]
    return sum(float(model(ids, labels=ids).loss) for ids in parts) / len(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--valid", required=True)
    parser.add_argument("--spec", default="dsa(64)")
    parser.add_argument("--length", type=int, default=512, help="bytes of a sequence")
    parser.add_argument("--updates", type=int, default=300, help="of the dense model, at first")
    parser.add_argument("--more", type=int, default=60, help="of both models, then")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    text, valid = tokens_of(options.text), tokens_of(options.valid)
    dense = small_llama(options.length)

    def show(name, model, updates, seconds):
        loss = validated(model, valid, options.length)
        print(f"{name:20} {updates:5} updates {seconds:6.0f} s {loss:8.4f} nats", flush=True)

    seconds = train(dense, batches(text, options.length, 4, 1), options.updates, 3e-3)
    show("dense", dense, options.updates, seconds)
    sparse = fovea.sparsify(copy.deepcopy(dense), options.spec)
    show(options.spec, sparse, 0, 0)
    for name, model in (("dense", dense), (options.spec, sparse)):
        show(name, model, options.more, train(model, batches(text, options.length, 4, 2), options.more, 1e-3))


if __name__ == "__main__":
    main()
