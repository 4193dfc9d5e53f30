"""The replicas of a cell that a client knows, and how it connects to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

# Deltas and lists come in messages of at most 4 MiB.
OPTIONS = [("grpc.max_receive_message_length", 8 << 20), ("grpc.enable_retries", 0)]

# The longest time of one try: then another replica is asked. The server's own bound is 60 s.
TRY_S = 5.0


@dataclass(frozen=True)
class Tls:
    """Certificates for a cell that asks for them: files in PEM form (docs/security.md)."""

    authority: str | Path
    certificate: str | Path
    key: str | Path

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a channel."""
        authority, certificate, key = (Path(file).read_bytes() for file in (self.authority, self.certificate, self.key))
        return grpc.ssl_channel_credentials(authority, key, certificate)


class Replicas:
    """Addresses in turn: a failed call goes to the next one."""

    def __init__(self, addresses: str | Sequence[str]) -> None:
        self._all = [addresses] if isinstance(addresses, str) else list(addresses)
        if not self._all:
            raise ValueError("addresses: give at least one replica, such as '127.0.0.1:7600'")
        self._at = 0

    @property
    def current(self) -> str:
        """The address that is asked now."""
        return self._all[self._at]

    def next(self, failed: str) -> None:
        """Turns to the next one, unless that has happened since this one failed."""
        if failed == self.current:
            self._at = (self._at + 1) % len(self._all)
