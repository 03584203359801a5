#!/usr/bin/env python3
"""Prints docs/options.md, the page of all commands and options, as the program itself tells them:

    FOVEA=build/release/bin/fovea python3 tests/options_page.py > docs/options.md
"""
import json
import re
import sys
import textwrap

from fovea_program import Workplace, checked, run

HEAD = """# Options

All commands of `fovea {version}` and their options. `fovea COMMAND --help-all` prints the same texts, and `fovea train --help` the usual ones. This page is made by `tests/options_page.py`; do not edit it.

```
$ ./fovea translate --beam-size 0
Error: --beam-size: got '0'; expected a whole number of at least 1 and at most 1,000
$ printf 'length: 4\\n' > draw.yml
$ ./fovea spec -c draw.yml 'window(2)' --causal
window(2)
#...
##..
.##.
..##
```

- **Values.** `N` is a whole number, `X` a number, `TEXT` a text, a name or a path. `...` means one or more values, separated by blanks. An option without a value is a switch; as a key in a file, it is `true` or `false`. `10K`, `2M` and `1G` are numbers, too.
- **Files.** Every option is also a key of a YAML file: `-c FILE` reads it, and `--dump-config` prints all options of a command in this form. Options on the command line override files, and later files override earlier ones.
- **Names.** `--max_tokens` means `--max-tokens`. Names that other systems use lead to ours: an unknown option of Marian, fairseq or OpenNMT is an error, which suggests an option of Fovea if there is a similar one.
- **Ranges.** 1e9 is 1,000,000,000. A value outside of its range is an error.
- **All commands** have `--help` (`-h`), `--help-all`, `--config FILE` (`-c`) and `--dump-config`. On a terminal, help is as wide as the terminal; the variable `COLUMNS` sets another width.
"""
EVERYWHERE = {"--help", "--help-all", "--config", "--dump-config"}
COLUMN = 34  # where the words of a help text begin
TABLE = "| option | value | default | range | meaning |\n|---|---|---|---|---|\n"
BEYOND = "8000000000000000000"  # above every limit, and still a number


class Option:
    def __init__(self, flags, value, words):
        self.flags, self.value, self.help = flags.split(","), value or "", words or ""

    @property
    def name(self):
        return next(flag for flag in reversed(self.flags) if flag.startswith("--"))


def read_help(text):
    """(summary, usage, [(name, help) of arguments], [(heading, options)], what follows the options) of a help text."""
    arguments, groups, option, rest = [], [], None, []
    head, body = text.split("\n\n", 1)
    summary, usage = head.split("\nUsage: ")
    for line in body.splitlines():
        found = re.fullmatch(r"  (-\S+)(?: ((?:N|X|TEXT|FILE)(?: \.\.\.)?))?(?: +(.*))?", line)
        if found and found.start(3) in (-1, COLUMN) and groups and not rest:
            option = Option(*found.groups())
            groups[-1][1].append(option)
        elif line.startswith(" " * COLUMN) and option:
            option.help = f"{option.help} {line.strip()}".strip()
        elif re.fullmatch(r"[A-Z][^.]*:", line) and not rest:
            groups.append((line[:-1], []))
            option = None
        elif line.startswith("  ") and groups and groups[-1][0] == "Arguments":
            arguments.append(re.split(r"  +", line.strip(), maxsplit=1))
        elif line or rest:
            if not rest and not groups[-1][1]:  # a heading of something else than options
                rest.append(f"{groups.pop()[0]}:")
            rest.append(line)
    return summary, usage, arguments, [(heading, options) for heading, options in groups if options], rest


def values_of(dump):
    """{name of an option: its value as the help writes it} of the output of --dump-config."""
    def text(value):
        return json.loads(value) if value.startswith('"') else value

    found = {}
    for line in dump.splitlines():
        name, value = line.split(": ", 1)
        parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^\s,\[\]]+', value) if value.startswith("[") else [value]
        found[f"--{name}"] = " ".join(map(text, parts))
    return found


def limits(command, name):
    """The range that the program names when a value is out of it: one call for the lower end, one for the other."""
    for value in (f"-{BEYOND}", BEYOND):
        error = run(*command, name, value).stderr.splitlines()[0]
        found = re.search(rf"^Error: {name}: got .*; expected a (?:whole )?number(?: of at least (\S+))?(?: (?:and|of) at most (\S+))?$",
                          error)
        if found and (found[1] or found[2]):
            least, most = (end and shortened(end) for end in found.groups())
            return f"{least} to {most}" if least and most else f"at least {least}" if least else f"at most {most}"
    return ""


def shortened(number):
    """1e15 for 1,000,000,000,000,000."""
    found = re.fullmatch(r"(\d{1,3})((?:,000){3,})", number)
    return f"{found[1]}e{len(found[2]) // 4 * 3}" if found else number


def cell(text):
    return re.sub(r"([|<]|&(?=\w+;))", r"\\\1", text)


def row(command, option, default):
    words = option.help
    if default and words.endswith(f" [{default}]"):
        words = words[:-len(default) - 3]
    choices = re.search(r" \{([^{}]+)\}$", words)
    if choices:
        words = words[:choices.start()]
    span = ", ".join(f"`{word}`" for word in choices[1].split("|")) if choices else ""
    if option.value[:1] in ("N", "X"):
        span = limits(command, option.name)
    shown = f"`{default}`" if default and option.value else ""
    flags = ", ".join(f"`{flag}`" for flag in sorted(option.flags, key=lambda flag: (flag != option.name, len(flag))))
    return f"| {flags} | {option.value} | {cell(shown)} | {span} | {cell(words)} |\n"


def table(command, options):
    defaults = values_of(checked(*command, "--dump-config").stdout)
    return TABLE + "".join(row(command, option, defaults[option.name]) for option in options)


def models():
    """{task: a model of it}, as far as commands have other options for it."""
    place = Workplace()
    folder, small = place.folder, ["--dim-emb", 8, "--transformer-heads", 2, "--transformer-dim-ffn", 8, "--after-batches", 1,
                                   "--cpu-threads", 1, "--quiet"]
    text, columns, images = place.sides["valid"][0], folder / "columns", folder / "images.bin"
    columns.write_text("a\tX\nb\tY\n\n")
    images.write_bytes(bytes(3073))
    data = {"language": ["--train-sets", text, "--vocabs", "bytes", "--dec-depth", 1],
            "image": ["--train-sets", images, "--crop", 2, 2, "--dec-depth", 1],
            "tagging": ["--train-sets", columns, "--vocabs", place.vocab, "--enc-depth", 1]}
    for task, options in data.items():
        checked("train", "--task", task, "--model", folder / task, *options, *small)
    return {task: folder / task for task in data}


def section(command, models):
    """The heading and the tables of one command."""
    summary, usage, arguments, groups, rest = read_help(checked(command, "--help-all").stdout)
    text = f"\n## {command}\n\n{summary}\n\n```text\n{usage}\n```\n"
    text += "".join(f"\n`{name}`: {cell(words)}\n" for name, words in arguments)
    for heading, options in groups:
        options = [option for option in options if option.name not in EVERYWHERE]
        if not options:
            continue
        variant = re.match(r"With (--task|a model of the task) (\w+), where it differs$", heading)
        call = [command]
        if variant:
            call += ["--task", variant[2]] if variant[1] == "--task" else ["--model", models[variant[2]]]
        if heading != "Options":
            name = heading if heading[1].isupper() else heading[0].lower() + heading[1:]
            text += f"\n### {command}: {name}\n"
        text += f"\n{table(call, options)}"
    shown = textwrap.dedent("\n".join(rest).rstrip())
    return text + (f"\n```text\n{shown}\n```\n" if shown else "")


def page():
    overview = checked("--help").stdout
    commands = re.findall(r"^  (\w+)  +(.*)$", overview, re.M)
    made = models()
    text = HEAD.format(version=re.match(r"fovea (\S+?):", overview)[1])
    text += "\n| command | purpose |\n|---|---|\n" + "".join(f"| [{name}](#{name}) | {words} |\n" for name, words in commands)
    text += "".join(section(name, made) for name, _ in commands)
    return text + "\nNext: [coming from Marian](from-marian.md); [mechanisms](attention.md).\n"


if __name__ == "__main__":
    sys.stdout.write(page())
