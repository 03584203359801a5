"""The figures of `fovea analyze` for a language model's first layer, from the definitions: in double precision and plain
Python, out of the files of a checkpoint."""
import json
import math
import struct

HEADS, WIDTH, SEGMENT, EOS = 2, 16, 24, 256  # of the language models of analyzed_models.py


def tensors(model):
    """name -> (shape, numbers) of model.safetensors."""
    path = model / "last" / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", entry
        found[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end]))
    return found


def transform(scores, attention):
    """Weights of one row's scores, in double precision."""
    if attention == "relu":
        return [max(s, 0.0) for s in scores]
    if attention == "sparsemax":
        order = sorted(scores, reverse=True)
        threshold, total = 0, 0
        for count, s in enumerate(order, 1):
            total += s
            if 1 + count * s > total:
                threshold = (total - 1) / count
        return [max(s - threshold, 0.0) for s in scores]
    kept = sorted(scores, reverse=True)[:4][-1] if attention == "topk(4)" else -math.inf
    most = max(scores)
    powers = [math.exp(s - most) if s >= kept else 0.0 for s in scores]
    return [p / sum(powers) for p in powers]


def first_layer(model, attention, text):
    """For each segment: its inputs' bytes, its outputs', and weights [query][head][key] of keys up to the query."""
    found = tensors(model)
    weight = lambda name: found[name][1]
    embedding, place = weight("embeddings.weight"), weight("positions.weight")
    projection, bias = weight("layers.0.self_attention.qkv.weight"), weight("layers.0.self_attention.qkv.bias")
    depth = WIDTH // HEADS
    segments = []
    for begin in range(0, len(text), SEGMENT):
        outputs = list(text[begin:begin + SEGMENT])
        inputs = [text[begin - 1] if begin else EOS] + outputs[:-1]
        rows = []
        for i, byte in enumerate(inputs):
            x = [math.sqrt(WIDTH) * embedding[byte * WIDTH + c] + place[i * WIDTH + c] for c in range(WIDTH)]
            rows.append([bias[r] + sum(projection[r * WIDTH + c] * x[c] for c in range(WIDTH)) for r in range(3 * WIDTH)])
        weights = []
        for i, q in enumerate(rows):
            heads = []
            for h in range(HEADS):
                own = range(h * depth, (h + 1) * depth)
                heads.append(transform([sum(q[c] * rows[j][WIDTH + c] for c in own) / math.sqrt(depth) for j in range(i + 1)],
                                       attention))
            weights.append(heads)
        segments.append((inputs, outputs, weights))
    return segments


def as_pieces(segments):
    return [(i, heads) for _, _, weights in segments for i, heads in enumerate(weights)]


def words_of(text):
    """The number of each byte's word: a word begins at white space behind none."""
    numbers, blank, number = [], True, 0
    for byte in text:
        is_blank = byte in b" \t\n\r\v\f"
        if not numbers or (is_blank and not blank):
            number += 1
        numbers.append(number)
        blank = is_blank
    return numbers


def as_words(segments, text):
    """Sums over the bytes of a key's word, means over those of a query's word; word 0 is the beginning of the text."""
    word, rows, begin = words_of(text), [], 0
    for inputs, outputs, weights in segments:
        of_query = word[begin:begin + len(outputs)]
        of_key = [word[begin - 1] if begin else 0] + of_query[:-1]
        begin += len(outputs)
        for number in sorted(set(of_query)):
            tokens = [t for t, w in enumerate(of_query) if w == number]
            keys = sorted(set(of_key[:tokens[-1] + 1]))
            merged = [[sum(w for t in tokens for w, k in zip(weights[t][h], of_key) if k == key) / len(tokens) for key in keys]
                      for h in range(HEADS)]
            rows.append((number - 1 - keys[0], merged))
    return rows


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


def figures(rows):
    """zeros, null_rate, entropy, kept and distance of one head's rows, [(position, weights)]."""
    pairs = sum(len(w) for _, w in rows)
    seen = [(i, [x / sum(w) for x in w]) for i, w in rows if sum(w) > 0]
    return {"zeros": sum(w.count(0) for _, w in rows) / pairs,
            "null_rate": 1 - len(seen) / len(rows),
            "kept": sum(len(w) - w.count(0) for _, w in rows) / len(rows),
            "entropy": sum(entropy(w) for _, w in seen) / len(seen),
            "distance": sum(x * abs(i - j) for i, w in seen for j, x in enumerate(w)) / len(seen),
            "rows": len(rows), "pairs": pairs, "rows_with_weight": len(seen)}


def diversity(rows, rectified, tau):
    total = 0
    for _, heads in rows:
        outcomes = []
        for w in heads:
            if sum(w) == 0:
                outcomes.append([0.0] * len(w) + [1.0])
            elif rectified:
                powers = [math.exp(x ** tau if x else 0) for x in w]
                outcomes.append([p / sum(powers) for p in powers] + [0.0])
            else:
                outcomes.append([x / sum(w) for x in w] + [0.0])
        mean = [sum(p) / len(outcomes) for p in zip(*outcomes)]
        total += entropy(mean) - sum(map(entropy, outcomes)) / len(outcomes)
    return total / len(rows)
