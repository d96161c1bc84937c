"""The command line: finds the module of the command that is called and imports no other."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from ptxguard import __version__
from ptxguard.errors import PtxguardError

# command -> one line for `--help`; the module is ptxguard.commands.<name>, its click command is `command`.
COMMANDS = {
    "check": "Check CUDA, C++ and PTX source for copies that call the driver.",
    "sites": "List every bulk copy of the source, worth a finding or not.",
    "explain": "Explain a rule.",
    "baseline": "Write down the findings that a project already knows.",
    "scan": "Scan compiled code, wheels and environments for driver calls.",
    "diff": "Compare the kernels of two builds: driver calls, registers, stack, price.",
    "cost": "Price a stack size or a syscall on every GPU.",
    "probe": "Measure on this machine's card what a form costs.",
    "store": "Thin out, merge or write out a store of runs.",
    "serve": "Show a store as a site: findings, kernels, prices, evidence.",
    "export": "Write that site into a folder that needs no server.",
    "schema": "Print the JSON schema of the records of check.",
    "lsp": "Serve an editor: findings while typing, hover, repairs, jumps.",
    "doctor": "Print what is configured and which optional tools are there.",
    "repro": "Write a reproducer and an issue text for a finding.",
}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called (start-up is paid per run of a hook)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None where there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"ptxguard.commands.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table itself, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ptxguard")
def cli() -> None:
    """Finds, prices and proves the device memory that hand-written PTX costs, before it ships."""


def main() -> NoReturn:
    """Run the command line; every failure is one sentence on stderr and exit status 2."""
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("ptxguard: interrupted", err=True)
        sys.exit(2)
    except PtxguardError as error:
        click.echo(f"ptxguard: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(2)
    except Exception as error:  # an uncaught one would end with status 1, which means "findings"
        click.echo(f"ptxguard: internal error, please report it: {_where(error)}", err=True)
        sys.exit(2)


def _where(error: Exception) -> str:
    """The exception and the line of ours that raised it."""
    import traceback  # needed only when something is broken

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
