"""The settings of the server, by Flink's keys."""

from __future__ import annotations

import pytest

from flintstream.server.settings import ServerSettings


def test_flinks_keys_are_read():
    settings = ServerSettings.of(
        {
            "rest.bind-address": "::1",
            "rest.bind-port": "9001, 9003-9005",
            "flint.server.data": "/data",
            "web.submit.enable": "false",
            "web.cancel.enable": False,
            "web.upload.dir": "/uploads",
            "web.timeout": "20 s",
            "jobstore.max-capacity": 5,
            "jobstore.expiration-time": 3600,
            "flint.server.max-upload-size": "2 mb",
            "flint.server.allowed-hosts": "a.example, b.example",
        }
    )
    assert (settings.host, settings.ports) == ("::1", (9001, 9003, 9004, 9005))
    assert (settings.submit_enabled, settings.cancel_enabled) == (False, False)
    assert (str(settings.data), str(settings.upload_directory)) == ("/data", "/uploads")
    assert (settings.timeout, settings.most_ended, settings.max_upload_size) == (20.0, 5, 2 * 1024 * 1024)
    assert settings.allowed_hosts == ("a.example", "b.example")


def test_by_default_it_listens_on_loopback_only():
    settings = ServerSettings.of({})
    assert (settings.host, settings.ports, settings.token_file) == ("127.0.0.1", (8081,), None)
    assert settings.expiration == 3600.0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rest.bind-address": "0.0.0.0"}, "set flint.server.token-file"),
        ({"rest.address": "node-1.example"}, "would listen on node-1.example"),
        ({"rest.port": "80811"}, "must be a port, a range"),
        ({"rest.bind-port": "9-8"}, "must be a port, a range"),
        ({"web.submit.enable": "yes"}, "'true' or 'false'"),
        ({"web.timeout": "0"}, "greater than 0"),
        ({"jobstore.max-capacity": "-1"}, "at least 0"),
        ({"security.ssl.rest.enabled": "true"}, "needs security.ssl.rest.cert-file"),
        ({"security.ssl.rest.cert-file": "/a.pem"}, "security.ssl.rest.key-file"),
        ({"security.ssl.rest.keystore": "/a.jks"}, "has no effect: certificates are PEM files"),
        ({"flint.server.dta": "/x"}, "did you mean 'flint.server.data'"),
        ({"web.submit.enabled": "true"}, "did you mean 'web.submit.enable'"),
        ({"rest.prt": "1"}, "did you mean 'rest.port'"),
        ({"jobstore.capacity": "1"}, "did you mean 'jobstore.max-capacity'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(given, told):
    with pytest.raises(ValueError, match=told):
        ServerSettings.of(given)
