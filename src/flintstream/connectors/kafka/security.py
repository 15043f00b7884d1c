"""Security settings of a client: from librdkafka's properties to aiokafka's arguments."""

from __future__ import annotations

import os
import ssl
import tempfile
from typing import Any

from flintstream.connectors.kafka.properties import Settings

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NOT_BOTH = ("ssl.keystore.location", "ssl.engine.location", "ssl.providers", "ssl.ca.certificate.stores")


def check_security(settings: Settings, what: str) -> None:
    """Refuses settings that only one of the two clients of an exactly-once sink supports."""
    if _uses_sasl(settings) and _mechanism(settings) not in _MECHANISMS:
        raise ValueError(
            f"{what}: exactly once works with the SASL mechanisms {', '.join(_MECHANISMS)}, not with {_mechanism(settings)}"
        )
    for name in _NOT_BOTH:
        if _uses_tls(settings) and name in settings:
            raise ValueError(
                f"{what}: exactly once does not work with {name}: give certificates and keys as PEM, by ssl.ca.location, "
                "ssl.certificate.location and ssl.key.location"
            )


def client_arguments(settings: Settings) -> dict[str, Any]:
    """Returns the arguments of an `AIOKafkaClient`."""
    arguments: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in settings["bootstrap.servers"].split(",")],
        "security_protocol": _protocol(settings),
    }
    if _uses_tls(settings):
        arguments["ssl_context"] = _ssl_context(settings)
    if _uses_sasl(settings):
        arguments |= {
            "sasl_mechanism": _mechanism(settings),
            "sasl_plain_username": settings.get("sasl.username"),
            "sasl_plain_password": settings.get("sasl.password"),
        }
    return arguments


def _protocol(settings: Settings) -> str:
    return str(settings.get("security.protocol", "PLAINTEXT")).upper()


def _uses_tls(settings: Settings) -> bool:
    return _protocol(settings).endswith("SSL")


def _uses_sasl(settings: Settings) -> bool:
    return _protocol(settings).startswith("SASL")


def _mechanism(settings: Settings) -> str:
    return str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "GSSAPI"))).upper()


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    place = settings.get("ssl.ca.location")
    directory = place if place is not None and os.path.isdir(place) else None
    context = ssl.create_default_context(
        cafile=place if directory is None else None, capath=directory, cadata=settings.get("ssl.ca.pem")
    )
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _load_certificate(context, settings)
    return context


def _load_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """The client's own certificate; Python reads one from files only."""
    password = settings.get("ssl.key.password")
    if "ssl.certificate.pem" in settings:
        with tempfile.NamedTemporaryFile("w", prefix="flint-", suffix=".pem") as file:
            file.write(f"{settings['ssl.certificate.pem']}\n{settings.get('ssl.key.pem', '')}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)
    elif "ssl.certificate.location" in settings:
        context.load_cert_chain(settings["ssl.certificate.location"], settings.get("ssl.key.location"), password)
