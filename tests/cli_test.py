#!/usr/bin/env python3
"""fovea as its users meet it: what bad input gets, what goes where."""
import os
import resource
import shutil
import subprocess
import unittest

from fovea_program import PROGRAM, Refusals, Workplace, checked, without_privilege

PLACE = Workplace()


class BadInput(Refusals):
    """One line that says what is wrong; exit 1, or 2 for the command line itself; never a trace or an abort."""

    def test_command_line(self):
        self.refused("trian", says="unknown command 'trian'; did you mean 'train'?", code=2)
        self.refused("translate", "--beam-sise", "3", says="unknown option '--beam-sise'; did you mean '--beam-size'?", code=2)
        for command, flag, hint in (("translate", "--beam", "--beam-size"), ("train", "--tied", "--tied-embeddings"),
                                    ("train", "--warmup", "--lr-warmup"), ("train", "--optim", "--optimizer"),
                                    ("train", "--epochs", "--after-epochs"), ("translate", "--norm", "--normalize"),
                                    ("translate", "--batch_size", "--mini-batch"), ("train", "--max-update", "--after-batches"),
                                    ("train", "--workspace", "--mini-batch-words"), ("train", "--after", "--after-batches"),
                                    ("train", "--dropout", "--transformer-dropout"), ("train", "--bf16", "--precision"),
                                    ("train", "--encoder-attention-heads", "--transformer-heads")):
            self.refused(command, flag, 3, says=f"; did you mean '{hint}'?", code=2)
        self.refused("translate", "-m", "m", "--", "x", says="unexpected argument 'x'; see ", code=2)
        files = [PLACE.folder / "a file", PLACE.folder / "another"]
        for file in files:
            file.write_text("")
        for command, option in (("translate", "--input"), ("evaluate", "--input"), ("score", "--train-sets"), ("train", "--train-sets")):
            self.refused(command, *files, code=2,
                         says=f"unexpected argument '{files[0]}'; to read it, {option} '{files[0]}' {files[1]}; see {PROGRAM} {command} --help")
        # A server says where it listens only once its models are there.
        wrong = self.refused("serve", "--model", PLACE.folder / "no-such-run", "--port", 0, says="no such folder")
        self.assertEqual((wrong.stdout, "listening" in wrong.stderr), ("", False))
        self.assertEqual(checked("spec", "--length", 2, "--", "full").stdout, "full\n##\n##\n")
        for command in (["train", "--model"], ["translate", "--log"], ["average", "--output"], ["vocab", "--output"]):
            self.refused(*command, "-", says=f"{command[1]}: got '-', but this option cannot use standard input or output", code=2)
        self.refused("translate", "--beam-size", "none", says=["--beam-size: got 'none'", "a whole number of at least 1"], code=2)
        self.refused("train", "--transformer-norm", "pst", says="expected one of post, pre, sandwich; did you mean 'post'?", code=2)
        self.refused("vocab", "--dim-vocabs", 10**8, says="a whole number of at least 0 and at most 10,000,000", code=2)
        self.refused("train", "--train-sets", "a", "b", "--model", says="--model: got no value; expected one", code=2)
        self.refused("train", "--model", "--train-sets", "a", "b", says="--model: got no value, but --train-sets", code=2)
        for value in ("maybe", "1.5"):
            self.refused("train", f"--quiet={value}", says=f"--quiet: got '{value}'; expected true or false", code=2)
        self.refused("evaluate", says="--reference: got none", code=2)
        self.refused("vocab", says="--train-sets: got none", code=2)
        self.refused("translate", says="--model", code=2)
        self.refused("train", "--model", PLACE.folder / "x", says=["--train-sets", "--vocabs"], code=2)

    def test_the_last_of_a_repeated_option_counts(self):
        twice = ["-m", "a", "--learn-rate", 1, "--lr", 2, "--quiet", "--quiet=false", "--model", "b", "--task", "image", "--task=translation"]
        dumped = checked("train", *twice, "--dump-config").stdout
        for line in ('model: "b"', "learn-rate: 2", "quiet: false", 'task: "translation"'):
            self.assertIn(f"{line}\n", dumped)
        # A file of --config counts less, wherever it stands; a list takes all values.
        config = PLACE.folder / "repeated.yml"
        config.write_text("model: file\ntrain-sets: [f]\n")
        dumped = checked("train", "--model", "a", "-c", config, "--train-sets", "x", "--train-sets", "y", "--dump-config").stdout
        self.assertIn('model: "a"\n', dumped)
        self.assertIn('train-sets: ["x", "y"]\n', dumped)
        self.refused("train", "--model", "--quiet", "--model", "b", says="--model: got no value, but --quiet", code=2)
        self.refused("train", "--mini-batch-words", 1, 2, says="unexpected argument '2'", code=2)

    def test_spec(self):
        result = self.refused("spec", "window(3)+tokp(8)", says="did you mean 'topk'?", code=2)
        self.assertIn("\n  window(3)+tokp(8)\n            ^", result.stderr)
        self.refused("spec", "topk(0)", says="at least 1", code=2)
        self.refused("spec", "mix(clause(1))", says="mix begins with full", code=2)
        for routed in ("routed(2,4)", "routed(2,4)+topk(2)", "routed(2,4,random)"):
            selected = "Of a query's candidates, the 2 with the greatest scores are selected\n" if "topk" in routed else ""
            self.assertEqual(checked("spec", routed, "--length", 8).stdout,
                             f"{routed}\nThe candidates of routed depend on the data: those of a query share a cluster with it\n{selected}")
        checked("spec", "routed(2,4,causal)", "--length", 8, "--causal")
        self.assertIn("routed(clusters,window[,causal|random])", checked("spec", "--help").stdout)
        self.refused("spec", says="expected one SPEC", code=2)
        self.refused("spec", "full", "topk(8)", says="SPEC: got 2 values; expected one", code=2)
        self.assertNotIn("SPEC ...", checked("spec", "--help").stdout)
        self.refused(*PLACE.training(PLACE.folder / "x", "--attention", "windw(3)"), says="did you mean 'window'?", code=2)
        self.refused(*PLACE.training(PLACE.folder / "x", "--attention-cross", "window(3)"), says="cross", code=2)

    def test_kernels(self):
        listed = checked("kernels").stdout.splitlines()
        self.assertEqual(listed[-2], "reference       any problem on any device, in blocks of scores")
        lowered = checked("kernels", env=os.environ | {"FOVEA_CPU": "portable"}).stdout
        self.assertEqual(lowered.splitlines()[-1], "instruction set: portable")
        walked = checked("kernels", "--explain", "window(8)", "--kind", "causal", "--dtype", "float64").stdout
        self.assertEqual(walked.splitlines()[-1], "-> reference")
        self.refused("kernels", "--kind", "slef", says="expected one of self, causal, cross; did you mean 'self'?", code=2)
        for arguments in (["kernels"], ["kernels", "--explain", "full"]):
            self.refused(*arguments, env=os.environ | {"FOVEA_CPU": "foo"}, says="FOVEA_CPU=foo is not a level; known: ")
        self.refused("kernels", "--explain", "full", env=os.environ | {"FOVEA_KERNEL": "foo"}, says="unknown kernel 'foo'")

    def test_analyze(self):
        self.refused("analyze", says="--model is missing", code=2)
        self.refused("analyze", "--model", "m", "--source", "a", says="no such")
        self.refused("analyze", "--model", PLACE.model(), says="--source is missing", code=2)
        self.refused("analyze", "--model", PLACE.model(), "--source", "a", "--vocabs", "v", says="--vocabs has 1 file", code=2)
        analyze = ["analyze", "--model", PLACE.model(), "--source"]
        self.refused(*analyze, " ", says="--source is missing", code=2)
        self.refused(*analyze, "un", "--layer", 99, says=["--layer: got 99", "the model's decoder has"])
        self.refused(*analyze, "un", "--head", 99, says=["--head: got 99", "the model has"])
        drawn = checked(*analyze, "un stelli .", "--target", "eno").stdout
        self.assertTrue(drawn.startswith("eno\n"), drawn)
        self.assertIn("exactly zero: 0.0% of the weights shown", drawn)
        checked(*analyze[:-1], "--source=-- un")
        self.refused(*analyze, "un " * 2000, says=["--source: has ", " tokens; at most 1000 can be drawn, give a shorter one"])
        # An error while the log cannot be written: both are told, and neither aborts.
        both = self.refused(*analyze, "un", "--log", "/dev/full", "--layer", 99, says="--layer: got 99")
        self.assertIn("cannot write the log file '/dev/full'", both.stderr)

    def test_configuration_is_printed(self):
        config = PLACE.folder / "printed.yml"
        config.write_text(checked("translate", "--dump-config", "--beam-size", 3, "--model", "run").stdout)
        self.assertIn("beam-size: 3\n", config.read_text())
        self.assertEqual(checked("translate", "-c", config, "--dump-config").stdout, config.read_text())
        self.assertIn("--config FILE  ", checked("spec", "--help").stdout)
        self.refused("translate", "--model", os.fsdecode(b"run-\xff"), "--dump-config",
                     says=["--dump-config: the value of --model", "is not UTF-8"])
        self.assertRegex(checked("--version").stdout, r"^fovea \d+\.\d+\.\d+ \(libtorch .*CUDA")
        self.assertEqual(checked("version").stdout, checked("--version").stdout)
        self.assertEqual(checked("help", "spec").stdout, checked("spec", "--help").stdout)
        self.refused("help", "specs", says="unknown command 'specs'; did you mean 'spec'?", code=2)

    def test_configuration_file(self):
        config = PLACE.folder / "bad.yml"
        config.write_text("dim-enb: 3\n")
        self.refused("train", "-c", config, says="unknown key 'dim-enb'; did you mean 'dim-emb'?")
        config.write_text("a: [1\n")
        self.refused("train", "-c", config, says="not YAML at line")
        self.refused("train", "-c", PLACE.folder / "none.yml", says="no such file")
        config.write_text("length: 3\nlength: 2\n")
        self.refused("spec", "full", "-c", config, says=["bad.yml:2: 'length' comes twice"])
        config.write_text("length: 3\n\ncausal: ~\n")
        self.refused("spec", "full", "-c", config, says="bad.yml:3: causal: got null; expected one value")

    def test_ways_of_giving_a_configuration_file(self):
        config = PLACE.folder / "good.yml"
        config.write_text("length: 4\n")
        for arguments in (["-c", config, "full"], ["full", f"-c{config}"], ["full", f"--config={config}"]):
            self.assertEqual(checked("spec", *arguments).stdout, "full\n" + 4 * "####\n")
        config.write_text("length: 2\ncausal: True\n")
        self.assertEqual(checked("spec", "full", "-c", config).stdout, "full\n#.\n##\n")
        config.write_text("lr: 0.25\nmini_batch_words: 77\n")  # a flag's other names are keys too
        dumped = checked("train", "-c", config, "--dump-config").stdout
        self.assertIn("learn-rate: 0.25\n", dumped)
        self.assertIn("mini-batch-words: 77\n", dumped)

    def test_text_files(self):
        folder = PLACE.folder
        short, empty = folder / "short", folder / "empty"
        short.write_text("a\n")
        empty.write_text("")
        source, target = PLACE.sides["train"]
        vocabs = ["--vocabs", PLACE.vocab, PLACE.vocab]
        train = ["train", "--model", folder / "y", *vocabs, "--after-batches", 1, "--train-sets"]
        self.refused(*train, folder / "none", target, says=["none'", "no such file"])
        self.refused(*train, folder, target, says="is a folder")
        self.refused(*train, source, short, says=["short' ends after 1 line, '", "train.src' has more"])
        self.refused(*train, empty, empty, says=[str(empty), "both are empty"])
        broken = folder / "broken"
        broken.write_bytes(b"good\n\xff\xfe\n")
        self.refused(*train, broken, broken, says="broken', line 2: is not UTF-8")
        self.refused("vocab", "--train-sets", broken, "--output", folder / "b.spm", says="line 2: is not UTF-8")
        self.refused("vocab", "--train-sets", source, "--output", folder / "none" / "b.spm", says="No such file or directory")
        self.refused("vocab", "--train-sets", source, "--output", folder, says="is a folder")
        self.refused("evaluate", "--reference", broken, says="line 2: is not UTF-8", stdin="a\nb\n")
        self.refused("score", "--model", PLACE.model(), "--train-sets", broken, broken, says="line 2: is not UTF-8")
        self.refused(*train, source, says="--train-sets", code=2)
        self.refused("score", "--model", PLACE.model(), "--train-sets", "-", "-", says="one of the two sides only", code=2)
        self.assertFalse((folder / "y" / "checkpoints").exists() and any((folder / "y" / "checkpoints").iterdir()))
        short.chmod(0)
        self.refused(*train, short, target, says=["cannot read", "Permission denied"], before=without_privilege())

    def test_vocabularies(self):
        folder = PLACE.folder
        broken = folder / "broken.spm"
        broken.write_bytes(b"\x08\x96\x01nonsense" * 10)
        train = ["train", "--model", folder / "z", "--train-sets", *PLACE.sides["train"], "--after-batches", 1]
        self.refused(*train, "--vocabs", broken, broken, says="broken.spm")
        self.refused(*train, "--vocabs", folder / "none.spm", PLACE.vocab, says="no such file")
        other = folder / "other.spm"
        if not other.exists():
            checked("vocab", "--train-sets", PLACE.sides["train"][0], "--dim-vocabs", 200, "--output", other)
        self.refused("translate", "--model", PLACE.model(), "--vocabs", other, other, says=["200", "300"])

    def test_nothing_read_is_overwritten(self):
        folder = PLACE.folder / "own"
        folder.mkdir()
        sides = [folder / "train.en", folder / "train.de"]
        for copy, side in zip(sides, PLACE.sides["test"]):
            shutil.copy(side, copy)
        texts = [side.read_text() for side in sides]
        link = folder / "link"
        link.symlink_to(sides[1])
        self.refused("score", "--model", PLACE.model(), "--train-sets", *sides, "--output", link, says="would be changed")
        self.refused("translate", "--model", PLACE.model(), "--input", sides[1], "--output", link, says="would be changed")
        self.refused("vocab", "--train-sets", *sides, "--dim-vocabs", 100, "--output", sides[0], says="would be changed")
        self.refused("corpus", *sides, "--output", folder, "--valid", 1, "--test", 1, says="would be changed")
        training = ["train", "--train-sets", *sides, "--vocabs", PLACE.vocab, PLACE.vocab]
        for command in (training, ["translate", "--input", sides[1]], ["score", "--train-sets", *sides]):
            self.refused(*command, "--model", PLACE.model(), "--log", link, says=["--log: '", "would be changed"])
        late = [side.rename(folder / ("test" + side.suffix)) for side in sides]
        self.refused("corpus", *late, "--output", folder, "--valid", 1, "--test", 1, says="would be changed")
        self.assertFalse(sides[0].exists(), "written before the check")
        for side, moved in zip(sides, late):
            moved.rename(side)
        self.assertEqual([side.read_text() for side in sides], texts)
        checkpoints = PLACE.model() / "checkpoints"
        newest = sorted(checkpoints.iterdir())[-1]
        for output in (newest, f"{newest}/", PLACE.model() / "best", PLACE.model() / "last"):
            self.refused("average", "--model", PLACE.model(), "--last", 1, "--output", output, says="run's own checkpoints")
        self.refused("average", "--model", PLACE.folder / "none", "--last", 1, "--output", folder / "a",
                     says=["none'", "does not exist"])

    def test_no_configuration_vocabulary_or_checkpoint_is_overwritten(self):
        config, vocab = PLACE.folder / "own.yml", PLACE.folder / "own.spm"
        config.write_text("cpu-threads: 1\n")
        shutil.copy(PLACE.vocab, vocab)
        weights = PLACE.model() / "last" / "model.safetensors"
        kept = (config, vocab, weights, (PLACE.model() / "last" / "config.yml").resolve())
        before = [path.read_bytes() for path in kept]
        sides, vocabs = PLACE.sides["test"], ["--vocabs", vocab, vocab]
        for command in (["score", "--train-sets", *sides], ["translate", "--input", sides[0]]):
            for flag in ("--output", "--log"):
                for path in kept:
                    self.refused(*command, "--model", PLACE.model(), *vocabs, "-c", config, flag, path,
                                 says=[f"{flag}: '{path}'", "would be changed"])
        for path in kept:
            self.refused("train", "--model", PLACE.folder / "x", "--train-sets", *sides, *vocabs, "-c", config,
                         "--log", path, says=[f"--log: '{path}'", "would be changed"])
        self.refused("vocab", "--train-sets", *sides, "-c", config, "--output", config, says="would be changed")
        self.assertEqual([path.read_bytes() for path in kept], before)
        beside = PLACE.model() / "last" / "test.out"  # a file that is none of a checkpoint's
        checked("translate", "--model", PLACE.model(), "--input", sides[0], "--beam-size", 1, "--output", beside)
        checked("translate", "--model", PLACE.model(), "--input", sides[0], "--beam-size", 1, "--output", beside)
        beside.unlink()

    def test_a_pattern_for_every_attention(self):
        spec, cross = "window(256)+topk(8)", "topk(8)"
        model, named = PLACE.folder / "pattern", PLACE.folder / "pattern-named"
        said = checked(*PLACE.training(model, "--attention", spec, "--after-batches", 2)).stderr
        self.assertEqual(said.count(f"cross-attention uses '{cross}' for --attention '{spec}'"), 1, said)
        said = checked(*PLACE.training(named, "--attention-encoder", spec, "--attention-decoder", spec, "--attention-cross", cross,
                                       "--after-batches", 2)).stderr
        self.assertNotIn("cross-attention uses", said)
        weights = [(run / "last" / "model.safetensors").read_bytes() for run in (model, named)]
        self.assertEqual(*weights)
        for kept in (model / "train.yml", model / "last" / "config.yml"):
            self.assertIn(f'\nattention: "{spec}"\n', kept.read_text())
            self.assertIn('\nattention-cross: ""\n', kept.read_text())
        checked("train", "-c", model / "train.yml", "--after-batches", 3)
        pairs = ("--train-sets", *PLACE.sides["test"], "--cpu-threads", 1)
        swept = checked("analyze", "--model", model, *pairs, "--sweep", "1*window(3);1*topk(2)").stdout
        scored = checked("score", "--model", model, *pairs, "--summary", "--attention", "1*window(3);1*topk(2)").stdout
        self.assertIn(f"{float(scored.split('ce-mean-words ')[1].split()[0]):.6f}", swept)
        self.refused(*PLACE.training(PLACE.folder / "x", "--attention", spec, "--attention-cross", spec),
                     says=["--attention-cross", "'window' compares the positions"], code=2)

    def test_numbers_and_options_that_contradict(self):
        translate = ["translate", "--model", PLACE.model()]
        self.refused(*translate, "--normalize", "nan", says=["got 'nan'", "a number"], code=2)
        self.refused(*translate, "--attention-cross", "window(3)", says=["--attention-cross", "compares the positions"], code=2)
        for attention, cross in (("window(3)+topk(2)", "topk(2)"), ("window(3)", "full")):
            said = checked(*translate, "--attention", attention, stdin="a\n")
            self.assertIn(f"cross-attention uses '{cross}' for --attention '{attention}'", said.stderr)
            alone = ("--attention-encoder", attention, "--attention-decoder", attention, "--attention-cross", cross)
            same = checked(*translate, *alone, stdin="a\n")
            self.assertEqual(said.stdout, same.stdout)
            self.assertNotIn("cross-attention uses", same.stderr)
        checked(*translate, "--attention-decoder", "window(3)", stdin="a\n")
        self.refused(*translate, "--precision", "int8", "--devices", 0, says=["int8 runs on the CPU", "--devices is 0"], code=2)
        self.refused("score", "--model", PLACE.model(), "--precision", "int4", says=["--precision", "'int4'", "bfloat16"], code=2)
        wrong = self.refused(*PLACE.training(PLACE.folder / "x", "--attention", "7*full;2*topk(2)"), says="is for 9 heads", code=2)
        self.assertEqual(wrong.stderr.count("is for 9 heads"), 1, wrong.stderr)
        self.refused(*PLACE.training(PLACE.folder / "x", "--dim-vocabs", 77, 77), says=["got 77", "has 300 pieces"])
        self.refused(*PLACE.training(PLACE.folder / "x", "--pretrained-model", PLACE.folder / "none"),
                     says="--pretrained-model: no such folder")
        self.refused(*PLACE.training(PLACE.folder / "x", "--pretrained-model", PLACE.model(),
                                     "--transformer-positions", "learned"),
                     says=["is missing; that model has --transformer-positions 'rotary', not 'learned'"])

    def test_checkpoints(self):
        self.refused("translate", "--model", PLACE.folder / "none", says="none")
        self.refused("translate", "--model", PLACE.sides["test"][0], says="test.src")
        good = (PLACE.model() / "last").resolve()
        for name, damage in {"truncated": lambda b: b[: len(b) // 2], "empty": lambda b: b"",
                             "flipped": lambda b: b[:-5] + bytes([b[-5] ^ 1]) + b[-4:]}.items():
            copy = PLACE.folder / ("damaged-" + name)
            shutil.copytree(good, copy)
            weights = copy / "model.safetensors"
            weights.write_bytes(damage(weights.read_bytes()))
            self.refused("translate", "--model", copy, says="model.safetensors")

    def test_a_checkpoint_is_no_run(self):
        averaged = PLACE.folder / "averaged"
        checked("average", "--model", PLACE.model(), "--last", 1, "--output", averaged)
        files = sorted(averaged.iterdir())
        self.refused(*PLACE.training(averaged, "--after-batches", 1),
                     says=[f"--model: '{averaged}' is a checkpoint", "expected a new folder", "use --pretrained-model"])
        self.assertEqual(sorted(averaged.iterdir()), files)

    def test_a_copied_run_goes_on(self):
        copy = PLACE.folder / "copied"
        shutil.copytree(PLACE.model(), copy)  # a folder for each link
        self.assertFalse((copy / "last").is_symlink())
        resumed = checked(*PLACE.training(copy, "--after-batches", 21))
        self.assertIn("resuming after update 20", resumed.stderr)
        self.assertFalse((copy / "last.1").exists(), "the folder was a copy of a checkpoint of the run")
        self.assertEqual(os.readlink(copy / "last"), "checkpoints/update-00000021")

    def test_other_validation_text_is_noticed(self):
        run = PLACE.folder / "validated"
        training = PLACE.training(run, "--valid-freq", 2, "--valid-metrics", "ce-mean-words")
        checked(*training, "--after-batches", 4, "--valid-sets", *PLACE.sides["valid"])
        warning = "the validation data, or the options of validation, differ from those of the run so far"
        same = checked(*training, "--after-batches", 6, "--valid-sets", *PLACE.sides["valid"])
        self.assertNotIn(warning, same.stderr)
        other = checked(*training, "--after-batches", 8, "--valid-sets", *PLACE.sides["test"])
        self.assertIn(warning, other.stderr)
        bleu = [*training, "--valid-sets", *PLACE.sides["test"], "--valid-metrics", "bleu"]
        self.assertNotIn(warning, checked(*bleu, "--after-batches", 9, "--valid-mini-batch-words", 100).stderr)
        for batches, options in ((10, ["--valid-tokenize", "char"]), (11, ["--valid-beam-size", 2]), (12, []), (13, ["--documents"])):
            self.assertIn(warning, checked(*bleu, "--after-batches", batches, *options).stderr, options)

    def test_folders_that_cannot_be_read(self):
        closed = PLACE.folder / "read-only"
        (closed / "run").mkdir(parents=True)
        closed.chmod(0)
        loop = PLACE.folder / "loop"
        loop.symlink_to(loop)
        for path, why in ((closed / "run", "Permission denied"), (loop, "Too many levels of symbolic links"),
                          (PLACE.folder / ("a" * 300), "File name too long")):
            for option, command in (("--model", ["translate", "--model", path]),
                                    ("--model", ["average", "--model", path, "--output", PLACE.folder / "mean"]),
                                    ("--model", PLACE.training(path)),
                                    ("--output", ["average", "--model", PLACE.model(), "--last", 1, "--output", path]),
                                    ("--pretrained-model", PLACE.training("x", "--pretrained-model", path))):
                self.refused(*command, says=[f"{option}: cannot read '", str(path), why], before=without_privilege())
        closed.chmod(0o700)

    def test_quiet_and_log(self):
        """In commands that only write files, --quiet says nothing, and --log has the lines of standard error."""
        folder = PLACE.folder / "quiet"
        folder.mkdir()
        for name, last, arguments in (
                ("corpus", "train  ", ["--generate", 100, "--valid", 5, "--test", 5, "--output", folder / "corpus"]),
                ("vocab", "wrote ", ["--train-sets", *PLACE.sides["train"], "--dim-vocabs", 200, "--output", folder / "v.spm"]),
                ("average", "wrote ", ["--model", PLACE.model(), "--last", 1, "--output", folder / "averaged"])):
            with self.subTest(command=name):
                self.assertEqual(checked(name, *arguments, "--quiet").stderr, "")
                log = folder / f"{name}.log"
                said = checked(name, *arguments, "--log", log).stderr
                self.assertIn(last, said)
                self.assertEqual(log.read_text(), said)
        self.refused("vocab", "--train-sets", *PLACE.sides["train"], "--output", folder / "v.spm", "--log", folder / "v.spm",
                     says="is --output too")

    def test_full_disk(self):
        source = PLACE.sides["test"][0]
        translate = ["translate", "--model", PLACE.model(), "--beam-size", 1, "--cpu-threads", 1, "--input", source]
        self.refused(*translate, "--output", "/dev/full", says="No space left")
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, *map(str, translate)], stdout=full, stderr=subprocess.PIPE, timeout=600)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(b"No space left", result.stderr)
            result = subprocess.run([PROGRAM, "spec", "full"], stdout=full, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(result.returncode, 1, "output was lost in silence")
        self.refused(*translate, "--log", "/dev/full", says=["cannot write the log file '/dev/full'", "No space left"])

    def test_protected_outputs(self):
        output = PLACE.folder / "protected"
        output.write_text("kept")
        output.chmod(0o444)
        says = ["cannot write '", "protected'", "Permission denied"]
        source = PLACE.sides["test"][0]
        self.refused("translate", "--model", PLACE.model(), "--input", source, "--output", output, says=says, before=without_privilege())
        self.refused("vocab", "--train-sets", source, "--dim-vocabs", 100, "--output", output, says=says, before=without_privilege())
        self.assertEqual(output.read_text(), "kept")
        closed = PLACE.folder / "closed-to-corpus"
        closed.mkdir(mode=0o555)
        tmx = PLACE.folder / "late.tmx"
        tmx.write_text("<tmx><body><tu>")  # would be an error too, but later
        self.refused("corpus", tmx, "--output", closed, says=["--output: cannot write into the folder", "Permission denied"],
                     before=without_privilege())

    def test_a_folder_that_is_gone(self):
        gone = PLACE.folder / "gone"
        gone.mkdir()
        result = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && "$2" spec full', "sh", gone, PROGRAM],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("Error: the current folder has been deleted; change to another\n", result.stderr)
        self.assertNotIn("MKL", result.stderr)

    def test_memory_that_is_not_there(self):
        wide = [{"16": "65536"}.get(value, value) for value in map(str, PLACE.training(PLACE.folder / "wide"))]
        self.refused(*wide, "--after-batches", 1, says="out of memory; use a smaller model",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3_000_000 << 10,) * 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
