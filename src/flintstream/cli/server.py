"""The command ``flint server``."""

from __future__ import annotations

from typing import Any

import click

from flintstream.cli.jobs import clear_errors
from flintstream.cli.program_options import settings_option
from flintstream.common.configuration import load_configuration
from flintstream.common.flint_options import SERVER_DATA, SERVER_TOKEN_FILE

__all__ = ["server"]

_KEYS = {
    "host": "rest.bind-address",
    "port": "rest.bind-port",
    "data": SERVER_DATA.key,
    "token_file": SERVER_TOKEN_FILE.key,
    "certificate": "security.ssl.rest.cert-file",
    "certificate_key": "security.ssl.rest.key-file",
}


@click.command(short_help="Runs the job server: REST and a web page.")
@click.option("--host", metavar="ADDRESS", help="The address to listen on; 127.0.0.1 by default.")
@click.option("--port", metavar="PORT", help="The port to listen on, or a range; 8081 by default, 0 for a free one.")
@click.option("--data", metavar="DIR", help="Where everything is stored; one server at a time owns it.")
@click.option("--token-file", metavar="FILE", help="The token that requests must carry; created if it does not exist.")
@click.option("--cert", "certificate", metavar="FILE", help="A certificate, PEM; the server then speaks HTTPS only.")
@click.option("--key", "certificate_key", metavar="FILE", help="The key of the certificate, PEM.")
@settings_option
def server(settings: dict[str, str], **options: str | None) -> None:
    """Runs the job server: programs are handed to it by `flint run -d`, Flink's REST API, or its web page.

    It ends on Ctrl-C or SIGTERM; jobs run on, and are taken over when it is started again with the same DIR.
    """
    from flintstream.server.main import ServerError, serve
    from flintstream.server.store import StoreError

    configuration: dict[str, Any] = {**load_settings(), **settings}
    configuration.update({_KEYS[name]: text for name, text in options.items() if text is not None})
    with clear_errors():
        from flintstream.common.listening import is_loopback
        from flintstream.server.settings import ServerSettings

        chosen = ServerSettings.of(configuration)
        if chosen.certificate is None and not is_loopback(chosen.host):
            click.echo("Without a certificate (--cert, --key), the token crosses the network in clear text.", err=True)
        try:
            left = serve(chosen, lambda url: click.echo(f"Flintstream job server at {url}, data in {chosen.data}"))
        except (ServerError, StoreError) as error:
            raise click.ClickException(str(error)) from error
    if left:
        click.echo(f"The server has ended; {left} {'job runs' if left == 1 else 'jobs run'} on.", err=True)


def load_settings() -> dict[str, Any]:
    """Returns the settings of the configuration file."""
    with clear_errors():
        return load_configuration().to_dict()
