"""Errors of calls: a class for each remedy, with the server's stable code.

The codes are listed in docs/api.md.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

# Errors of calls that were not executed, and may succeed at another replica.
_ELSEWHERE = {"NO_LEADER", "STOPPED"}
# Errors of calls with an unknown outcome. Every call of the API may be repeated.
_UNKNOWN = {"OUTCOME_UNKNOWN", "LATE"}


class OmegaError(Exception):
    """A call that failed. `code` is the server's stable code, such as `UNKNOWN_JOB`; the text names the remedy."""

    def __init__(self, code: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


class InvalidArgument(OmegaError):
    """The request is invalid. Change it."""


class NotFound(OmegaError):
    """The job, machine or task does not exist, or ended long ago."""


class AlreadyExists(OmegaError):
    """The name or number is in use. Choose another one."""


class FailedPrecondition(OmegaError):
    """The state of the cell does not allow the call, for example because another process has the lease."""


class Denied(OmegaError):
    """The caller is not known, or its role does not allow the call."""


class Overloaded(OmegaError):
    """A limit was reached. Wait for `retry_after_s`, or request less."""


class Unavailable(OmegaError):
    """No replica answered in the time given; nothing was done."""


class OutcomeUnknown(OmegaError):
    """The call may have been executed. Repeat it; it is not executed twice."""


_CLASSES: dict[grpc.StatusCode, type[OmegaError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.PERMISSION_DENIED: Denied,
    grpc.StatusCode.UNAUTHENTICATED: Denied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.UNKNOWN: OutcomeUnknown,
    grpc.StatusCode.DEADLINE_EXCEEDED: OutcomeUnknown,
}


def of_call(error: Any) -> OmegaError:
    """Makes an error of a failed call of grpc or grpc.aio, with the details that the server sent."""
    status = error.code()
    code, retry_after = str(status.name), None
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
                code = info.reason or code
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
                retry_after = delay.seconds + delay.nanos / 1e9
    made = _CLASSES.get(status, OmegaError)
    return made(code, error.details() or "", retry_after)


def pause_s(error: OmegaError, attempt: int) -> float | None:
    """Returns how long to wait before the same call is sent again; `None` if that cannot help."""
    backoff = float(min(0.05 * 2**attempt, 1.0))
    if error.code in _ELSEWHERE or error.code in _UNKNOWN:
        return error.retry_after_s or backoff
    if error.code in ("BUSY", "LIMIT"):
        return error.retry_after_s or backoff
    # An error without a code of the server is an error of the connection.
    return backoff if error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") else None
