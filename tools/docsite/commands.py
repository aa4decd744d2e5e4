"""A page for each command of `cnna`, from its argparse parser: what `--help` says, with an anchor for every option."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from cnna.cli.main import COMMANDS, parser_for

EXIT_CODES = """\
Exit codes: 0, the command is done, and with `--check` everything was equal; 1, there was a difference, the accelerator stopped, a
limit cannot be met, or `doctor` misses what is needed; 2, the input was bad, and one line says what to do; 130 and 143, it was
interrupted.
"""


def write(folder: Path) -> None:
    """Writes commands/index.md without its navigation, and commands/NAME.md."""
    (folder / "commands").mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        (folder / "commands" / f"{name}.md").write_text(page(name))
    rows = "".join(f"| [`cnna {name}`]({name}.md) | {line} |\n" for name, line in COMMANDS.items())
    text = f"# Commands\n\n| command | what it does |\n|---|---|\n{rows}\n{EXIT_CODES}"
    (folder / "commands" / "index.md").write_text(text)


def page(name: str) -> str:
    """The page of a command, its parts included."""
    return "\n".join([f"# cnna {name}", "", *_described(command(name), 2)])


def command(name: str) -> argparse.ArgumentParser:
    """The parser of a command, with all its options."""
    return dict(parts_of(parser_for([name])))[name]


def parts_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers that one chooses by a word, by that word."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _lines(parser: argparse.ArgumentParser) -> dict[str, str]:
    """What the parser says of each of its parts."""
    chosen = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {choice.dest: choice.help or "" for action in chosen for choice in action._choices_actions}


def _described(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Description, usage, arguments and options of a parser, then its parts."""
    if parser.description:
        yield from (_escaped(parser.description), "")
    yield from ("```text", parser.format_usage().strip(), "```", "")
    actions = [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)]
    if actions:
        yield from ("| argument | what |", "|---|---|")
        yield from (f"| {_called(action)} | {_meaning(action, parser)} |" for action in actions)
        yield ""
    lines = _lines(parser)
    for word, part in parts_of(parser):
        yield from ("#" * level + f" {part.prog}", "", _escaped(lines[word][:1].upper() + lines[word][1:] + "."), "")
        yield from _described(part, level + 1)
    if parser.epilog:
        yield from (_escaped(parser.epilog), "")


def _called(action: argparse.Action) -> str:
    """The names of an argument with its value, as one types them."""
    value = action.metavar if isinstance(action.metavar, str) else (action.dest if not action.option_strings else "")
    if not value and action.choices and action.option_strings:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    names = [f"`{name} {value}`".replace(" `", "`") for name in action.option_strings] or [f"`{value}`"]
    return ", ".join(names).replace("|", "\\|") + (" (required)" if action.required and action.option_strings else "")


def _meaning(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """The help of an argument, and what one may choose."""
    said = action.help % {**vars(action), "prog": parser.prog} if action.help else ""
    if action.choices and isinstance(action.metavar, str):
        said = f"{said} ({', '.join(map(str, action.choices))})".strip()
    return _escaped(said).replace("|", "\\|") or "-"


def _escaped(text: str) -> str:
    """The text, with what Markdown would take for marks as it is."""
    return "".join("\\" + letter if letter in "*_<>[]`" else letter for letter in " ".join(text.split()))
