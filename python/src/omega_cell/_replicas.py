"""The replicas of a cell that a client knows, and how it connects to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

OPTIONS = [
    # Deltas and lists come in messages of at most 4 MiB.
    ("grpc.max_receive_message_length", 8 << 20),
    ("grpc.enable_retries", 0),
    # Without pings, a stream would wait forever for a replica whose machine has lost its power or its network.
    ("grpc.keepalive_time_ms", 2000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.http2.max_pings_without_data", 0),
]

# Timeout of one attempt; then another replica is tried. The server accepts timeouts up to 60 s.
TRY_S = 5.0


@dataclass(frozen=True)
class Tls:
    """Certificates for a cell that requires them: files in PEM format (docs/security.md)."""

    authority: str | Path
    certificate: str | Path
    key: str | Path

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a channel."""
        authority, certificate, key = (Path(file).read_bytes() for file in (self.authority, self.certificate, self.key))
        return grpc.ssl_channel_credentials(authority, key, certificate)


class Replicas:
    """The addresses of the replicas, which are tried in turn."""

    def __init__(self, addresses: str | Sequence[str]) -> None:
        self._all = [addresses] if isinstance(addresses, str) else list(addresses)
        if not self._all:
            raise ValueError("addresses: give at least one replica, such as '127.0.0.1:7600'")
        self._at = 0

    @property
    def current(self) -> str:
        """The address to which calls go now."""
        return self._all[self._at]

    def next(self, failed: str) -> None:
        """Switches to the next address, unless another call has already switched away from the one that failed."""
        if failed == self.current:
            self._at = (self._at + 1) % len(self._all)
