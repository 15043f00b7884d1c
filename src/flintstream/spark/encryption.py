"""Encryption between the machines of a job: one setting for the connections of Flintstream and of Spark."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from flintstream.common.flint_options import NETWORK_ENCRYPTION
from flintstream.runtime.slot.handshake import Credentials

_LIFE = datetime.timedelta(days=3650)
_CLOCKS_DIFFER = datetime.timedelta(days=30)

# Spark's settings: for shuffles, broadcasts and task data, on the network and on disk.
_SPARK_SETTINGS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
_RPC_TLS = "spark.ssl.rpc.enabled"
"""Spark's alternative encryption of connections; either is sufficient."""


class EncryptionError(RuntimeError):
    """Connections cannot be encrypted as configured; the message names the settings."""


def is_encrypted(config: Mapping[str, str]) -> bool:
    """Returns whether connections between machines are to be encrypted."""
    return NETWORK_ENCRYPTION.of(config) or False


def encrypting_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a new Spark session whose connections between machines are all encrypted.

    Refuses contradicting user settings.
    """
    settings = dict(_SPARK_SETTINGS)
    if _is_true(given.get(_RPC_TLS)):
        del settings["spark.network.crypto.enabled"]
    for key in settings:
        if given.get(key) is not None and not _is_true(given[key]):
            raise EncryptionError(
                f"{NETWORK_ENCRYPTION.key} is true, but {key} is {given[key]!r}: remove {key}, or set it to true"
            )
    return settings


def check_encrypted(setting: Callable[[str], str | None]) -> None:
    """Refuses a Spark session that was started without encryption, which cannot be enabled later."""
    wanted = [key for key in _SPARK_SETTINGS if not _is_true(setting(key))]
    if _is_true(setting(_RPC_TLS)):
        wanted = [key for key in wanted if key != "spark.network.crypto.enabled"]
    if wanted:
        raise EncryptionError(
            f"{NETWORK_ENCRYPTION.key} is true, but the Spark session was started without {', '.join(wanted)}: start "
            "it "
            f"with {' '.join(f'{key}=true' for key in wanted)}, or let Flintstream start it"
        )


def require_package() -> None:
    """Raises if the package that creates certificates is missing."""
    if find_spec("cryptography") is None:
        raise EncryptionError(
            f"{NETWORK_ENCRYPTION.key} needs the package cryptography on the driver: pip install "
            "'flintstream[encryption]'"
        )


def new_credentials(encrypted: bool = False) -> Credentials:
    """Returns a new key, and a new certificate if connections are to be encrypted."""
    authkey = secrets.token_bytes(32)
    return Credentials(authkey, *_certificate()) if encrypted else Credentials(authkey)


def _certificate() -> tuple[str, str]:
    """Returns a certificate that only the two sides of this job trust, and its private key, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"flint-{secrets.token_hex(8)}")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem).decode(), private.decode()


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() == "true"
