#!/usr/bin/env python3
"""Draws scenes for captioning: two coloured shapes in relation to each other, with five captions an image.

caption_scenes.py FOLDER [--train N] [--valid N] [--test N] [--seed N]

Writes train, valid, test and heldout: NAME.npy (images [N, 32, 32, 3] of uint8), NAME.tsv (image id, caption) and, for
`fovea evaluate`, NAME.ref.1 ... NAME.ref.5. Every scene of `heldout` shows a combination of colour and shape that no other
scene shows; each colour and each shape is in all of them."""
import argparse
import pathlib
import random

SIDE = 32
COLOURS = {"red": (210, 40, 40), "green": (40, 160, 60), "blue": (50, 70, 210), "yellow": (230, 210, 50), "purple": (140, 50, 160),
           "orange": (240, 140, 30)}
# Whether the point (x, y) lies in the shape around 0 of radius 1; y grows downwards.
SHAPES = {"circle": lambda x, y: x * x + y * y <= 1, "square": lambda x, y: max(abs(x), abs(y)) <= 0.85,
          "triangle": lambda x, y: -0.9 <= y <= 0.9 and abs(x) <= (y + 0.9) / 1.8,
          "cross": lambda x, y: min(abs(x), abs(y)) <= 0.3 and max(abs(x), abs(y)) <= 1}
RADIUS = {"small": 3.5, "large": 6.5}
RELATIONS = {(-1, 0): ("to the left of", "to the right of"), (1, 0): ("to the right of", "to the left of"),
             (0, -1): ("above", "below"), (0, 1): ("below", "above")}
HELD_OUT = {("red", "triangle"), ("blue", "circle"), ("green", "cross"), ("yellow", "square"), ("purple", "circle")}
SEEN = [(colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in HELD_OUT]


class Thing:
    def __init__(self, rng, look):
        self.colour, self.shape = look
        self.size = rng.choice(list(RADIUS))

    def name(self, rng):
        """Its size is told half of the time."""
        return " ".join([self.size] * rng.randrange(2) + [self.colour, self.shape])


def place(rng, radii, direction):
    """Centres of two things, the first in this direction from the second, apart and inside the image."""
    while True:
        centres = [[rng.uniform(radius + 1, SIDE - radius - 1) for _ in range(2)] for radius in radii]
        gap = [centres[0][axis] - centres[1][axis] for axis in range(2)]
        along = gap[0] * direction[0] + gap[1] * direction[1]
        across = abs(gap[0] * direction[1]) + abs(gap[1] * direction[0])
        if along > sum(radii) + 1 and across < 0.6 * along:
            return centres


def draw(rng, things, centres):
    """The values of an image: a noisy grey background, and the things in shades of their colours."""
    grey = rng.randrange(170, 245)
    shades = bytes(min(255, max(0, grey + value % 17 - 8)) for value in range(256))
    image = bytearray(rng.randbytes(SIDE * SIDE * 3).translate(shades))
    for thing, (x, y) in zip(things, centres):
        radius, inside = RADIUS[thing.size], SHAPES[thing.shape]
        colour = bytes(min(255, max(0, value + rng.randrange(-20, 21))) for value in COLOURS[thing.colour])
        for row in range(int(y - radius), int(y + radius) + 2):
            for column in range(int(x - radius), int(x + radius) + 2):
                if 0 <= row < SIDE and 0 <= column < SIDE and inside((column - x) / radius, (row - y) / radius):
                    begin = 3 * (row * SIDE + column)
                    image[begin:begin + 3] = colour
    return bytes(image)


def captions(rng, things, relation, inverse):
    first, second = ("a " + thing.name(rng) for thing in things)
    return [f"{first} {relation} {second}", f"{second} {inverse} {first}", f"there is {first} {relation} {second}",
            f"the picture shows {second} , which is {inverse} {first}", f"{first} and {second}"]


def scene(rng, held_out):
    looks = [rng.choice(sorted(HELD_OUT)) if held_out else rng.choice(SEEN), rng.choice(SEEN)]
    rng.shuffle(looks)
    if looks[0] == looks[1]:
        return scene(rng, held_out)
    things = [Thing(rng, look) for look in looks]
    direction = rng.choice(sorted(RELATIONS))
    centres = place(rng, [RADIUS[thing.size] for thing in things], direction)
    return draw(rng, things, centres), captions(rng, things, *RELATIONS[direction])


def write(folder, name, count, rng):
    scenes = [scene(rng, name == "heldout") for _ in range(count)]
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {SIDE}, {SIDE}, 3), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode()
                                         + b"".join(image for image, _ in scenes))
    lines = [f"{i}\t{caption}\n" for i, (_, texts) in enumerate(scenes) for caption in texts]
    (folder / f"{name}.tsv").write_text("".join(lines))
    for number in range(5):
        (folder / f"{name}.ref.{number + 1}").write_text("".join(texts[number] + "\n" for _, texts in scenes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=10000)
    parser.add_argument("--valid", type=int, default=500)
    parser.add_argument("--test", type=int, default=1000, help="scenes of test and of heldout")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": options.train, "valid": options.valid, "test": options.test, "heldout": options.test}
    for name, count in counts.items():
        write(options.folder, name, count, random.Random(f"{options.seed} {name}"))


if __name__ == "__main__":
    main()
