"""A Kafka broker of the tests' own, with a listener for each security protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintstream.testing.kafka import PLAINTEXT, KafkaBroker

from .certificates import write_certificates

LISTENERS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "flint", "it's a secret"
"""Whom the listeners with SASL know."""
_MODULES = "org.apache.kafka.common.security"


class KafkaServer(KafkaBroker):
    """A broker whose certificate is for localhost and 127.0.0.1."""

    listeners = LISTENERS

    @property
    def authority(self) -> Path:
        """The certificate that signs the broker's, as PEM."""
        return self._directory / "ca.pem"

    def _create(self) -> None:
        write_certificates(self.authority, self._directory / "broker.pem")
        super()._create()

    def _format_options(self) -> list[str]:
        return ["--add-scram", f'SCRAM-SHA-256=[name={USER},password="{PASSWORD}"]']

    def _settings(self) -> dict[str, Any]:
        plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        sasl = {}
        for name in (SASL_PLAINTEXT, SASL_SSL):
            prefix = f"listener.name.{name.lower()}"
            sasl[f"{prefix}.plain.sasl.jaas.config"] = plain
            sasl[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{_MODULES}.scram.ScramLoginModule required;"
        return {
            **super()._settings(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._directory / "broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "listener.name.ssl.ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            **sasl,
        }
