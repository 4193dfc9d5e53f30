"""The stream of deltas of a cell, read by a separate thread; deltas in several pieces are joined."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from . import _api, errors
from .client import Client


class Deltas:
    """Deltas since a version, from any replica. A broken stream is continued at another replica after the last delta."""

    def __init__(self, client: Client, interest: dict[str, Any]) -> None:
        self._client = client
        self._interest = interest
        self._method = _api.Method("SchedulingService", "Sync")
        self._since, self._lineage = 0, 0
        # The queue is short: if the scheduler is slow, the server merges deltas, and the client does not store them.
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=64)
        self._stream: Any = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="omega-sync", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the stream and its thread."""
        self._ended.set()
        if self._stream is not None:
            self._stream.cancel()
        self._thread.join()

    def waiting(self) -> Iterator[Any]:
        """Iterates over the received deltas, without waiting."""
        while True:
            try:
                yield self._checked(self._queue.get_nowait())
            except queue.Empty:
                return

    def next(self, timeout: float) -> Any:
        """Returns the next delta, or `None` if there is none within `timeout` seconds."""
        try:
            return self._checked(self._queue.get(timeout=timeout))
        except queue.Empty:
            return None

    @staticmethod
    def _checked(item: Any) -> Any:
        if isinstance(item, errors.OmegaError):
            raise item
        return item

    def _put(self, item: Any) -> None:
        while not self._ended.is_set():
            try:
                return self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue

    def _read(self) -> None:
        attempt = 0
        while not self._ended.is_set():
            request = self._method.request(since=self._since, lineage=self._lineage, **self._interest)
            address, self._stream = self._client.stream(self._method, request)
            if self._ended.is_set():
                # `close` may have cancelled only the stream before this one.
                self._stream.cancel()
                return
            try:
                whole = None
                for piece in self._stream:
                    whole = piece if whole is None else _merged(whole, piece)
                    if whole.more:
                        continue
                    self._since, self._lineage, attempt = whole.to, whole.lineage, 0
                    self._put(whole)
                    whole = None
            except grpc.RpcError as error:
                failure = errors.of_call(error)
                pause = errors.pause_s(failure, attempt)
                if self._ended.is_set():
                    return
                if pause is None:
                    return self._put(failure)
                self._ended.wait(pause)
            self._client.failed(address)
            attempt += 1


def _merged(whole: Any, piece: Any) -> Any:
    """Joins a delta with its next piece: columns are appended, and `more` is taken from the piece."""
    whole.MergeFrom(piece)
    whole.more = piece.more
    return whole
