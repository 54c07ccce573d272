"""The part of the Kubernetes API that a drain talks to, on loopback: for the real kubectl, in a thread or as a program.

    python -m tests.kube_api PORT FOLDER [NODE]

serves a cluster of one node (this machine's host name unless named) and writes FOLDER/kubeconfig; PORT 0 takes a free
one. All else is put in through the API itself (`kubectl create --raw`), and `POST /behave` orders what goes wrong, as
a JSON object of fields of `Behaviour`. A pod with the annotation `test/pid` has that process, which gets SIGTERM when
the pod is deleted or evicted, as from a kubelet.

What is true to a real server: resource versions with 409 on a stale write, optimistic deletes, paging, the selectors
that matter, eviction with budgets (429) and with the API versions of old servers (400), 403, managed fields of a
cordon, the discovery of resource.k8s.io, the condition that a DeviceTaintRule gets. It does not schedule, watch, or
validate more than the effect of a rule. kmock was weighed: it needs aiohttp and Python 3.11, knows neither stale
resource versions nor paging, and runs inside an event loop; a guest has the standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
CODES = {
    "BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "AlreadyExists": 409, "Conflict": 409,
    "Invalid": 422, "TooManyRequests": 429, "InternalError": 500, "ServiceUnavailable": 503,
}
RULES, SLICES, CLAIMS = "devicetaintrules", "resourceslices", "resourceclaims"


@dataclass
class Behaviour:
    """What the server does out of the ordinary. `forbid` has "VERB resource" with HTTP's verbs."""

    delay_s: float = 0.0
    hang: bool = False          # accepts, and never answers
    garbage: bool = False       # 200, and no JSON
    trickle: bool = False       # a byte now and then, for ever
    retry_after: int | None = None      # with each 429
    lingers: bool = False       # a pod that is to go stays, terminating, as while a kubelet stops it
    forbid: tuple[str, ...] = ()
    evictions: tuple[str, ...] = ("policy/v1", "policy/v1beta1")
    effects: tuple[str, ...] = ("None", "NoSchedule", "NoExecute")
    # version of resource.k8s.io -> what it serves
    serves: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"v1": (RULES, SLICES, CLAIMS)})


class Refuse(Exception):  # noqa: N818 - an answer of the server
    """A Status that is no success."""

    def __init__(self, reason: str, said: str, **more: Any) -> None:
        super().__init__(said)
        self.status = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": said,
            "reason": reason, "code": CODES[reason], **more,
        }


class Cluster:
    """The objects, by (resource, namespace, name). `before` is called with each request while nothing is locked."""

    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.ended: Callable[[Object], None] = lambda pod: None
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._version = 100
        self._writers: dict[str, dict[tuple[str, ...], str]] = {}      # node -> field -> who wrote it last
        self._mutex = threading.RLock()

    # What a test puts in and looks at.

    def put(self, resource: str, name: str, namespace: str = "", **content: Any) -> Object:
        """An object as another client would write it: whole, unconditionally."""
        with self._mutex:
            made = deepcopy(content)
            known = self._objects.get((resource, namespace, name), {}).get("metadata", {})
            made["metadata"] = {
                "uid": known.get("uid") or str(uuid.uuid4()), **made.get("metadata", {}), "name": name,
                **({"namespace": namespace} if namespace else {}),
            }
            return self._keep((resource, namespace, name), made)

    def node(self, name: str = "n1", **content: Any) -> Object:
        """A node that is ready."""
        usual: Object = {
            "apiVersion": "v1", "kind": "Node", "spec": {},
            "status": {"addresses": [{"type": "Hostname", "address": name}], "capacity": {"cpu": "8"}},
        }
        return self.put("nodes", name, **(usual | content))

    def pod(self, name: str, node: str = "n1", namespace: str = "default", phase: str = "Running",
            owner: str | None = None, **content: Any) -> Object:
        """A pod on a node. `owner` is KIND/NAME of its controller."""
        meta = dict(content.pop("metadata", {}))
        if owner:
            kind, _, of = owner.partition("/")
            meta["ownerReferences"] = [{"kind": kind, "name": of, "controller": True}]
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 30, "containers": [], **content.pop("spec", {})}
        status = {"phase": phase, "startTime": "2026-01-02T03:04:05Z", **content.pop("status", {})}
        return self.put("pods", name, namespace, apiVersion="v1", kind="Pod", metadata=meta, spec=spec, status=status)

    def slice(self, name: str, driver: str, pool: str, devices: list[Object], node: str = "n1",
              generation: int = 1) -> Object:
        """A ResourceSlice of a node."""
        spec = {"driver": driver, "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
                "nodeName": node, "devices": devices}
        return self.put(SLICES, name, spec=spec)

    def get(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """A copy of an object."""
        with self._mutex:
            return deepcopy(self._objects.get((resource, namespace, name)))

    def all(self, resource: str) -> list[Object]:
        """Copies of all objects of a kind."""
        with self._mutex:
            return [deepcopy(held) for key, held in sorted(self._objects.items()) if key[0] == resource]

    def drop(self, resource: str, name: str, namespace: str = "") -> None:
        """Delete, unconditionally."""
        with self._mutex:
            self._objects.pop((resource, namespace, name), None)

    def writes(self) -> list[str]:
        """The requests that change something, as `METHOD path` without a query."""
        return [f"{method} {urlsplit(path).path}" for method, path in self.requests if method != "GET"]

    def _keep(self, key: tuple[str, str, str], made: Object) -> Object:
        self._version += 1
        made["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key] = made
        return deepcopy(made)

    # What a client asks for.

    def answer(self, method: str, target: str, body: Object | None, agent: str = "") -> Object:
        """The answer to a request; raises Refuse."""
        url = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == "/behave" and method == "POST":
            for name, value in (body or {}).items():
                setattr(self.behaviour, name, tuple(value) if isinstance(value, list) else value)
            return {}
        if method == "GET" and (found := self._discovery(url.path)) is not None:
            return found
        match = PATH.fullmatch(url.path)
        if match is None or not self._served(match["group"], match["version"], match["resource"]):
            raise Refuse("NotFound", "the server could not find the requested resource")
        resource, namespace, name = match["resource"], match["namespace"] or "", match["name"] or ""
        if f"{method} {resource}{'/' + match['sub'] if match['sub'] else ''}" in self.behaviour.forbid:
            raise Refuse("Forbidden", f'{resource} "{name}" is forbidden: User "system:node:n1" cannot '
                                      f'{method.lower()} resource "{resource}" in API group "{match["group"] or ""}"')
        with self._mutex:
            if match["sub"] == "eviction":
                return self._evict(namespace, name, body or {})
            if not name:
                return self._create(resource, namespace, body or {}) if method == "POST" else \
                    self._list(resource, namespace, query)
            key = (resource, namespace, name)
            if key not in self._objects:
                raise Refuse("NotFound", f'{resource} "{name}" not found')
            if method == "PUT":
                return self._replace(key, body or {}, query.get("fieldManager") or agent.partition("/")[0])
            if method == "DELETE":
                return self._delete(key, body or {})
            return deepcopy(self._objects[key])

    def _discovery(self, path: str) -> Object | None:
        versions = [{"groupVersion": f"resource.k8s.io/{v}", "version": v} for v in self.behaviour.serves]
        if path == "/version":
            return {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
        if path == "/apis/resource.k8s.io" and versions:
            return {"kind": "APIGroup", "name": "resource.k8s.io", "versions": versions}
        _, _, version = path.rpartition("/apis/resource.k8s.io/")
        if version in self.behaviour.serves:
            named = [{"name": name, "namespaced": name == CLAIMS} for name in self.behaviour.serves[version]]
            return {"kind": "APIResourceList", "groupVersion": f"resource.k8s.io/{version}", "resources": named}
        return None

    def _served(self, group: str | None, version: str | None, resource: str) -> bool:
        if group is None:
            return resource in ("nodes", "pods")
        if group == "policy":
            return version == "v1" and resource == "poddisruptionbudgets"
        return group == "resource.k8s.io" and resource in self.behaviour.serves.get(version or "", ())

    def _list(self, resource: str, namespace: str, query: Mapping[str, str]) -> Object:
        field_name, _, field_value = query.get("fieldSelector", "").partition("=")
        label, _, label_value = query.get("labelSelector", "").partition("=")
        found = [
            held for (kind, space, _), held in sorted(self._objects.items())
            if kind == resource and namespace in ("", space)
            and (not field_name or held.get("spec", {}).get(field_name.removeprefix("spec.")) == field_value)
            and (not label or held["metadata"].get("labels", {}).get(label) == label_value)
        ]
        begin = int(query.get("continue") or 0)
        end = begin + int(query.get("limit") or len(found) or 1)
        meta = {"resourceVersion": str(self._version), **({"continue": str(end)} if end < len(found) else {})}
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": deepcopy(found[begin:end])}

    def _create(self, resource: str, namespace: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        if (resource, namespace, name) in self._objects:
            raise Refuse("AlreadyExists", f'{resource} "{name}" already exists')
        if resource == RULES:
            effect = body["spec"]["taint"]["effect"]
            if effect not in self.behaviour.effects:
                raise Refuse("Invalid", f'DeviceTaintRule.resource.k8s.io "{name}" is invalid: spec.taint.effect: '
                                        f'Unsupported value: "{effect}": supported values: "NoExecute", "NoSchedule"')
            count = len(self._users(body["spec"].get("deviceSelector", {})))
            body["status"] = {"conditions": [{
                "type": "EvictionInProgress", "status": "False", "reason": "NoEffect",
                "message": f"{count} pod{'s' * (count != 1)} would be evicted if the effect was NoExecute",
            }]} if effect == "None" else {}
        body["metadata"].setdefault("uid", str(uuid.uuid4()))
        if namespace:
            body["metadata"]["namespace"] = namespace
        return self._keep((resource, namespace, name), deepcopy(body))

    def _users(self, selector: Object) -> list[str]:
        return [user["name"] for claim in self.all(CLAIMS) for user in claim["status"].get("reservedFor", ())
                if any(selector.items() <= result.items()
                       for result in claim["status"]["allocation"]["devices"]["results"])]

    def _replace(self, key: tuple[str, str, str], body: Object, manager: str) -> Object:
        held = self._objects[key]
        if body["metadata"].get("resourceVersion") not in (None, held["metadata"]["resourceVersion"]):
            raise Refuse("Conflict", f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the object has been '
                                     "modified; please apply your changes to the latest version and try again")
        made = deepcopy(body) | {"status": held.get("status", {})}      # status is a subresource
        self._writers.setdefault(key[2], {}).update(dict.fromkeys(_changed(held, made), manager))
        if key[0] == "nodes":
            made["metadata"]["managedFields"] = _managed(self._writers[key[2]])
        return self._keep(key, made)

    def _delete(self, key: tuple[str, str, str], body: Object) -> Object:
        wanted = (body.get("preconditions") or {}).get("uid")
        if wanted not in (None, self._objects[key]["metadata"]["uid"]):
            raise Refuse("Conflict", "Precondition failed: UID in precondition differs")
        gone = self._objects[key]
        if key[0] == "pods":
            self.ended(deepcopy(gone))
        if key[0] == "pods" and self.behaviour.lingers:
            gone["metadata"]["deletionTimestamp"] = "2026-01-02T03:05:00Z"
            self._keep(key, gone)
        else:
            del self._objects[key]
        return {"kind": "Status", "status": "Success"}

    def _evict(self, namespace: str, name: str, body: Object) -> Object:
        version = body.get("apiVersion")
        if version not in self.behaviour.evictions:
            raise Refuse("BadRequest", f'no kind "Eviction" is registered for version "{version}" in scheme '
                                       '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"')
        key = ("pods", namespace, name)
        if key not in self._objects:
            raise Refuse("NotFound", f'pods "{name}" not found')
        labels = self._objects[key]["metadata"].get("labels", {})
        for (kind, space, _), budget in self._objects.items():
            if kind == "poddisruptionbudgets" and space == namespace and \
                    budget["spec"]["selector"]["matchLabels"].items() <= labels.items():
                if budget["status"]["disruptionsAllowed"] < 1:
                    raise Refuse("TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
                                 details={"causes": [{"reason": "DisruptionBudget"}]})
                budget["status"]["disruptionsAllowed"] -= 1
        return self._delete(key, body.get("deleteOptions") or {})


def _changed(held: Object, made: Object) -> Iterator[tuple[str, ...]]:
    """The fields of a node that differ, of those that matter here."""
    if made.get("spec", {}).get("unschedulable") != held.get("spec", {}).get("unschedulable"):
        yield ("f:spec", "f:unschedulable")
    before, after = (one["metadata"].get("annotations") or {} for one in (held, made))
    yield from (("f:metadata", "f:annotations", f"f:{key}") for key in after if after[key] != before.get(key))


def _managed(writers: Mapping[tuple[str, ...], str]) -> list[Object]:
    """The managed fields, one entry a writer."""
    entries: list[Object] = []
    for manager in sorted(set(writers.values())):
        fields: Object = {}
        for path in (path for path, writer in writers.items() if writer == manager):
            inner = fields
            for part in path:
                inner = inner.setdefault(part, {})
        entries.append({"manager": manager, "operation": "Update", "fieldsV1": fields})
    return entries


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    cluster: Cluster
    ending: threading.Event

    def _any(self) -> None:
        cluster, order = self.cluster, self.cluster.behaviour
        raw = self._body()
        cluster.requests.append((self.command, self.path))
        if order.hang or order.delay_s:
            self.ending.wait(600 if order.hang else order.delay_s)
        if order.trickle or order.garbage or order.hang:
            self._nonsense(forever=order.trickle)
            return
        cluster.before(self.command, urlsplit(self.path).path)
        code, more = 200, {}
        try:
            said = cluster.answer(self.command, self.path, json.loads(raw) if raw else None,
                                  self.headers.get("User-Agent", ""))
        except Refuse as refused:
            said, code = refused.status, refused.status["code"]
            if code == 429 and order.retry_after is not None:
                more["Retry-After"] = str(order.retry_after)
        content = json.dumps(said).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":      # what kubectl sends for its standard input
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _any  # noqa: N815 - the names that http.server calls

    def _nonsense(self, *, forever: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"<html>it works!")
        while forever and not self.ending.wait(0.2):
            self.wfile.write(b".")
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that was ended in the middle is what some tests are about."""


class Served:
    """A cluster that answers at `port`; `kubeconfig` leads there."""

    def __init__(self, cluster: Cluster, folder: Path, port: int = 0) -> None:
        self._ending = threading.Event()
        handler = type("Handler", (_Handler,), {"cluster": cluster, "ending": self._ending})
        self._server = _Server(("127.0.0.1", port), handler)
        self.port = int(self._server.server_address[1])
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(kubeconfig(self.port))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refuse connections from now on."""
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def kubeconfig(port: int) -> str:
    """What leads kubectl to loopback."""
    return json.dumps({     # JSON is YAML
        "apiVersion": "v1", "kind": "Config", "current-context": "test", "users": [{"name": "test", "user": {}}],
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })


@contextmanager
def served(folder: Path, cluster: Cluster | None = None) -> Iterator[tuple[Cluster, Served]]:
    """A cluster of one's own with the node n1."""
    made = cluster or Cluster()
    if cluster is None:
        made.node()
    server = Served(made, folder)
    try:
        yield made, server
    finally:
        server.close()


def stop_process(pod: Object) -> None:
    """What a kubelet does to a pod."""
    if pid := (pod["metadata"].get("annotations") or {}).get("test/pid"):
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGTERM)


def main(port: str, folder: str, node: str = "") -> None:
    """Serve until killed."""
    cluster = Cluster()
    cluster.ended = stop_process
    cluster.node((node or socket.gethostname()).lower())
    server = Served(cluster, Path(folder), int(port))
    print(f"listening on 127.0.0.1:{server.port}, KUBECONFIG={server.kubeconfig}", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
