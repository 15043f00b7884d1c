"""Client properties, from the names of Kafka's Java client, which users know, to those of librdkafka.

Most names are the same. Those that librdkafka does not have under their Java names are translated, ignored, or refused with
the reason; names of librdkafka's own pass as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flintstream.connectors.kafka.errors import reason_of

Settings = dict[str, Any]
"""Properties by librdkafka's names."""

_WITHOUT_EFFECT = frozenset(
    {
        *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
        *("metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms"),
        *("auto.include.jmx.reporter", "metadata.max.idle.ms", "socket.connection.setup.timeout.max.ms"),
        *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
        *(
            "ssl.protocol",
            "ssl.provider",
            "ssl.enabled.protocols",
            "ssl.keymanager.algorithm",
            "ssl.trustmanager.algorithm",
        ),
        *("ssl.secure.random.implementation", "security.providers", "ssl.truststore.password"),
    }
)
"""Tuning of the Java client, without an effect on records."""

_BROKERS = ("bootstrap.servers", "metadata.broker.list")
_FILES = re.compile(r"ssl\..*\.(location|pem|password)")

_REFUSED = {
    "partitioner.class": "it names a Java class: use set_partitioner of KafkaRecordSerializationSchema.builder()",
    "partitioner.ignore.keys": "write records without a key instead",
    "interceptor.classes": "it names Java classes: change the records before the sink",
    "sasl.client.callback.handler.class": "it names a Java class",
    "sasl.login.callback.handler.class": "it names a Java class: use librdkafka's sasl.oauthbearer.* properties",
    "sasl.login.class": "it names a Java class",
    "ssl.engine.factory.class": "it names a Java class",
    "config.providers": "it names Java classes: give the values themselves",
}


def client_settings(properties: Mapping[str, Any], what: str) -> Settings:
    """Returns the translated properties of a client; `what` names the connector in errors."""
    settings: Settings = {}
    for name, value in properties.items():
        if not isinstance(name, str) or value is None:
            raise TypeError(f"{what}: a property is a string with a value, got {name!r}: {value!r}")
        if name in _REFUSED:
            raise ValueError(f"{what}: property {name!r} is not supported: {_REFUSED[name]}")
        if name in _WITHOUT_EFFECT or name in _STORES:
            continue
        translate = _TRANSLATED.get(name)
        try:
            settings |= {name: _plain(value)} if translate is None else translate(str(value))
        except ValueError as error:
            raise ValueError(f"{what}: property {name!r}: {error}") from None
    settings |= _key_stores(properties, what)
    _check_servers(settings, what)
    return settings


def check_settings(settings: Settings, kind: type, what: str) -> None:
    """Refuses what librdkafka does not know or cannot combine. It connects to nobody, and reads no files: those of the
    slots need not be on this machine."""
    alone = {name: value for name, value in settings.items() if name not in _BROKERS and not _FILES.fullmatch(name)}
    try:
        kind({**alone, "log_level": 0})
    except Exception as error:
        raise ValueError(f"{what}: {reason_of(error).partition(': ')[2]}") from None


def millis(properties: Mapping[str, Any], name: str, default: int, what: str) -> int:
    """Returns a property in milliseconds."""
    value = properties.get(name, default)
    try:
        found = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what}: property {name!r} must be a number of milliseconds, got {value!r}") from None
    if found < 0:
        raise ValueError(f"{what}: property {name!r} must not be negative, got {value!r}")
    return found


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _check_servers(settings: Settings, what: str) -> None:
    servers = settings.get("bootstrap.servers")
    if not isinstance(servers, str) or not servers.strip():
        raise ValueError(f"{what}: bootstrap.servers is not set: name the brokers, as host:port,host:port")
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{what}: bootstrap.servers: expected host:port, got {server.strip()!r}")


# --- translations ---


def _renamed(name: str) -> Callable[[str], Settings]:
    return lambda value: {name: value}


def _kilobytes(value: str) -> Settings:
    return {"queue.buffering.max.kbytes": max(1, int(value) // 1024)}


def _buffer_size(name: str) -> Callable[[str], Settings]:
    return lambda value: {} if value == "-1" else {name: value}


def _identification(value: str) -> Settings:
    return {"ssl.endpoint.identification.algorithm": value.lower() or "none"}


def _nothing(value: str) -> Settings:
    return {}


_JAAS = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*", re.S)
_JAAS_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.S)


def _jaas(value: str) -> Settings:
    """The user of a log-in module for PLAIN or SCRAM. No error shows the text, which has a password in it."""
    found = _JAAS.fullmatch(value)
    if found is None:
        raise ValueError('expected \'<login module> required username="…" password="…";\'')
    module = found["module"].rpartition(".")[2]
    if module not in ("PlainLoginModule", "ScramLoginModule"):
        raise ValueError(
            f"the log-in module {module} is not supported: PlainLoginModule and ScramLoginModule are; for Kerberos and "
            "OAuth give librdkafka's properties sasl.kerberos.* and sasl.oauthbearer.*"
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single) if double or single else bare
        for name, double, single, bare in _JAAS_OPTION.findall(found["options"])
    }
    if not {"username", "password"} <= options.keys():
        raise ValueError("the log-in module has no username or no password")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


_TRANSLATED: dict[str, Callable[[str], Settings]] = {
    "buffer.memory": _kilobytes,
    "max.request.size": _renamed("message.max.bytes"),
    "max.block.ms": _nothing,  # Applied by the operator itself.
    "send.buffer.bytes": _buffer_size("socket.send.buffer.bytes"),
    "receive.buffer.bytes": _buffer_size("socket.receive.buffer.bytes"),
    "compression.gzip.level": _renamed("compression.level"),
    "compression.lz4.level": _renamed("compression.level"),
    "compression.zstd.level": _renamed("compression.level"),
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _identification,
    "ssl.truststore.certificates": _renamed("ssl.ca.pem"),
    "ssl.keystore.certificate.chain": _renamed("ssl.certificate.pem"),
    "ssl.keystore.key": _renamed("ssl.key.pem"),
}

_STORES = frozenset(
    {
        *("ssl.truststore.location", "ssl.truststore.type"),
        *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password"),
    }
)


def _key_stores(properties: Mapping[str, Any], what: str) -> Settings:
    """Java's files of certificates and keys: PEM, and PKCS#12 for the client's own."""
    settings: Settings = {}
    trust, kind = properties.get("ssl.truststore.location"), _store_kind(properties, "ssl.truststore")
    if trust is not None and kind != "PEM":
        raise ValueError(
            f"{what}: ssl.truststore.location {trust!r} is a Java trust store ({kind}), which only Java reads: export its "
            "certificates with `keytool -exportcert -rfc`, and set ssl.truststore.type to PEM or give ssl.ca.location"
        )
    if trust is not None:
        settings["ssl.ca.location"] = trust
    own, kind = properties.get("ssl.keystore.location"), _store_kind(properties, "ssl.keystore")
    if own is None:
        return settings
    if kind == "PEM":
        return settings | {"ssl.certificate.location": own, "ssl.key.location": own}
    if kind == "PKCS12":
        settings["ssl.keystore.location"] = own
        if "ssl.keystore.password" in properties:
            settings["ssl.keystore.password"] = properties["ssl.keystore.password"]
        return settings
    raise ValueError(
        f"{what}: ssl.keystore.location {own!r} is a Java key store ({kind}), which only Java reads: convert it with "
        "`keytool -importkeystore -deststoretype PKCS12`, and set ssl.keystore.type to PKCS12"
    )


def _store_kind(properties: Mapping[str, Any], store: str) -> str:
    location = str(properties.get(f"{store}.location", ""))
    guessed = "PEM" if location.endswith(".pem") else "PKCS12" if location.endswith((".p12", ".pfx")) else "JKS"
    return str(properties.get(f"{store}.type", guessed)).upper()
