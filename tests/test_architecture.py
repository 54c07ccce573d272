"""The arrows of the architecture, held by reading the imports and calls of every module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "hotplugctl"
MODULES = sorted(PACKAGE.rglob("*.py"))
STDLIB_ONLY_OURS = {"errors", "model"}

# Pure: values in, values out. What each may import of ours, beside the model and the errors.
PURE: dict[str, set[str]] = {
    "model": set(), "errors": set(), "lifecycle": set(), "notes": set(), "select": set(),
    "readers/header.py": set(), "readers/registers.py": set(), "readers/capabilities.py": {"readers"},
    "readers/uevent_filter.py": set(), "readers/filling.py": set(), "readers/layouts.py": set(),
    "readers/sections.py": set(), "readers/lspci_forms.py": set(),
    "plugs/slurm/gres.py": set(), "plugs/slurm/text.py": {"plugs"}, "plugs/slurm/moves.py": {"plugs"},
    "drain/site.py": {"drain"}, "drain/plan.py": {"drain"}, "drain/against.py": {"drain"},
    "drain/pulling.py": {"drain"}, "drain/workers.py": {"drain"}, "drain/undo.py": {"drain"},
    "drain/words.py": {"drain"},
    **{f"plugs/kubernetes/{name}.py": {"plugs"} for name in (
        "wire", "kubelet", "recognise", "pods", "nodes", "devices", "placing")},
    "rules/judge.py": {"rules"}, "rules/facts.py": {"rules"}, "rules/weaken.py": set(),
    "diagnose": {"diagnose", "rules"},
    "watch/moves.py": set(), "watch/signs.py": {"watch"}, "watch/ending.py": {"watch", "select"},
    "output/documents.py": {"output", ""}, "output/changes.py": {"output"}, "output/live.py": {"output"},
    "output/tables.py": {"output"}, "output/views.py": {"output", "lifecycle"},
    "output/verdicts.py": {"output", "diagnose"}, "output/html.py": {"output"},
    "output/sections.py": {"output", "diagnose"}, "output/drawing.py": {"output"},
    "output/branches.py": {"output"}, "output/signs.py": {"output"},
    "output/markup.py": {"output", "diagnose"}, "output/sheet.py": set(), "retold.py": {"options", "select"},
}
SYSTEM = {"os", "time", "subprocess", "socket", "fcntl", "shutil", "signal"}
# Who may touch the system, and with what, beside host/.
MAY_TOUCH: dict[str, set[str]] = {
    "records.py": {"os", "fcntl"}, "config.py": {"os"}, "rules/load.py": {"open"},
    "rules/shapes.py": {"open"}, "expectation.py": {"os"}, "readers/archives.py": {"os"},
    "readers/streams.py": {"os", "open"},
    "readers/gathered.py": {"os", "open"},
    "show.py": {"os"}, "__main__.py": {"os", "signal"}, "listener.py": {"time"},
    "readers/uevents.py": {"socket", "time"}, "readers/uevent_filter.py": set(),
    "drain/waiting.py": {"signal"}, "watch/live.py": {"time"}, "watch/run.py": {"open"},
    "plugs/spool.py": {"os", "fcntl"}, "plugs/webhook.py": {"open"},
    "plugs/kafka.py": {"time"}, "plugs/courier.py": {"time"}, "plugs/delivery.py": {"time"},
    "plugs/lanes.py": {"time"}, "plugs/hooks.py": {"os", "shutil", "open"},
    "plugs/kubernetes/__init__.py": {"os", "shutil"}, "plugs/kubernetes/api.py": {"time"},
    "plugs/slurm/__init__.py": {"os", "time"}, "plugs/slurm/ask.py": {"os"}, "plugs/slurm/occupy.py": {"os", "time"},
}
HEAVY = {
    "rich", "pyudev", "yaml", "tabulate", "pydantic", "confluent_kafka", "grpc", "ClusterShell", "hyperscan", "re2",
}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def rule_for(path: Path, table: dict[str, set[str]]) -> set[str] | None:
    whole = name(path)
    return next((table[key] for key in table if whole in (key, f"{key}.py") or whole.startswith(f"{key}/")), None)


def imports(path: Path, *, top_only: bool = False) -> list[tuple[str, int]]:
    """(module, line): `a.b` of the outside, `hotplugctl.x` of ours with the relative dots resolved."""
    tree = ast.parse(path.read_text())
    package = ["hotplugctl", *path.relative_to(PACKAGE).parent.parts]
    typing_only = {
        id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in tree.body if top_only else ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(f"{module}.{alias.name}" if not node.module else module, node.lineno) for alias in node.names]
    return found


@pytest.mark.parametrize("path", [p for p in MODULES if rule_for(p, PURE) is not None], ids=name)
def test_pure_modules_import_only_the_model_and_what_is_pure(path: Path) -> None:
    allowed = STDLIB_ONLY_OURS | (rule_for(path, PURE) or set())
    for module, line in imports(path):
        if module.startswith("hotplugctl"):
            part = module.split(".")[1] if "." in module else ""
            assert part in allowed or part == "__version__", f"{name(path)}:{line} imports {module}"
        else:
            assert module.split(".")[0] not in SYSTEM, f"{name(path)}:{line} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_host_touches_the_system(path: Path) -> None:
    if name(path).startswith("host/"):
        return
    allowed = MAY_TOUCH.get(name(path), set())
    for module, line in imports(path):
        root = module.split(".")[0]
        assert root not in SYSTEM or root in allowed, f"{name(path)}:{line} imports {module}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            assert "open" in allowed, f"{name(path)}:{node.lineno} opens a file"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_one_place_prints_and_one_ends_the_program(path: Path) -> None:
    if name(path) in ("show.py", "__main__.py", "entry.py"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            said = ast.unparse(node.func)
            speaks = ("print", "sys.exit", "sys.stdout.write", "sys.stderr.write")
            assert said not in speaks, f"{name(path)}:{node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_processes_are_made_in_one_file(path: Path) -> None:
    calls = [ast.unparse(n.func) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    made = {call for call in calls if call.startswith("subprocess.") or call in ("os.fork", "os.system", "os.popen")}
    assert not made or name(path) == "host/child.py"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_heavy_libraries_are_imported_when_used(path: Path) -> None:
    if name(path) in ("rules/shapes.py", "rules/grammar.py", "rules/schema.py"):
        return  # themselves imported only when there is YAML to read
    for module, line in imports(path, top_only=True):
        assert module.split(".")[0] not in HEAVY, f"{name(path)}:{line} imports {module} at the top"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_has_one_subject(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350, "a file this long has two subjects"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_the_package_asserts_nothing_and_hides_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert), f"{name(path)}:{node.lineno} asserts; raise what the reader can act on"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{name(path)}:{node.lineno} catches everything"
