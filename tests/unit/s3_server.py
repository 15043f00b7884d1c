"""An S3 server of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import fsspec
import pytest
from moto.server import ThreadedMotoServer


@contextmanager
def s3_server() -> Iterator[str]:
    """The URL of a bucket on a server that runs meanwhile; the way there is in the environment, as for a user."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.delenv("AWS_PROFILE", raising=False)
        file_system = fsspec.filesystem("s3")
        try:
            bucket = f"checkpoints-{uuid4().hex}"
            file_system.mkdir(bucket)
            yield f"s3://{bucket}"
        finally:
            # Another server has another address.
            type(file_system).clear_instance_cache()
            server.stop()
