"""Kubernetes: which pods have a card, how new ones are kept off it, and how one pod is asked to go.

Everything goes through the operator's kubectl, which knows certificates, logins and proxies; and through its `--raw`
forms alone, which are the same in all versions and need neither discovery nor a schema from the server.
"""

from __future__ import annotations

import os
import shutil

from ...host.child import PATH
from ...host.live import Live
from .api import Api
from .kubelet import CHECKPOINT, CONFIGURATION
from .scheduler import Kubernetes

KUBECTL = "kubectl"


def here(host: Live) -> Kubernetes | None:
    """The cluster this machine is a node of; None: neither a kubelet nor $KUBECONFIG says that it is one.

    A node without kubectl still is one: its Placement says that nobody could be asked, and `--scheduler none` lifts it.
    """
    named = os.environ.get("KUBECONFIG", "")
    signs = named or any(host.data(path, 1) is not None for path in (CONFIGURATION, CHECKPOINT))
    return Kubernetes(host, Api.found(host, shutil.which(KUBECTL, path=PATH) or KUBECTL, named)) if signs else None
