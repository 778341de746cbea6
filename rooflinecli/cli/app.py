"""The entry point: finds the command, loads only its module, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rooflinecli import __version__
from rooflinecli.errors import RooflineError

# Command -> its module in this package, in the order of the help.
COMMANDS = {
    "bytes": "bytes",
    "explain": "explain",
    "roofline": "roofline",
    "tiles": "tiles",
    "kv": "kv",
    "sweep": "sweep",
    "profiles": "profiles",
    "models": "models",
    "measure": "measure",
    "calibrate": "calibrate",
    "verify": "verify",
    "compare": "compare",
}


class _LazyGroup(TyperGroup):
    """A group that imports a command's module when the command is looked up, and not before."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            module = import_module(f"rooflinecli.cli.{COMMANDS[cmd_name]}")
            app = getattr(module, "group", None)
            if app is None:
                app = typer.Typer(add_completion=False)
                kind = getattr(module, "COMMAND_CLASS", None)
                app.command(cmd_name, cls=kind, context_settings=_CONTEXT)(module.command)
            found = typer.main.get_command(app)
            found.name = cmd_name
            self.commands[cmd_name] = found
        return self.commands[cmd_name]


_CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=_LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    context_settings=_CONTEXT,
    help="Bytes, FLOPs and rooflines of attention on GPUs, right at each memory level.",
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"rooflinecli {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours, as with NO_COLOR=1.")] = False,
) -> None:
    if no_color:
        os.environ["NO_COLOR"] = "1"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    # Nothing here has plugins for pydantic, and looking for some reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--no-color" in given:  # accepted before and after the command
        given = ["--no-color", *(argument for argument in given if argument != "--no-color")]
    sys.exit(_run(given))


def _run(arguments: list[str]) -> int:
    try:
        code = typer.main.get_command(app)(args=arguments, prog_name="rooflinecli", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except RooflineError as error:
        return _complain(error.message, error.hint, error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output left; the interpreter must not try to flush to them again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        # typer carries its own copy of click or uses the public one, by version; both errors look like this.
        if not hasattr(error, "format_message"):
            raise
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # the help is the answer; typer has printed it, click carries it
            print(error.format_message(), end="")
            return 2
        usage = getattr(error, "ctx", None)
        hint = f"{usage.command_path} --help" if usage is not None else None
        return _complain(error.format_message().replace("\n", " "), hint, getattr(error, "exit_code", 2))


def _complain(message: str, hint: str | None, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"\nhint: {hint}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
