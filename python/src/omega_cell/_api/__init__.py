"""Messages and methods of the API, made from `descriptors.bin`, for use within the package.

`descriptors.bin` is the compiled form of `server/client/proto` (a FileDescriptorSet); a test compares it with the one that
the Rust client has. Messages live in a pool of their own, so that other packages cannot collide with them.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "omega.v1"


def _pool() -> descriptor_pool.DescriptorPool:
    raw = resources.files(__name__).joinpath("descriptors.bin").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    # A descriptor set lists each file after the files that it imports.
    for file in descriptor_pb2.FileDescriptorSet.FromString(raw).file:
        pool.Add(file)
    return pool


_POOL = _pool()


def message(name: str) -> Any:
    """Returns the class of a message of the API, such as `SubmitJobRequest`."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def enum_name(enum: str, number: int) -> str:
    """Returns the name of an enum's value in lower case without the enum's own name: `placed` for `TASK_PHASE_PLACED`."""
    described = _POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}")
    value = described.values_by_number.get(number)
    if value is None:
        return f"unknown_{number}"
    prefix = described.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return str(value.name.removeprefix(prefix).lower())


def enum_number(enum: str, name: str) -> int:
    """Returns the number of an enum's value by the name that `enum_name` gives it."""
    described = _POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}")
    prefix = described.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = described.values_by_name.get(prefix + name.upper())
    if value is None:
        known = [enum_name(enum, number) for number in described.values_by_number if number]
        raise ValueError(f"{enum}: {name!r} must be one of {', '.join(known)}")
    return int(value.number)


class Method:
    """A method of a service: its path and its messages."""

    def __init__(self, service: str, name: str) -> None:
        described = _POOL.FindServiceByName(f"{PACKAGE}.{service}").methods_by_name[name]
        self.path = f"/{PACKAGE}.{service}/{name}"
        self.request = message_factory.GetMessageClass(described.input_type)
        self.response = message_factory.GetMessageClass(described.output_type)
        self.streams = bool(described.server_streaming)

    def on(self, channel: Any) -> Any:
        """Returns the method as a callable on a channel, of grpc or of grpc.aio."""
        make = channel.unary_stream if self.streams else channel.unary_unary
        return make(
            self.path,
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )
