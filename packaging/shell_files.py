"""The manual page and the completions of bash, zsh and fish, out of the program's own help texts."""
import re
import subprocess


class Option:
    def __init__(self, flags, value, words):
        self.flags, self.value, self.words = flags.split(","), value, words


class Command:
    """One command: its summary, and its options of all tasks."""

    def __init__(self, program, name, summary):
        self.name, self.summary = name, summary
        self.options, known = [], set()
        for line in shown(program, name, "--help-all").splitlines():
            found = re.match(r"  (-\S+)(?: ((?:N|X|TEXT|FILE)(?: \.\.\.)?))?(?: {2,}(.*)| (.*)|)$", line)
            if found:
                option = Option(found[1], found[2] or "", found[3] or found[4] or "")
                if option.flags[-1] not in known:
                    self.options.append(option)
                known.update(option.flags)
            elif line.startswith(" " * 34) and self.options:
                self.options[-1].words = f"{self.options[-1].words} {line.strip()}".strip()


def shown(program, *arguments):
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout


def commands_of(program):
    overview = shown(program, "--help")
    return [Command(program, *found) for found in re.findall(r"^  (\w+)  +(.*)$", overview, re.MULTILINE)]


def bash(commands):
    cases = "".join(f'    {command.name}) words="{" ".join(flag for option in command.options for flag in option.flags)}" ;;\n'
                    for command in commands)
    return f"""# Completion of fovea's commands and options for bash.
_fovea() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words
  case $COMP_CWORD:${{COMP_WORDS[1]}} in 1:*) COMPREPLY=($(compgen -W "{' '.join(command.name for command in commands)} help version" -- "$word")); return ;; esac
  case ${{COMP_WORDS[1]}} in
{cases}    help) words="{' '.join(command.name for command in commands)}" ;;
  esac
  case $word in -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;; *) COMPREPLY=($(compgen -f -- "$word")) ;; esac
  [ "${{COMP_WORDS[1]}}" != help ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o filenames -F _fovea fovea
"""


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


def zsh(commands):
    def described(words):
        return re.sub(r"([:\[\]])", r"\\\1", words)

    names = " ".join(quoted(f"{command.name}:{described(command.summary)}") for command in commands)
    cases = ""
    for command in commands:
        entries = " ".join(quoted(f"{flag}[{described(option.words)}]{':value:_files' if option.value else ''}")
                           for option in command.options for flag in option.flags)
        cases += f"    {command.name}) _arguments {entries} '*:file:_files' ;;\n"
    return f"""#compdef fovea
# Completion of fovea's commands and options for zsh.
_fovea() {{
  local -a names=({names})
  if (( CURRENT == 2 )); then _describe command names; return; fi
  shift words; (( CURRENT-- ))
  case $words[1] in
{cases}    help) _describe command names ;;
  esac
}}
_fovea "$@"
"""


def fish(commands):
    names = " ".join(command.name for command in commands)
    lines = ["# Completion of fovea's commands and options for fish."]
    for command in commands:
        lines.append(f"complete -c fovea -n 'not __fish_seen_subcommand_from {names}' -f -a {command.name} "
                     f"-d {quoted(command.summary)}")
        for option in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            lines.append(f"complete -c fovea -n '__fish_seen_subcommand_from {command.name}' {flags}"
                         f"{' -r' if option.value else ''} -d {quoted(option.words)}")
    return "\n".join(lines) + "\n"


def roff(text):
    """Text as roff shows it: no line of it is a request, and hyphens stay hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def manual(commands, version):
    lines = [f'.TH FOVEA 1 "" "fovea {version}" "User Commands"', ".ad l", ".SH NAME",
             "fovea \\- trains, runs and explains sparse\\-attention Transformers", ".SH SYNOPSIS",
             ".B fovea", ".I COMMAND", "[\\fIOPTIONS\\fR]", ".SH COMMANDS"]
    for command in commands:
        lines += [".TP", f".B {command.name}", roff(command.summary)]
    for command in commands:
        lines.append(f".SH OPTIONS OF {command.name.upper()}")
        for option in command.options:
            flags = ", ".join(f"\\fB{roff(flag)}\\fR" for flag in option.flags)
            lines += [".TP", f"{flags} \\fI{roff(option.value)}\\fR".rstrip(), roff(option.words)]
    lines += [".SH EXIT STATUS", "0 on success, 1 after an error, 2 after a mistake on the command line, 128 and the signal's",
              "number after a signal.", ".SH SEE ALSO", "The pages in /usr/share/doc/fovea."]
    return "\n".join(lines) + "\n"


def write_shell_files(program, share, version):
    """Writes them where shells and man look for them under `share`."""
    commands = commands_of(program)
    for place, text in {"bash-completion/completions/fovea": bash(commands), "zsh/site-functions/_fovea": zsh(commands),
                        "fish/vendor_completions.d/fovea.fish": fish(commands),
                        "man/man1/fovea.1": manual(commands, version)}.items():
        (share / place).parent.mkdir(parents=True, exist_ok=True)
        (share / place).write_text(text)
