"""What identifies a card, a machine or a person in a text, or lets somebody in: patterns by kind, as tables. Pure.

A group named `value` is what becomes the alias; without one the whole match does. What a diagnosis rests on is left as
it is: PCI addresses, resource names (`huawei.com/Ascend910`), versions, codes, kernel pointers, driver names.
"""

from __future__ import annotations

import ipaddress
import re

# Attributes whose whole value identifies one card or machine.
IDENTIFYING = {
    "serial_number": "serial", "serial": "serial", "product_serial": "serial", "board_serial": "serial",
    "chassis_serial": "serial", "tt_serial": "serial", "unique_id": "serial", "uuid": "uuid", "product_uuid": "uuid",
    "machine-id": "machine", "boot_id": "boot", "hostname": "host", "nodename": "host", "address": "mac",
    "vpd": "serial", "chassis_asset_tag": "serial", "board_asset_tag": "serial",
}
# Keys of the records that hotplugctl keeps itself: what stands there is somebody's words or name.
OF_RECORDS = {
    "by": "user", "user": "user", "reason": "words", "comment": "words", "pod": "pod", "pods": "pod",
    "namespace": "pod", "container": "pod", "node": "host", "nodes": "host", "host": "host", "partition": "words",
    "account": "words", "job_name": "words", "serial": "serial", "uuid": "uuid", "boot_id": "boot",
}
KINDS = ("serial", "uuid", "machine", "boot", "host", "mac", "ip", "user", "secret", "pod", "words")
ALIAS = re.compile(rf"(?:{'|'.join(KINDS)})-[0-9a-f]{{8}}")

_H = "[0-9a-fA-F]"
_WORDS_OF_SECRETS = (
    r"password|passwd|passphrase|passcode|pass|pwd|psk|secret|secret[_-]?access[_-]?key|secret[_-]?key|client[_-]?secret|"
    r"api[_-]?key|apikey|private[_-]?key|access[_-]?key(?:[_-]?id)?|(?:access|auth|refresh|session|bearer|id)[_-]?token|"
    r"x-auth-token|credentials?|client-key-data|client-certificate-data|certificate-authority-data|luks\.key|set-cookie"
)
_VALUE = r"(?:\"(?P<quoted>[^\"\n]{3,})\"|'(?P<quoted1>[^'\n]{3,})'|(?P<value>[^\s\"',;&}]{3,}))"
# A name as Kubernetes has them (RFC 1123), with its namespace where it stands before it.
_POD = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?:/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)?"
_NAME = r"[A-Za-z_][\w.-]*"
# `key=value`, `key="value"`, `"key": "value"`; a bare `key: value` is how people write sentences.
_SET = r"(?:\\?[\"']?\s?=\s?\\?[\"']?|\\?[\"']\s?:\s?\\?[\"'])"

# Kind, what the text must hold in lower case for the pattern to be worth trying (nothing = always), pattern.
PATTERNS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    ("secret", ("authorization", "bearer"), re.compile(
        r"(?i)\b(?:authorization\s*[:=]\s*\"?(?:bearer|basic|negotiate)|bearer)\s+(?P<value>[\w.~+/=-]{6,})")),
    ("secret", ("pass", "pwd", "psk", "secret", "key", "token", "credential", "authority-data", "certificate-data",
    "cookie"), re.compile(
        rf"(?i)(?:\b|_|(?<=\d))(?:{_WORDS_OF_SECRETS})\b\\?[\"']?(?:\s{{0,8}}[:=]\s{{0,8}}|\s{{1,8}}(?=[\"']?\S{{0,200}}\d))"
        rf"(?!0x|[\"']0x)\\?{_VALUE}")),
    ("secret", ("token",), re.compile(
        r"(?i)(?:\b|_)token\b\\?[\"']?\s{0,8}(?:[:= ]|%3d)\s{0,8}\\?[\"']?(?!0x)(?=\S{0,200}[A-Za-z])(?=\S{0,200}\d)"
        r"(?P<value>[\w.~+/=-]{8,})")),
    ("secret", ("token",), re.compile(rf"(?i)(?:\b|_)token\s{{0,8}}=\s{{0,8}}{_VALUE}")),
    ("secret", ("akia", "asia", "aiza", "ya29.", "gh", "glpat-", "hf_", "sk-", "sk_", "xox", "eyj"), re.compile(
        r"\b(?:A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|"
        r"hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9-]{20,}|sk_(?:live|test)_\w{8,}|xox[bapr]-[\w-]{8,}|eyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?)")),
    # `//user:password@`; a password may hold any character but these.
    ("secret", ("sig=", "-u "), re.compile(
        r"(?:[?&;]sig=|\bcurl\b[^\n]{0,200}? -u )(?P<value>[^\s&\"']{4,})")),
    ("secret", ("://",), re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://(?P<value>[^/\s:@\"']+:[^/\s\"']+)(?=@)")),
    ("user", ("://",), re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://(?P<value>[^/\s:@\"']+)(?=@)")),
    ("serial", ("serial", "s/n", "sn", "asset"), re.compile(
        r"(?i)(?:\bserial(?:[ ._-]?(?:number|num|no))?|\bs/n|(?<![a-z0-9])sn|\basset[ _]tag)\.?[\"']?"
        r"\s{0,8}[:=#]?\s{0,8}[\"']?"
        r"(?P<value>(?=[A-Z0-9-]*\d)(?!\d{1,5}\b)[A-Z0-9][A-Z0-9-]{5,})(?![a-z])")),
    ("serial", ("die",),
    re.compile(r"(?i)\b(?:v?die[ _-]?id)\b\W{1,20}(?P<value>[0-9a-f]{8}(?:[ -][0-9a-f]{8}){1,4})")),
    ("serial", ("-",), re.compile(rf"\b{_H}{{8}}(?:-{_H}{{8}}){{4}}\b")),
    ("uuid", ("-",), re.compile(rf"(?<!pod)\b{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}\b")),
    ("uuid", (), re.compile(rf"(?<![\w.-])(?=[0-9A-F]*[A-F]|[0-9a-f]*[a-f])(?=[a-fA-F]*[0-9]){_H}{{32}}(?![\w-])")),
    ("serial", ("-",), re.compile(rf"\b{_H}{{2}}(?:-{_H}{{2}}){{7}}\b")),
    ("serial", ("naa", "eui", "ww", "nguid"),
    re.compile(rf"(?i)\b(?:naa|eui|ww[np]n?|nguid)[.:= -]{{1,3}}(?:0x)?(?P<value>{_H}{{16,32}})\b")),
    ("serial", ("iqn.",), re.compile(r"\biqn\.\d{4}-\d\d\.[\w.:-]+")),
    ("serial", ("nqn.",), re.compile(r"\bnqn\.\d{4}-\d\d\.[\w.:-]+")),
    ("mac", ("-",), re.compile(rf"(?<!{_H})(?<!{_H}{_H}[:-])(?:{_H}{{2}}-){{5,6}}{_H}{{2}}(?![:-]?{_H})")),
    ("mac", (":",),
    re.compile(rf"(?<!{_H})(?<!{_H}{_H}:)(?:{_H}{{2}}:){{5}}{_H}{{2}}(?:(?::{_H}{{2}}){{2}})?(?!:?{_H})")),
    ("mac", (".",), re.compile(rf"(?<![\w.]){_H}{{4}}\.{_H}{{4}}\.{_H}{{4}}(?![\w.])")),
    ("ip", ("::", ":0:", ":"), re.compile(
        rf"(?<![0-9a-fA-F:.])(?:(?:{_H}{{1,4}}:){{7}}{_H}{{1,4}}|"
        rf"(?:[23]{_H}{{3}}|f[cdCD]{_H}{{2}}|(?i:fe80)):(?:{_H}{{1,4}}:){{0,5}}:(?:{_H}{{1,4}}:){{0,5}}{_H}{{1,4}})"
        r"(?![0-9a-fA-F:.])")),
    ("user", ("users\\",), re.compile(rf"[A-Z]:\\Users\\(?P<value>{_NAME})")),
    ("user", ("home/", "users/", "sudo", "user", "logname", "owner", "acct", "login", "id=", "accepted"), re.compile(
        rf"(?:/home/|/Users/|\bsudo:\s+|\bsession (?:opened|closed) for user |\b(?:for|by|of) user [\"'(]?|"
        rf"\b(?:[Uu]ser|USER|LOGNAME|SUDO_USER|[Uu]ser[_-]?[Nn]ame|[Uu]serId|UserID|[Oo]wner|acct|[Ll]ogin)"
        rf"{_SET}|"
        rf"\b[ug]id=\d+\(|\bAccepted \w+ for )(?P<value>{_NAME})")),
    ("user", ("user",), re.compile(rf"(?m)\b(?:user|username|USER): (?P<value>{_NAME})(?=\s*$)")),
    ("user", ("user",), re.compile(rf"\b[Uu]ser (?P<value>{_NAME})(?=\(\d+\)| logged| \(uid)")),
    ("words", ("account", "job", "wckey", "comment", "partition"), re.compile(
        rf"\b(?:Account|JobName|Job_Name|job[_-]name|WCKey|Comment|AdminComment|Partition){_SET}(?P<value>[^\s\"',;]{{2,}})")),
    ("host", ("node", "host"), re.compile(
        r"\b(?:NodeList|BatchHost|ReqNodeList|AllocNode:Sid|NodeAddr|NodeHostName|SLURM_\w*NODELIST|NodeName|nodeName|"
        rf"_HOSTNAME|[Hh]ost[_-]?[Nn]ame|HOSTNAME)(?:{_SET}|: )(?P<value>[A-Za-z][\w.\[\],-]*[\w\]])")),
    ("host", ("host", "node"), re.compile(r"\"(?:host|node)\":\s?\"(?P<value>[A-Za-z][\w.-]*)\"")),
    ("host", ("linux ",),
    re.compile(r"(?m)^(?:\[[ \d.]+\] )?Linux (?!version )(?P<value>[A-Za-z][\w.-]*) (?=\d+\.\d+\.\d)")),      # uname -a
    # What stands between the time and the tag of a journal or syslog line.
    ("host", (), re.compile(
        r"(?m)^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) "
        r"(?P<value>[A-Za-z][\w.-]*)(?= [\w./@()-]+(?:\[\d+\])?: )")),
    ("pod", ("pod", "container", "namespace"), re.compile(
        rf"\b(?:pod|pods|pod[_-]?[Nn]ame|podNamespace|namespace|pod[_-]namespace|container|container[_-]?[Nn]ame|"
        rf"io\.kubernetes\.(?:pod|container)\.(?:name|namespace)){_SET}\[?\\?[\"']?(?P<value>{_POD})")),
    ("pod", ("namespace",), re.compile(rf"(?m)\bnamespace: (?P<value>{_POD})(?=\s*$)")),
    ("pod", ("pod ",), re.compile(rf"\b[Pp]od \\?[\"'](?P<value>{_POD})")),
    ("pod", ("pod ",), re.compile(r"\b[Pp]od (?P<value>[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*[a-z0-9])")),
    ("pod", ("pods/",), re.compile(r"/var/log/pods/(?P<value>[^/\s\"']+)")),
)
EMAIL = re.compile(r"(?<![\w.+/-])(?P<name>[\w.+-]+)@(?P<domain>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)\b")
IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]*\d)")
# Four numbers after one of these words are a version.
VERSIONED = re.compile(
    r"(?i)(?<![a-z])(?:ver(?:sion)?|firmware|fw|release|driver|cann|bios|toolkit|runtime|kernel|build|rocm|cuda|nccl)\W{0,3}$|(?<![a-z])v$")
# A pod's uid and a container's id in a control group keep their form there, which readers go by.
POD_UID = re.compile(rf"(?<=pod){_H}{{8}}(?P<mark>[-_])(?:{_H}{{4}}(?P=mark)){{3}}{_H}{{12}}")
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# A key block goes line by line, since each line of a log has its own beginning.
KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN)[\s\S]){0,20000}?(?:-----END|\Z)")
KEY_LINE = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/]{12,}={0,2}|(?<=\\n)[A-Za-z0-9+/]{8,}={0,2}")
# A name with dots and one of the endings that machines have. What vendors and projects publish is no secret, and
# resource names of schedulers begin like that.
ENDINGS = (
    "com", "net", "org", "edu", "gov", "mil", "internal", "intranet", "corp", "lan", "local", "localdomain",
    "example", "cluster", "test", "invalid", "eu", "de", "uk", "fr", "nl", "ch", "cn", "jp", "kr", "in", "ru", "it",
    "es", "se", "no", "fi", "pl", "au", "ca", "us", "io", "ai", "cloud",
)
DOMAIN = re.compile(
    r"(?i)(?:(?<![\w.@/-])|(?<=://))(?P<name>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
    rf"\.(?:{'|'.join(ENDINGS)}))(?![\w-]|\.\w)")
PUBLIC = re.compile(
    r"(?i)(?:^|\.)(?:nvidia\.com|huawei\.com|hiascend\.com|amd\.com|intel\.com|habana\.ai|qualcomm\.com|google\.com|"
    r"kubernetes\.io|k8s\.io|kernel\.org|freedesktop\.org|github\.com|gitee\.com|debian\.org|ubuntu\.com|redhat\.com|"
    r"python\.org|pytorch\.org|volcano\.sh|docker\.io|gcr\.io|ghcr\.io|quay\.io|svc\.cluster\.local|"
    r"systemd\.io)$")
OUTSIDE = re.compile(r"(?i)\.(?:com|net|org|io|ai|sh|cloud)$")       # endings of names that are registered

# Names that say nothing of anybody, or that are ordinary words of a log.
PLAIN_HOSTS = frozenset((
    "localhost", "localhost.localdomain", "(none)", "linux", "host", "node", "server", "debian", "ubuntu", "vm",
    "none", "unknown", "kernel", "local", "null", "true", "false", "default", "redhat", "centos",
))
PLAIN_USERS = frozenset((
    "root", "daemon", "nobody", "HwHiAiUser", "space", "mode", "id", "none", "null", "unknown", "true", "false",
    "default", "system", "slurm", "kube", "the", "a", "an",
))
PLAIN_PODS = frozenset((
    "default", "kube-system", "none", "null", "true", "false", "is", "was", "has", "not", "in", "of", "to", "for",
    "and", "the", "id", "pod", "with",
))
# A login name that is also a word of logs is hidden where it stands for somebody, and nowhere else.
ORDINARY = frozenset((
    "admin", "administrator", "backup", "build", "centos", "cloud", "cluster", "compute", "cuda", "data", "debian",
    "default", "deploy", "device", "docker", "driver", "error", "export", "failed", "fedora", "ftp", "games", "git",
    "gpu", "group", "guest", "home", "host", "huawei", "ascend", "intel", "job", "jobs", "kernel", "kube", "kvm",
    "lab", "lib", "library", "libvirt", "linux", "local", "log", "logs", "mail", "main", "media", "memory", "model",
    "models", "monitor", "mount", "network", "node", "nodes", "npu", "nvidia", "operator", "oracle", "pci", "person",
    "power", "public", "python", "qemu", "ready", "redhat", "release", "reset", "root", "run", "runner", "scratch",
    "script", "scripts", "server", "service", "share", "shared", "slurm", "slot", "software", "spool", "srv", "ssh",
    "state", "storage", "sync", "sys", "system", "task", "temp", "test", "tester", "tests", "tmp", "tools", "train",
    "training", "ubuntu", "user", "users", "vagrant", "vendor", "video", "virtual", "web", "work", "worker",
))


def plain(kind: str, value: str) -> bool:
    """Is it a word that says nothing of anybody?"""
    if kind == "host":
        return value.casefold() in PLAIN_HOSTS
    return value in PLAIN_USERS if kind == "user" else value in PLAIN_PODS if kind == "pod" else False


def canonical(kind: str, value: str) -> str:
    """One form of a value that is written in several ways, so that it has one alias."""
    folded = value.casefold()
    if kind in ("mac", "uuid", "boot", "machine"):
        return re.sub(r"[^0-9a-z]", "", folded)
    if kind == "ip":
        try:
            return ipaddress.ip_address(folded).compressed
        except ValueError:
            return folded
    return folded.split(".")[0] if kind == "host" and not folded[:1].isdigit() else folded
