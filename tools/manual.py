#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/manual.py OUT [--bin FOLDER]: man pages and completions of spillway and spillwayd.

Everything is read from what the programs say of themselves: `spillway --help`,
`spillway COMMAND --help`, `spillwayd --help` and `spillwayd --sample-config`.
An option that a program has, the pages and completions have. Writes

  OUT/man/man1/spillway.1, spillway-COMMAND.1, spillwayd.1
  OUT/man/man5/spillwayd.toml.5
  OUT/completions/bash/spillway, spillwayd; zsh/_spillway; fish/spillway.fish, spillwayd.fish
"""

import argparse
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# An option's row: "  -h,--help     words", "  --url TEXT   words". Words may begin a line later.
ROW = re.compile(r"^  (?P<names>(?:-\w,)?--[\w-]+|[A-Z]\w*)(?P<value>(?: [^ ]+)*?)(?:  +(?P<what>.*))?$")


@dataclass
class Option:
    """One row of a help page."""
    names: list[str]
    value: str
    what: str


@dataclass
class Command:
    """One help page. `extra` is the text after the options."""
    name: str
    about: str
    usage: str
    options: list[Option] = field(default_factory=list)
    positionals: list[Option] = field(default_factory=list)
    extra: str = ""


def said(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def parse(name, text):
    """Reads one help page."""
    about, _, rest = text.partition("Usage: ")
    usage, _, rest = rest.partition("\n")
    command = Command(name, about.strip(), usage.strip())
    where, lines = "", rest.split("\n")
    while lines:
        line = lines.pop(0)
        if line in ("Options:", "Positionals:"):
            where = line
        elif where and (match := ROW.match(line)):
            value = re.sub(r" Excludes:.*", "", match["value"]).replace("REQUIRED", "").strip()
            value = "" if value.startswith("Excludes") else re.sub(r"^TEXT\b", "ARG", value)
            if where == "Positionals:":
                value = ""
            option = Option(match["names"].split(","), value, (match["what"] or "").strip())
            (command.options if where == "Options:" else command.positionals).append(option)
        elif where and line.startswith("      ") and line.strip():
            rows = command.options if where == "Options:" else command.positionals
            rows[-1].what = f"{rows[-1].what} {line.strip()}".strip()
        elif where == "Options:" and line.strip():
            command.extra = "\n".join([line, *lines]).strip("\n")
            break
    return command


def commands(folder):
    """All help pages: spillway's commands, and the daemon's."""
    top = said(folder / "spillway", "--help")
    names = re.findall(r"^  ([a-z-]+)  +(.*)$", top, re.MULTILINE)
    found = {}
    for name, what in names:
        # These say where a program is, and have no options.
        if name in ("demo", "llama-slots") or name.startswith("-"):
            continue
        found[name] = parse(name, said(folder / "spillway", name, "--help")), what
    return found, parse("spillwayd", said(folder / "spillwayd", "--help"))


# --- man pages ---


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def page(title, section, name, about, usage, version, parts):
    lines = [f'.TH "{title.upper()}" "{section}" "" "Spillway {version}" "Spillway"',
             ".SH NAME", f"{roff(name)} \\- {roff(about)}", ".SH SYNOPSIS",
             f".nf\n{roff(usage)}\n.fi"]
    for heading, body in parts:
        if body:
            lines += [f".SH {heading}", body]
    return "\n".join(lines) + "\n"


def rows(options):
    lines = []
    for option in options:
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
        value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
        lines += [".TP", names + value, roff(option.what) or "\\&"]
    return "\n".join(lines)


def block(text):
    return f".nf\n{roff(text)}\n.fi" if text else ""


STATUS = ("0; 1 if a resource was not available or no daemon answers; 2 after wrong arguments or "
          "settings.")
SEE = "The pages under docs/ of the source, installed in /usr/share/doc/spillway."


def first_line(text):
    return text.split("\n")[0].rstrip(".")


def manual(found, daemon, version, sample):
    """Yields (path, text) of every man page."""
    table = "\n".join(f".TP\n\\fBspillway\\-{name}\\fR(1)\n{roff(what)}"
                      for name, (_, what) in found.items())
    yield "man1/spillway.1", page(
        "spillway", 1, "spillway", "lends idle GPU memory to agents' contexts and gives it back",
        "spillway COMMAND [OPTIONS]\nspillway help COMMAND\nspillway --version", version,
        [("COMMANDS", table), ("EXIT STATUS", roff(STATUS)), ("SEE ALSO", "\\fBspillwayd\\fR(1)")])
    for name, (command, what) in found.items():
        yield f"man1/spillway-{name}.1", page(
            f"spillway-{name}", 1, f"spillway-{name}", what, command.usage, version,
            [("DESCRIPTION", roff(command.about)), ("ARGUMENTS", rows(command.positionals)),
             ("OPTIONS", rows(command.options)), ("NOTES", block(command.extra)),
             ("SEE ALSO", "\\fBspillway\\fR(1), \\fBspillwayd\\fR(1)")])
    yield "man1/spillwayd.1", page(
        "spillwayd", 1, "spillwayd", daemon.about.partition(": ")[2], daemon.usage, version,
        [("OPTIONS", rows(daemon.options)),
         ("SIGNALS", roff("SIGTERM and SIGINT end it: with a disk tier, entries that only memory "
                          "has are written to disk first, for at most stop_flush. A second one "
                          "ends that at once. SIGHUP reads the configuration file again.")),
         ("EXIT STATUS", roff(STATUS)),
         ("SEE ALSO", "\\fBspillway\\fR(1), \\fBspillwayd.toml\\fR(5)\n.PP\n" + roff(SEE))])
    yield "man5/spillwayd.toml.5", page(
        "spillwayd.toml", 5, "spillwayd.toml", "settings of spillwayd", "/etc/spillway/spillwayd.toml",
        version, [("DESCRIPTION", roff("A TOML file. Every setting with its meaning and default:")),
                  ("SETTINGS", block(sample)), ("SEE ALSO", "\\fBspillwayd\\fR(1)")])


# --- completions ---

NOTE = "# Written by tools/manual.py from the programs' --help."
FILES = ("FILE", "FOLDER", "PATH", "FILE.svg")
FILE_OPTIONS = {"--config", "--dir", "--trace", "--socket", "--password-file", "--plot"}


def words(command):
    return [name for option in command.options for name in option.names]


def bash(found, daemon):
    cases = "\n".join(f"    {name}) words='{' '.join(words(command))}' ;;"
                      for name, (command, _) in found.items())
    files = "|".join(sorted(FILE_OPTIONS))
    yield "bash/spillway", f"""{NOTE}
_spillway() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words
  case $before in {files}) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;; esac
  if [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && $before == help) ]]; then
    words='{' '.join(found)} help --version --help'
  else
    case ${{COMP_WORDS[1]}} in
{cases}
    *) words= ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _spillway spillway
"""
    yield "bash/spillwayd", f"""{NOTE}
_spillwayd() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  case $before in {files}) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;; esac
  mapfile -t COMPREPLY < <(compgen -W '{' '.join(words(daemon))}' -- "$word")
}}
complete -F _spillwayd spillwayd
"""


def zsh_quoted(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_options(command, pad):
    for option in command.options:
        for name in option.names:
            value = ""
            if option.value:
                value = ":value:" + ("_files" if name in FILE_OPTIONS else "")
            yield f"{pad}'{name}[{zsh_quoted(option.what)}]{value}'"


def zsh(found, daemon):
    names = "\n".join(f"    '{name}:{zsh_quoted(what)}'" for name, (_, what) in found.items())
    cases = "\n".join(
        f"    {name})\n      _arguments \\\n" +
        " \\\n".join(zsh_options(command, "        ")) + " \\\n        '*:file:_files' ;;"
        for name, (command, _) in found.items())
    own = " \\\n".join(zsh_options(daemon, "    "))
    yield "zsh/_spillway", f"""#compdef spillway spillwayd
{NOTE}
local -a commands
if [[ $service == spillwayd ]]; then
  _arguments \\
{own}
  return
fi
if (( CURRENT == 2 || (CURRENT == 3 && $words[2] == help) )); then
  commands=(
{names}
  )
  _describe command commands
  return
fi
local command=$words[2]
shift words
(( CURRENT-- ))
case $command in
{cases}
esac
"""


def fish_quoted(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def fish_rows(command, condition):
    for option in command.options:
        row = f"complete -c {condition}"
        for name in option.names:
            row += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
        if option.value:
            row += " -r" + ("F" if set(option.names) & FILE_OPTIONS else "f")
        yield f"{row} -d '{fish_quoted(option.what)}'"


def fish(found, daemon):
    lines = [NOTE, "complete -c spillway -f"]
    for name, (_, what) in found.items():
        lines.append(f"complete -c spillway -n __fish_use_subcommand -a {name} -d '{fish_quoted(what)}'")
    for name, (command, _) in found.items():
        lines += fish_rows(command, f"spillway -n '__fish_seen_subcommand_from {name}'")
    yield "fish/spillway.fish", "\n".join(lines) + "\n"
    yield "fish/spillwayd.fish", "\n".join(
        [NOTE, "complete -c spillwayd -f", *fish_rows(daemon, "spillwayd")]) + "\n"


def write(out, folder):
    """Writes all of it under `out`; returns the paths."""
    found, daemon = commands(folder)
    version = said(folder / "spillway", "--version").split()[1]
    sample = said(folder / "spillwayd", "--sample-config")
    files = {f"man/{path}": text for path, text in manual(found, daemon, version, sample)}
    for made in (bash, zsh, fish):
        files |= {f"completions/{path}": text for path, text in made(found, daemon)}
    for path, text in files.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text)
    return [out / path for path in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    arguments = parser.parse_args()
    for path in write(arguments.out, arguments.bin):
        print(path)


if __name__ == "__main__":
    main()
