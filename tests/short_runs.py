"""Short trainings that are saved and validated every four updates."""
import json

from fovea_program import Workplace, checked

PLACE = Workplace()
VALIDATION = ["--valid-sets", *PLACE.sides["valid"], "--valid-metrics", "perplexity", "ce-mean-words", "--valid-freq", 4]
COMMON = ["--disp-freq", 2, "--save-freq", 4, *VALIDATION]


def train(name, *options, updates=8):
    """Trains to that many updates in a run of that name; returns its folder and what was logged."""
    model = PLACE.folder / name
    return model, checked(*PLACE.training(model, "--after-batches", updates, *COMMON, *options)).stderr


def weights(model):
    return (model / "last" / "model.safetensors").read_bytes()


def records(model):
    return [json.loads(line) for line in (model / "log.jsonl").read_text().splitlines()]
