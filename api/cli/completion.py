"""``engramlog completion``: completions for the shell, from the command line's own parser."""

import argparse

from engramlog.api.cli.subcommands import Subcommands

EXAMPLES = """\
examples:
  source <(engramlog completion bash)                                   in ~/.bashrc
  source <(engramlog completion zsh)                                    in ~/.zshrc
  engramlog completion fish > ~/.config/fish/completions/engramlog.fish
"""
_BASH = """\
_engramlog() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" path="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in {paths}) path="$path $word";; esac
  done
  local words=""
  case "$path" in
{cases}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _engramlog engramlog
"""


def register(commands: Subcommands) -> None:
    parser = commands.add("completion", "print completions for a shell", run_completion, EXAMPLES)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")


def run_completion(args: argparse.Namespace) -> int:
    from engramlog.api.cli.main import build_parser

    words = words_of(build_parser())
    if args.shell == "fish":
        print(_fish(words), end="")
        return 0
    if args.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    paths = "|".join(f'" {path}"' for path in words if path)
    cases = "".join(
        f'    "{" " + path if path else ""}") words="{" ".join(following)}";;\n'
        for path, following in words.items()
    )
    print(_BASH.format(paths=paths, cases=cases), end="")
    return 0


def words_of(parser: argparse.ArgumentParser, path: str = "") -> dict[str, list[str]]:
    """The possible next words of each command: its commands and options."""
    below: dict[str, argparse.ArgumentParser] = {}
    options: list[str] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]  # argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            below.update(action.choices)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif action.help is not argparse.SUPPRESS:
            options += [each for each in action.option_strings if each.startswith("--")]
    found = {path: [*below, *options]}
    for name, each in below.items():
        found |= words_of(each, f"{path} {name}".strip())
    return found


def _fish(words: dict[str, list[str]]) -> str:
    lines: list[str] = []
    for path, following in words.items():
        last = path.rpartition(" ")[2]
        seen = f"__fish_seen_subcommand_from {last}" if path else "__fish_use_subcommand"
        for word in following:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            lines.append(f"complete -c engramlog -n '{seen}' {what}\n")
    return "".join(lines)
