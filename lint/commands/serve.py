"""`ptxguard serve`: shows a store of runs as a site, for this machine or a team."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from ptxguard.commands.siteoptions import existing_store, load_site
from ptxguard.errors import ConfigError, ToolError

TOKEN_VARIABLE = "PTXGUARD_TOKEN"  # noqa: S105 - the name of a variable, not a token
_SHORTEST_TOKEN = 16
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option("--store", required=True, metavar="FILE|URL", help="The runs: a file, or postgresql://….")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free one."
)
@click.option("--base-url", default="", metavar="URL", help="How the site is reached from outside.")
@click.option("--gpu", metavar="NAME", help='Card on which prices are shown first; default: "RTX 5090".')
@click.option("--title", default="ptxguard", show_default=True, help="Title of the site.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"Token of those who may upload and review; or {TOKEN_VARIABLE}. Without one the site is read-only.",
)
@click.option("--max-upload-mib", type=click.IntRange(1, 4096), default=64, show_default=True)
@click.option("--uploads-per-minute", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--threads", type=click.IntRange(1, 64), default=8, show_default=True)
def command(
    store: str,
    host: str,
    port: int,
    base_url: str,
    gpu: str | None,
    title: str,
    token_file: Path | None,
    max_upload_mib: int,
    uploads_per_minute: int,
    threads: int,
) -> None:
    """Serve the findings site, on this machine only unless --host says otherwise.

    Reads nothing but the store. Uploads (POST /api/runs) and reviews exist only where a token is set.
    """
    load_site()
    import waitress

    from ptxguard.web.app import create_app
    from ptxguard.web.settings import DEFAULT_GPU, MIB, Settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = Settings(
        existing_store(store),
        token=_token(token_file),
        base_url=base_url.rstrip("/"),
        gpu=gpu or DEFAULT_GPU,
        title=title,
        max_upload_bytes=max_upload_mib * MIB,
        uploads_per_minute=uploads_per_minute,
        hosts=() if host in _LOOPBACK or base_url else None,
    )
    app = create_app(settings)
    try:
        server = waitress.create_server(
            app,
            host=host,
            port=port,
            threads=threads,
            ident=None,
            max_request_body_size=settings.max_upload_bytes + MIB,
            clear_untrusted_proxy_headers=True,
        )
    except OSError as error:
        raise ToolError(f"cannot listen on {host}:{port}: {error.strerror}; try --port 0") from error
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"http://{shown}:{server.effective_port}/ ({'uploads on' if settings.token else 'read-only'})")
    server.run()


def _token(path: Path | None) -> str | None:
    """The token of a file or of the environment.

    Raises:
        ConfigError: the file cannot be read, or the token is too short to keep anybody out.
    """
    if path is None:
        token = os.environ.get(TOKEN_VARIABLE, "")
    else:
        try:
            token = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("the token cannot be read from it", path=str(path)) from error
    token = token.strip()
    if not token and path is None:
        return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(f"the token needs {_SHORTEST_TOKEN} or more printable ASCII characters")
    return token
