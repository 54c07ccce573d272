"""The kubelet's PodResources service, with the extra `kubernetes` (grpcio). Its answer is read by `kubelet`."""

from __future__ import annotations

from importlib import import_module

from ...host import Host
from ...model import Kind, Unknown
from .kubelet import Given, pod_resources

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
METHOD = "/v1.PodResourcesLister/List"
LARGEST = 16 << 20      # what kubelets send at most


def ask(host: Host, deadline: float, socket: str) -> Given | Unknown | None:
    """What the kubelet says that it gave out; None without the library or the socket."""
    folder, _, name = socket.rpartition("/")
    names = host.names(folder)
    if not isinstance(names, tuple) or name not in names:
        return None
    try:
        grpc = import_module("grpc")
    except ImportError:
        return None
    options = [("grpc.max_receive_message_length", LARGEST), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
        try:
            answer = channel.unary_unary(METHOD)(b"", timeout=deadline, wait_for_ready=False)
            return pod_resources(answer)
        except grpc.RpcError as error:
            return Unknown(f"{socket}: {error.code().name}", Kind.IO)
        except ValueError as error:
            return Unknown(f"{socket}: {error}", Kind.IO)
