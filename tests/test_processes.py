"""Who on this machine has something: claims on real processes; what no machine at hand has is a tree that says so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hotplugctl.host import Seen, Sought, aside, processes
from hotplugctl.model import Unknown

from .procs import LIBC, ROOT, ZERO, ProcTree, node, python, running

BIG = 5_000_001     # beyond any pid (PID_MAX_LIMIT is 4 Mi)
ADDRESS = "0000:99:00.0"


def found(pid: int, sought: Sought) -> list[tuple[str, str]]:
    """The ways in which one process has it."""
    seen = processes.holders(sought)
    return [(file.via, file.path) for file in seen.files if file.pid == pid] if isinstance(seen, Seen) else []


@pytest.fixture
def device(tmp_path: Path) -> tuple[str, Sought]:
    """A node of a device that others may have open too, by another name, and the question for it."""
    path = node(tmp_path / "card0")
    return path, Sought(((path, *ZERO),))


@ROOT
def test_a_holder_is_known_by_name_user_and_age(device: tuple[str, Sought]) -> None:
    path, sought = device
    with running("sh", "-c", f"exec 3<{path}; echo ready; read x") as pid:
        seen = processes.holders(sought)
        assert isinstance(seen, Seen)
        (file,) = [file for file in seen.files if file.pid == pid]
        assert (file.command, file.user, file.via, file.path) == ("sh", "root", "fd", path)
        assert file.since == pytest.approx(time.time(), abs=5)
    assert found(pid, sought) == []


@ROOT
def test_a_child_that_inherited_the_descriptor_is_a_holder_too(device: tuple[str, Sought]) -> None:
    path, sought = device
    with running("sh", "-c", f"exec 3<{path}; sleep 60 & echo ready; wait") as pid:
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert found(pid, sought) == found(int(child), sought) == [("fd", path)]
        os.kill(int(child), 9)


@ROOT
@pytest.mark.parametrize(
    "change", [os.unlink, lambda path: Path(path).rename(f"{path}.old")], ids=["deleted", "renamed"])
def test_a_node_that_is_gone_is_still_held(device: tuple[str, Sought], change: Callable[[str], object]) -> None:
    path, sought = device
    with running("sh", "-c", f"exec 3<{path}; echo ready; read x") as pid:
        change(path)
        assert found(pid, sought) == [("fd", path)]


@ROOT
@pytest.mark.parametrize("flags", ["-m", "-mp", "-mU"], ids=["mount", "pid", "user"])
def test_a_holder_in_other_namespaces_is_seen_wherever_the_node_is_bound(
    device: tuple[str, Sought], tmp_path: Path, flags: str
) -> None:
    path, sought = device
    (tmp_path / "elsewhere").touch()
    bind = f"mount --bind {path} {tmp_path}/elsewhere && exec 3<{tmp_path}/elsewhere; echo ready; read x"
    extra = ["-f"] if "p" in flags else ["-r"] if "U" in flags else []
    with running("unshare", flags, *extra, "sh", "-c", bind) as pid:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        holder = int(children[0]) if children else pid
        assert found(holder, sought) == [("fd", path)]


@ROOT
def test_a_mapping_is_a_hold_after_the_descriptor_was_closed(device: tuple[str, Sought]) -> None:
    path, sought = device
    code = ("fd = os.open(sys.argv[1], os.O_RDWR); libc.mmap(None, 4096, 3, mmap.MAP_PRIVATE, fd, ctypes.c_long(0))\n"
            "os.close(fd); ready(); sys.stdin.read()")
    with python(code, path) as pid:
        assert found(pid, sought) == [("map", path)]


@ROOT
def test_a_thread_with_descriptors_of_its_own_is_looked_into(device: tuple[str, Sought]) -> None:
    path, sought = device
    code = ("def work():\n libc.unshare(0x400); os.open(sys.argv[1], os.O_RDONLY); ready(); time.sleep(60)\n"
            "threading.Thread(target=work, daemon=True).start(); sys.stdin.read()")
    with python(code, path) as pid:
        assert not [fd for fd in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{fd}") == path]
        assert found(pid, sought) == [("fd", path)]


@ROOT
def test_threads_hold_on_when_their_leader_has_ended(device: tuple[str, Sought]) -> None:
    path, sought = device
    code = ("def work():\n os.open(sys.argv[1], os.O_RDONLY); time.sleep(0.2); ready(); time.sleep(60)\n"
            "threading.Thread(target=work, daemon=True).start(); libc.syscall(exit_thread, 0)")
    with python(code, path) as pid:
        assert Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        assert found(pid, sought) == [("fd", path)]


def test_a_zombie_holds_nothing_and_hides_nothing() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not processes._may_hold(pid, "/proc")
    os.waitpid(pid, 0)
    assert not processes._may_hold(pid, "/proc")


@pytest.fixture
def function(tmp_path: Path) -> tuple[Path, Sought]:
    """Files like those of a function in sysfs."""
    folder = tmp_path / "devices" / ADDRESS
    folder.mkdir(parents=True)
    for name in ("config", "resource0", "resource0_wc", "rom", "vendor"):
        (folder / name).write_bytes(b"\0" * 4096)
    return folder, Sought((), ((ADDRESS, str(folder)),))


@pytest.mark.parametrize("name", ["config", "resource0", "resource0_wc", "rom"])
def test_an_open_raw_file_of_a_function_is_a_hold_by_whichever_path(function: tuple[Path, Sought], name: str) -> None:
    folder, sought = function
    (folder.parent / "link").symlink_to(folder)
    with running("sh", "-c", f"exec 3<{folder.parent}/link/{name}; echo ready; read x") as pid:
        assert found(pid, sought) == [("fd", str(folder / name))]


def test_a_mapped_register_window_is_a_hold_and_an_attribute_is_none(function: tuple[Path, Sought]) -> None:
    folder, sought = function
    code = ("fd = os.open(sys.argv[1], os.O_RDWR); libc.mmap(None, 4096, 3, mmap.MAP_SHARED, fd, ctypes.c_long(0))\n"
            "os.close(fd); ready(); sys.stdin.read()")
    with python(code, str(folder / "resource0")) as pid:
        assert found(pid, sought) == [("map", str(folder / "resource0"))]
    with running("sh", "-c", f"exec 3<{folder}/vendor; echo ready; read x") as pid:
        assert found(pid, sought) == []


LOOK = """
import encodings.ascii      # later nobody may read it
from hotplugctl.host import Seen, Sought, processes
fd = os.open(sys.argv[1], os.O_RDONLY)
os.setgroups([])
os.setresuid(65534, 65534, 65534)
libc.prctl(4, 1, 0, 0, 0)      # PR_SET_DUMPABLE, which a change of user takes away
child = os.fork()
if not child:
    time.sleep(20)
    os._exit(0)
seen = processes.holders(Sought(((sys.argv[1], 1, 5),)))
print([file.via for file in seen.files if file.pid == child], seen.unseen.kind.name)
print(processes.holders(Sought((("/dev/x", 250, 250),))).kind.name)
os.kill(child, 9)
"""


@ROOT
def test_without_privilege_the_answer_is_open_and_what_was_found_is_told(device: tuple[str, Sought]) -> None:
    path, _ = device
    result = subprocess.run(
        [sys.executable, "-c", LIBC + LOOK, path], capture_output=True, text=True, timeout=30)
    assert result.stdout.split("\n") == ["['fd'] DENIED", "DENIED", ""], result.stderr


# What cannot be had here is a tree.


@pytest.fixture
def proc(tmp_path: Path) -> ProcTree:
    """A made-up /proc."""
    return ProcTree(tmp_path / "proc")


def ways(proc: ProcTree, sought: Sought) -> dict[int, list[str]]:
    """pid -> how it has it."""
    seen = processes.holders(sought, str(proc.root))
    assert isinstance(seen, Seen)
    result: dict[int, list[str]] = {}
    for file in seen.files:
        result.setdefault(file.pid, []).append(file.via)
    return result


@ROOT
def test_a_drm_client_of_another_node_is_told_by_fdinfo_in_a_tree(proc: ProcTree, tmp_path: Path) -> None:
    own, partition = node(tmp_path / "renderD128", (226, 128)), node(tmp_path / "renderD135", (226, 135))
    proc.process(BIG, "rocm", {3: partition}, info={3: f"drm-driver:\tamdgpu\ndrm-pdev:\t{ADDRESS}\n"})
    proc.process(BIG + 1, "xorg", {3: partition}, info={3: "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n"})
    proc.process(BIG + 2, "vllm", {3: own}, info={3: f"drm-pdev:\t{ADDRESS}\n"})
    sought = Sought(((own, 226, 128),), ((ADDRESS, "/none"),))
    assert ways(proc, sought) == {BIG: ["drm"], BIG + 2: ["fd"]}


VM = "anon_inode:[vfio-device]"


@ROOT
def test_a_virtual_machine_that_was_handed_a_function_is_told_in_a_tree(proc: ProcTree, tmp_path: Path) -> None:
    told = "vfio-device-syspath: /sys/devices/pci0000:98/{}\n"
    proc.process(BIG, "qemu", {3: VM}, info={3: told.format(ADDRESS)})
    proc.process(BIG + 1, "qemu", {3: VM}, info={3: told.format("0000:03:00.0")})
    proc.process(BIG + 2, "qemu", {3: node(tmp_path / "12", (243, 0))})
    sought = Sought((("/dev/vfio/12", 243, 0),), ((ADDRESS, "/none"),))
    assert ways(proc, sought) == {BIG: ["vfio"], BIG + 2: ["fd"]}


def test_a_vfio_device_that_no_kernel_tells_leaves_the_answer_open_in_a_tree(proc: ProcTree) -> None:
    proc.process(BIG, "crosvm", {3: VM})
    proc.process(BIG + 1, "qemu", {3: VM, 4: "/dev/vfio/13"})
    sought = Sought((("/dev/vfio/12", 243, 0),), ((ADDRESS, "/none"),))
    seen = processes.holders(sought, str(proc.root))
    assert isinstance(seen, Unknown)
    assert f"pid {BIG} (crosvm) has a VFIO device" in seen.why
    alone = Sought(sought.nodes, sought.functions, "vfio-pci")
    assert ways(proc, alone) == {BIG: ["vfio"], BIG + 1: ["vfio"]}
    other_driver = Sought((("/dev/accel/accel0", 261, 0),), ((ADDRESS, "/none"),), "labaccel")
    assert ways(proc, other_driver) == {}


def test_exported_memory_is_a_hold_where_its_driver_has_one_card_in_a_tree(proc: ProcTree) -> None:
    proc.process(BIG, "mpi", {3: "/dmabuf:"}, info={3: "size:\t4096\ncount:\t2\nexp_name:\tamdgpu\n"})
    proc.process(BIG + 1, "mpi", {3: "/dmabuf:"}, info={3: "exp_name:\tudmabuf\n"})
    assert ways(proc, Sought((), ((ADDRESS, "/none"),), "amdgpu")) == {BIG: ["dma-buf"]}
    assert ways(proc, Sought((), ((ADDRESS, "/none"),))) == {}


def test_a_mapped_node_is_known_by_its_name_where_map_files_are_denied_in_a_tree(proc: ProcTree) -> None:
    line = "7f0000000000-7f0000001000 rw-s 00000000 00:05 {} /dev/card0{}\n"
    proc.process(BIG, "app", maps=line.format(77, " (deleted)"))
    proc.process(BIG + 1, "app", maps=line.format(78, "0"))
    assert ways(proc, Sought((("/dev/card0", 250, 7),))) == {BIG: ["map"]}


def test_what_another_source_names_is_listed_also_after_it_has_ended_in_a_tree(proc: ProcTree) -> None:
    proc.process(BIG, "rocm")
    sought = Sought((), (), None, ((BIG, "kfd", "/sys/a"), (BIG + 1, "kfd", "/sys/b")))
    seen = processes.holders(sought, str(proc.root))
    assert isinstance(seen, Seen)
    assert [(f.pid, f.command, f.via, f.path) for f in seen.files] == [
        (BIG, "rocm", "kfd", "/sys/a"), (BIG + 1, "(ended)", "kfd", "/sys/b")]


def test_hidden_processes_leave_the_answer_open_in_a_tree(tmp_path: Path) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    seen = processes.holders(Sought((("/dev/x", 250, 7),)), str(tmp_path / "proc"))
    assert isinstance(seen, Unknown)
    assert "hidepid" in seen.why


def test_processes_outside_the_pid_namespace_leave_the_answer_open_in_a_tree(proc: ProcTree) -> None:
    (proc.root / "self/ns").mkdir(parents=True)
    (proc.root / "self/ns/pid").symlink_to("pid:[4026532000]")
    seen = processes.holders(Sought((("/dev/x", 250, 7),)), str(proc.root))
    assert isinstance(seen, Unknown)
    assert "pid namespace" in seen.why


def test_nobody_is_said_when_everybody_was_looked_into_in_a_tree(proc: ProcTree) -> None:
    proc.process(BIG, "sh", {0: "/dev/null", 1: "pipe:[1]", 2: "anon_inode:[eventfd]"})
    assert processes.holders(Sought((("/dev/x", 250, 7),)), str(proc.root)) == Seen()
    assert processes.holders(Sought()) == Seen()


def test_one_that_hangs_keeps_nobody_waiting() -> None:
    looked, never = [], threading.Event()

    def look(number: int) -> None:
        if number % 3 == 0:
            never.wait()
        looked.append(number)

    started = time.monotonic()
    assert aside.each(range(1, 8), look, 0.05) == [3, 6]
    assert time.monotonic() - started < 1
    assert looked == [1, 2, 4, 5, 7]
    never.set()


def test_an_error_while_looking_is_not_lost() -> None:
    def look(_: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        aside.each([1], look, 1)


def test_a_scan_of_this_machine_takes_milliseconds(record_property: Callable[[str, object], None]) -> None:
    sought = Sought((("/dev/x", 250, 7),), ((ADDRESS, "/none"),), "labaccel")
    processes.holders(sought)
    started = time.perf_counter()
    processes.holders(sought)
    took = time.perf_counter() - started
    record_property("scan_ms", took * 1000)
    assert took < 1
