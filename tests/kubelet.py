"""What a kubelet leaves on a node: its device checkpoint, and its PodResources service on a socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def field(number: int, content: bytes | str) -> bytes:
    """A length-delimited field of a message."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    """A number as Protocol Buffers write it."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def granted(
    nodes: Sequence[str] = (), variables: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None,
    cdi: Sequence[str] = (),
) -> bytes:
    """A plugin's ContainerAllocateResponse."""
    return b"".join((
        *(field(1, field(1, name) + field(2, value)) for name, value in (variables or {}).items()),
        field(2, field(1, "/usr/lib") + field(2, "/usr/lib") + b"\x18\x01"),      # a mount, read-only
        *(field(3, field(1, f"/inside{path}") + field(2, path) + field(3, "rw")) for path in nodes),
        *(field(4, field(1, name) + field(2, value)) for name, value in (annotations or {}).items()),
        *(field(5, field(1, name)) for name in cdi),
    ))


def entry(pod: str, resource: str, ids: Sequence[str], response: bytes = b"", *, numa: bool = True) -> dict[str, Any]:
    """A container's devices as the checkpoint has them; without `numa` as before 1.20."""
    return {
        "PodUID": pod, "ContainerName": "main", "ResourceName": resource,
        "DeviceIDs": {str(n % 2 or -1): [id] for n, id in enumerate(ids)} if numa and len(ids) < 3 else
                     {"0": list(ids)} if numa else list(ids),
        "AllocResp": base64.b64encode(response).decode(),
    }


def checkpoint(*entries: Mapping[str, Any], offered: Mapping[str, Sequence[str]] | None = None) -> str:
    """The text of kubelet_internal_checkpoint."""
    registered = {name: list(ids) for name, ids in (offered or {}).items()}
    return json.dumps({"Data": {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": registered},
                       "Checksum": 3735928559})


def pod_resources(pods: Mapping[str, Sequence[tuple[str, Sequence[str]]]],
                  claims: Mapping[str, Sequence[tuple[str, str, str]]] | None = None) -> bytes:
    """A ListPodResourcesResponse: NAMESPACE/NAME -> (resource, ids), and -> (driver, pool, device)."""
    found = b""
    for pod in dict.fromkeys((*pods, *(claims or {}))):
        space, _, name = pod.partition("/")
        container = field(1, "main") + b"".join(
            field(2, field(1, resource) + b"".join(field(2, id) for id in ids)) for resource, ids in pods.get(pod, ())
        ) + b"\x18\x05" + b"".join(      # a CPU
            field(5, field(2, "claim") + field(3, space) + field(4, b"".join(map(field, (2, 3, 4), device))))
            for device in (claims or {}).get(pod, ())
        )
        found += field(1, field(1, name) + field(2, space) + field(3, container))
    return found


@contextmanager
def service(socket: Path, answer: bytes) -> Iterator[None]:
    """A PodResources service."""
    import concurrent.futures

    import grpc

    def listed(request: bytes, _: Any) -> bytes:
        return answer

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    handlers = {"List": grpc.unary_unary_rpc_method_handler(listed)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()
