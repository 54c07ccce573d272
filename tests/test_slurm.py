"""Slurm: what its commands print, which placeholders follow from it, and all of it against real daemons."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.host.live import Live
from hotplugctl.model import Accelerator, Unknown
from hotplugctl.plugs import slurm as plug
from hotplugctl.plugs.slurm import Slurm, gres, text
from hotplugctl.plugs.slurm.ask import TOP
from hotplugctl.plugs.slurm.moves import Place, Seen, holders, moves, superfluous, unaccounted
from hotplugctl.plugs.slurm.text import Job, Used

from . import slurm

# What Slurm 22.05 prints, shortened.
JOB = """\
JobId=3 ArrayJobId=3 ArrayTaskId=2 JobName=train
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   TRES=cpu=1,node=1,billing=1
   JOB_GRES=npu:ascend910b:3,dsp:d1:0
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=npu:ascend910b:2(IDX:0,3),dsp:d1:0(IDX:)
     Nodes=m[08-09] CPU_IDs=1-2 Mem=0 GRES=npu:ascend910b:1(IDX:1-2),bandwidth:4K,dsp:d1:0(IDX:N/A)
   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0
   Comment=a
   TresPerNode=gres:npu:1
"""
NODE = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=8
   Gres=npu:ascend910b:4,tmp:no_consume:1
   GresDrain=N/A
   GresUsed=dsp:0,npu:a:2(IDX:0-1),npu:b:1(IDX:3),tmp:0(IDX:N/A)
   OS=Linux 6.1 #1 SMP
   State=MIXED+DRAIN* ThreadsPerCore=1 TmpDisk=0
   Partitions=all,long
   Reason=fan [bay 3] is loud [root@1795991323]
"""


# Text


@pytest.mark.parametrize(("written", "names"), [
    ("n1", ["n1"]), ("n[1-3,5],m07", ["n1", "n2", "n3", "n5", "m07"]),
    ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
    ("/dev/davinci[0-2]", ["/dev/davinci0", "/dev/davinci1", "/dev/davinci2"]), ("", []),
])
def test_a_list_of_hosts_or_files_is_written_out(written: str, names: list[str]) -> None:
    assert list(gres.expand(written)) == names


def test_a_range_that_is_none_is_said_and_a_huge_one_is_not_written_out() -> None:
    for wrong in ("n[1-x]", "n[0-99999999]"):
        with pytest.raises(ValueError, match="no range"):
            gres.expand(wrong)


def test_indices_are_read_node_by_node_and_may_be_empty() -> None:
    name, used = text.job(JOB)
    assert name == "train"
    assert used == (
        Used("n1", "npu", "ascend910b", (0, 3)), Used("n1", "dsp", "d1", ()),
        Used("m08", "npu", "ascend910b", (1, 2)), Used("m08", "dsp", "d1", ()),
        Used("m09", "npu", "ascend910b", (1, 2)), Used("m09", "dsp", "d1", ()),
    )
    assert text.used("gpu:b:0(IDX:),gpu:a:1(IDX:3)", "n1") == [Used("n1", "gpu", "a", (3,))]    # Slurm 22.05


@pytest.mark.parametrize("forged", [
    "JobName=x\n   UserId=root(0)\n   JOB_GRES=npu:1\n     Nodes=n1 CPU_IDs=7 Mem=0 GRES=npu:1(IDX:3)",
    "Comment=a\n   JOB_GRES=npu:1\n     Nodes=n1 CPU_IDs=7 Mem=0 GRES=npu:1(IDX:3)",
])
def test_a_job_whose_name_or_comment_looks_like_an_answer_is_not_believed(forged: str) -> None:
    key = forged.partition("=")[0]
    with pytest.raises(ValueError, match="may be part of its name"):
        text.job(re.sub(rf"{key}=\w+", forged.replace("\\", ""), JOB))


def test_a_job_without_gres_has_no_index() -> None:
    assert text.job("JobId=9 JobName=a b\n   UserId=root(0) G\n   MinCPUsNode=1\n") == ("a b", ())


def test_the_queue_names_a_task_of_an_array_and_what_a_job_waits_for() -> None:
    lines = """\
5_1|6|RUNNING|0|root|1795991344|(null)|None|365-00:00:00|4294901756||gres:npu:1
7|7|PENDING|0|root|N/A|afterany:5_1(unfulfilled)|Dependency|UNLIMITED|4294967293|n1|gres:npu:ascend910b:1
17+1|18|RUNNING|1000|ada|1795991344||None|1:00:00|1||gres/npu:2
8|8|PENDING|0|root|N/A|(null)|Resources|UNLIMITED|9||N/A
"""
    task, waits, part, plain = text.queue(lines)
    assert (task.ref, task.since, task.gres, task.limited) == ("5_1", 1795991344.0, ("npu", None), True)
    assert (waits.after, waits.node, waits.gres, waits.limited) == ("5_1", "n1", ("npu", "ascend910b"), False)
    assert (part.ref, part.user, part.gres) == ("18", "ada", ("npu", None))
    assert (plain.after, plain.gres, plain.since, plain.reason) == (None, None, None, "Resources")


@pytest.mark.parametrize("line", ["", "slurm_load_jobs error: Unable to contact slurm controller", "1|2|3"])
def test_what_is_no_queue_is_not_taken_for_an_empty_one(line: str) -> None:
    if line:
        with pytest.raises(ValueError, match="squeue says"):
            text.queue(line)
    else:
        assert text.queue(line) == ()


def test_slurmd_numbers_a_name_over_all_its_types_in_the_order_it_prints() -> None:
    # Slurm 22.05 for Gres=npu:b:2,dsp:1,npu:a:1,npu:b:1: it sorts, so gres.conf alone does not tell.
    found = gres.of_slurmd("""\
slurmd: error: something about a plugin
slurmd: Gres Name=dsp Type=(null) Count=1 Index=0 ID=7369572 File=/dev/dsp0 (null)
slurmd: Gres Name=npu Type=b Count=2 Index=1 ID=7696494 File=/dev/npu3,/dev/npu1 (null)
slurmd: Gres Name=npu Type=b Count=1 Index=0 ID=7696494 File=/dev/npu0 (null)
slurmd: Gres Name=npu Type=a Count=1 Index=2 ID=7696494 File=/dev/npu[2] (null)
slurmd: Gres Name=shard Type=(null) Count=8 ID=1 File=/dev/npu[0-1] (null)
slurmd: Gres Name=pair Type=(null) Count=1 ID=1 File=/dev/dri/card0,/dev/dri/renderD128 (null)
slurmd: Gres Name=tmp Type=(null) Count=100 ID=7696494 (null)
""")
    assert [(one.name, one.type, one.index, one.files) for one in found.devices] == [
        ("dsp", None, 0, ("/dev/dsp0",)), ("npu", "b", 0, ("/dev/npu3",)), ("npu", "b", 1, ("/dev/npu1",)),
        ("npu", "b", 2, ("/dev/npu0",)), ("npu", "a", 3, ("/dev/npu2",)),
        ("pair", None, 0, ("/dev/dri/card0", "/dev/dri/renderD128")),
    ]
    assert found.shared == (("shard", ("/dev/npu0", "/dev/npu1")),)
    assert found.counted == ("tmp",)


def test_gres_conf_stands_in_for_slurmd_only_where_it_tells_the_order() -> None:
    conf = """\
# Name=npu File=/dev/old
NodeName=n[2-3] Name=npu File=/dev/other[0-1]
NodeName=n1 Name=npu Type=d File=/dev/davinci[0-1]   # two
Name=npu type=d File=/dev/davinci2
"""
    assert [(one.index, one.files) for one in gres.of_file(conf, "n1").devices] == [
        (0, ("/dev/davinci0",)), (1, ("/dev/davinci1",)), (2, ("/dev/davinci2",)),
    ]
    with pytest.raises(ValueError, match="several types"):
        gres.of_file(conf + "Name=npu Type=e File=/dev/davinci9\n", "n1")
    with pytest.raises(ValueError, match="AutoDetect"):
        gres.of_file("AutoDetect=nvml\n", "n1")


def test_a_node_is_closed_by_any_word_of_its_state_and_its_reason_is_whole() -> None:
    node = text.node(NODE)
    assert node.closed
    assert node.words == {"MIXED", "DRAIN"}
    assert node.reason == "fan [bay 3] is loud"
    assert node.partitions == ("all", "long")
    assert node.used == {"npu": {0, 1, 3}}
    assert node.counts == {"dsp": 0, "npu": 3, "tmp": 0}
    assert node.not_consumed == ("tmp",)
    assert not text.node(NODE.replace("MIXED+DRAIN*", "IDLE+PLANNED")).closed
    assert text.node(NODE.replace("MIXED+DRAIN*", "DOWN*")).closed
    with pytest.raises(ValueError, match="not found"):
        text.node("Node n7 not found")


def test_settings_and_partitions_are_read_by_name() -> None:
    assert text.settings("Configuration data\nPreemptType             = preempt/qos\nSelectType = select/linear\n") == {
        "PreemptType": "preempt/qos", "SelectType": "select/linear",
    }
    said = "PartitionName=all\n   DisableRootJobs=YES\n   PriorityTier=3 OverSubscribe=EXCLUSIVE\n   State=UP\n"
    assert text.partition(said) == text.Partition("all", up=True, root=False, whole_nodes=True, tier=3)
    for read in (text.settings, text.partition):
        with pytest.raises(ValueError, match="says 'Partition nope not found'"):
            read("Partition nope not found")


def test_an_error_is_slurms_sentence_and_want_of_rights_is_told_apart() -> None:
    said = "sbatch: lua: hello\nsbatch: error: Batch job submission failed: Access/permission denied\n"
    assert text.sentence(said) == "Batch job submission failed: Access/permission denied"
    assert text.denied(text.sentence(said))
    assert text.sentence("Invalid user id\n") == "Invalid user id"
    assert text.denied("Invalid user id")
    assert not text.denied(text.sentence("sbatch: error: Invalid generic resource (gres) specification"))


# Moves

PLACES = tuple(Place("n1", "npu", None, index) for index in range(4))


def running(ref: str, *indices: int, ours: bool = False, type: str | None = None) -> Seen:
    job = Job(ref, "RUNNING", 0, "root", None, None, "None", False, TOP, "n1" if ours else None, ("npu", None))
    return Seen(job, "", (Used("n1", "npu", type, indices),), ours)


def waiting(ref: str, after: str | None = None, reason: str = "Resources") -> Seen:
    return Seen(Job(ref, "PENDING", 0, "root", None, after, reason, False, TOP, "n1", ("npu", None)), "", (), True)


KIND = ("n1", "npu", None)


@pytest.mark.parametrize(("wanted", "seen", "cancel", "submit", "closed"), [
    ([0], [], [], [None], False),
    ([2], [], [], [None] * 3, False),                                       # 0 and 1 are given first
    ([2], [running("5", 0)], [], [None] * 2, False),
    ([2], [waiting("9"), waiting("10")], [], [None], False),
    ([0], [running("9", 0, ours=True)], [], [], True),
    ([0], [running("9", 0, ours=True), running("10", 1, ours=True)], ["10"], [], True),
    ([1], [running("9", 0, ours=True)], [], [None], False),                 # it stays, or the next lands there too
    ([0], [running("5", 0)], [], ["5"], False),
    ([0], [running("5", 0), waiting("9", "5")], [], [], True),
    ([0], [running("5", 0), waiting("9", "5"), waiting("10", "5")], ["10"], [], True),
    ([0, 1], [running("5", 0, 1), waiting("9", "5"), waiting("10", "5")], [], [], True),
    ([0, 1], [running("5", 0), running("9", 1, ours=True), waiting("10", "5")], [], [], True),
    ([0], [running("6", 0), waiting("9", "5")], ["9"], ["6"], False),       # another job came in between
    ([0], [running("6", 0), waiting("9")], ["9"], ["6"], False),
    ([0], [waiting("9", "5")], ["9"], [None], False),
    ([0], [waiting("9", reason="JobHeldAdmin")], ["9"], [None], False),
    ([0], [running("5", 0), running("9", 3, ours=True)], ["9"], ["5"], False),
])
def test_the_next_moves(
    wanted: list[int], seen: list[Seen], cancel: list[str], submit: list[str | None], closed: bool
) -> None:
    next_ = moves(tuple(PLACES[index] for index in wanted), tuple(seen), PLACES)
    assert (list(next_.cancel), [after for _, after in next_.submit], next_.closed) == (cancel, submit, closed)
    assert all(kind == KIND for kind, _ in next_.submit)


@pytest.mark.parametrize(("shown", "seen", "hidden"), [
    ("npu:1(IDX:0)", [running("5", 0)], []),
    ("npu:2(IDX:0,2)", [running("5", 0)], [2]),                 # PrivateData=jobs
    ("npu:0(IDX:N/A)", [running("5", 0)], [0, 2]),              # it has ended meanwhile
    ("npu:1", [running("5", 0)], []),                           # Slurm 22.05, a GRES without types
    ("npu:2", [running("5", 0)], [0, 2]),
    ("npu:0", [], []),
])
def test_a_use_that_no_job_explains_is_noticed(shown: str, seen: list[Seen], hidden: list[int]) -> None:
    node = text.node(re.sub("GresUsed=.*", f"GresUsed={shown}", NODE))
    found = unaccounted((PLACES[0], PLACES[2]), tuple(seen), {"n1": node})
    assert [place.index for place in found] == hidden


def test_an_attempt_given_up_leaves_what_is_of_use_and_nothing_else() -> None:
    seen = (
        running("5", 1), running("9", 0, ours=True), running("10", 3, ours=True), waiting("11"), waiting("12", "5"),
        waiting("13", "4"),
    )
    assert superfluous(PLACES[:2], seen) == ("10", "11", "13")


def test_a_type_that_differs_from_ours_means_that_the_numbering_is_not_understood() -> None:
    places = (replace(PLACES[0], type="b"),)
    assert holders(places, [running("5", 0, type="b")])
    with pytest.raises(ValueError, match="index 0 of npu is a, not b"):
        holders(places, [running("5", 0, type="a")])


def test_no_order_to_slurm_touches_the_gres_of_a_node() -> None:
    # `scontrol update NodeName= Gres=` is accepted, and the next reconfigure kills the jobs (Slurm 22.05, measured).
    package = Path(plug.__file__).parent
    orders = [
        ast.unparse(call)
        for path in package.glob("*.py") for call in ast.walk(ast.parse(path.read_text())) if isinstance(call, ast.Call)
        if [getattr(one, "value", None) for one in call.args[:2]] == ["scontrol", "update"]
    ]
    assert len(orders) == 2
    fields = {field for order in orders for field in re.findall(r"(\w+)=", order)}
    assert fields == {"JobId", "TimeLimit", "NodeName", "State", "Reason"}


# Real daemons


class Site(slurm.Cluster):
    """A node with four NPUs and a DSP as plain files, and an operator's hotplugctl on it."""

    def __init__(self, folder: Path) -> None:
        self.files = tuple(str(folder / f"davinci{index}") for index in range(4))
        self.dsp = str(folder / "dsp0")
        for file in (*self.files, self.dsp):
            Path(file).touch()
        super().__init__(folder, [slurm.Gres("npu", self.files, "ascend910b"), slurm.Gres("dsp", (self.dsp,))])
        self.kept: dict[str, Any] = {}

    @property
    def plug(self) -> Slurm:
        return Slurm(Live(), str(self.conf))

    def card(self, *indices: int) -> Accelerator:
        return Accelerator("0000:3b:00.0", nodes=tuple(self.files[index] for index in indices))

    def keep(self, ours: Any) -> None:
        self.kept = json.loads(json.dumps(ours))

    def look(self, *indices: int, scope: str = "device") -> Any:
        return self.plug.placement(self.card(*indices), scope, self.kept)

    def cordon(self, *indices: int, scope: str = "device", deadline: float = 20) -> None:
        self.plug.cordon(self.card(*indices), scope, self.kept, self.keep, deadline)

    def uncordon(self) -> None:
        self.plug.uncordon(self.kept, 15)

    def ours(self) -> dict[str, str]:
        """Placeholders that have not ended, with the index each holds."""
        return {
            job: self.indices(job) for job, (state, name, _) in self.jobs().items()
            if name.startswith("hotplugctl-") and state != "COMPLETING"
        }

    def fill(self, *options: str) -> dict[str, str]:
        """A job for each of four NPUs; those that run, with their index."""
        jobs = [self.submit("--gres=npu:1", *options) for _ in range(4)]
        self.wait(lambda: all(self.jobs()[job][0] == "RUNNING" or self.jobs()[job][2] in ("Resources", "Priority")
                              for job in jobs), "the jobs are placed")
        return {job: self.indices(job) for job in jobs if self.jobs()[job][0] == "RUNNING"}


@pytest.fixture(scope="module")
def one_site() -> Iterator[Site]:
    lacking = slurm.missing()
    if lacking or os.geteuid() != 0:
        why = f"needs Slurm: there is no {', '.join(lacking)} (make packages)" if lacking else "needs root"
        if os.environ.get("HOTPLUGCTL_REQUIRE_LAB") == "1":
            pytest.fail(why)
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="hotplugctl-slurm-"))
    folder.chmod(0o755)     # an unprivileged operator reads the configuration too
    made = Site(folder)
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def site(one_site: Site) -> Iterator[Site]:
    one_site.kept = {}
    yield one_site
    one_site.clear()


def test_new_jobs_avoid_an_idle_index_that_was_closed_and_get_it_back(site: Site) -> None:
    assert site.look(2).closed is False
    site.cordon(2)
    seen = site.look(2)
    assert (seen.closed, seen.ours, seen.work, seen.blockers) == (True, True, (), ())
    assert seen.where == "node n1, gres npu:ascend910b, index 2"
    assert list(site.ours().values()) == ["2"]
    placed = site.fill()
    assert sorted(placed.values()) == ["0", "1", "3"]
    site.uncordon()
    left = next(job for job in site.jobs() if job not in placed)
    site.wait(lambda: site.indices(left) == "2", "the fourth job runs on the index")
    assert site.ours() == {}
    assert site.look(2).closed is False


def test_a_job_on_the_index_ends_in_its_own_time_and_none_follows_it(site: Site, tmp_path: Path) -> None:
    job = site.running("--gres=npu:1", run=f"sleep 4; echo end > {tmp_path}/said")
    assert site.indices(job) == "0"
    site.cordon(0)
    seen = site.look(0)
    assert (seen.closed, seen.ours) == (True, True)
    assert [(work.id, work.name, work.user, work.state, work.stop) for work in seen.work] == [
        (job, "user", "root", "running", f"scancel {job}"),
    ]
    assert abs(seen.work[0].since - time.time()) < 30
    placed = site.fill()
    assert sorted(placed.values()) == ["1", "2", "3"]
    site.wait(lambda: list(site.ours().values()) == ["0"], "the placeholder has the index")
    assert (tmp_path / "said").read_text() == "end\n"
    seen = site.look(0)
    assert (seen.closed, seen.work) == (True, ())


def test_a_placeholder_that_landed_beside_the_index_is_noticed_and_mended(site: Site) -> None:
    placed = {index: job for job, index in site.fill().items()}
    site.cordon(2)
    site.scancel(placed["0"], placed["1"])
    site.wait(lambda: site.look(0).work == site.look(1).work == (), "0 and 1 are idle")
    site.scancel(placed["2"])
    site.wait(lambda: list(site.ours().values()) == ["0"], "the placeholder took the lowest idle index")
    seen = site.look(2)
    assert (seen.closed, seen.work) == (False, ())
    site.cordon(2)
    assert site.look(2).closed is True
    assert list(site.ours().values()) == ["2"]


def test_a_card_of_two_chips_is_closed_when_both_are(site: Site) -> None:
    job = site.running("--gres=npu:1")
    site.cordon(0, 2)
    seen = site.look(0, 2)
    assert (seen.closed, [work.id for work in seen.work]) == (True, [job])
    assert seen.where == "node n1, gres npu:ascend910b, indices 0, 2"
    assert sorted(site.ours().values()) == ["", "2"]
    site.scancel(job)
    site.wait(lambda: sorted(site.ours().values()) == ["0", "2"], "both are held")
    assert site.look(0, 2).closed is True
    site.scancel(next(job for job, index in site.ours().items() if index == "2"))
    site.wait(lambda: len(site.ours()) == 1, "one is open again")
    assert site.look(0, 2).closed is False
    site.uncordon()
    assert site.ours() == {}


def test_a_card_in_two_kinds_of_gres_is_closed_in_both(site: Site) -> None:
    card = replace(site.card(0), nodes=(site.files[0], site.dsp))
    site.plug.cordon(card, "device", {}, site.keep, 10)
    assert site.plug.placement(card, "device", site.kept).where == (
        "node n1, gres dsp, index 0; node n1, gres npu:ascend910b, index 0"
    )
    assert site.plug.placement(card, "device", site.kept).work == ()
    placed = site.command("squeue", "-h", "-o", "%b", "-t", "R").split()
    assert sorted(placed) == ["gres:dsp:1", "gres:npu:ascend910b:1"]
    site.uncordon()
    assert site.ours() == {}


def test_only_the_task_of_an_array_that_has_the_index_is_waited_for(site: Site) -> None:
    array = site.submit("--gres=npu:1", "--array=1-2")
    site.wait(lambda: len([1 for job, (state, *_) in site.jobs().items() if state == "RUNNING"]) == 2, "both run")
    site.cordon(0)
    task = site.look(0).work[0].id
    assert re.fullmatch(rf"{array}_[12]", task)
    site.scancel(task)
    site.wait(lambda: list(site.ours().values()) == ["0"], "the placeholder follows the task, not the array")
    assert len(site.jobs()) >= 2


def in_a_child(what: Callable[[], None]) -> int:
    """A process that does it; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            what()
        finally:
            os._exit(0)
    return pid


def test_a_cordon_that_was_killed_is_taken_up_without_a_second_placeholder(site: Site, tmp_path: Path) -> None:
    record = tmp_path / "kept.json"

    def keep(ours: Any) -> None:
        record.write_text(json.dumps(ours))

    def crash() -> None:
        site.plug.cordon(site.card(0), "device", {}, keep, 20)

    pid = in_a_child(crash)
    site.wait(site.ours, "it has submitted a placeholder")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    site.kept = json.loads(record.read_text())
    site.cordon(0)
    assert list(site.ours().values()) == ["0"]
    site.uncordon()
    assert site.ours() == {}
    site.uncordon()     # once more is no harm


def test_what_a_killed_cordon_left_beside_the_index_is_cleared_away(site: Site) -> None:
    site.cordon(0)
    beside = site.running("--gres=npu:1", f"--priority={TOP}", name=next(name for _, name, _ in site.jobs().values()))
    site.command("scontrol", "update", f"JobId={beside}", "TimeLimit=UNLIMITED")
    assert sorted(site.ours().values()) == ["0", "1"]
    assert site.look(0).closed is False
    site.cordon(0)
    assert list(site.ours().values()) == ["0"]
    assert site.look(0).closed is True


def test_nothing_is_submitted_that_could_not_be_remembered(site: Site) -> None:
    def full(ours: Any) -> None:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        site.plug.cordon(site.card(0), "device", {}, full, 5)
    assert site.jobs() == {}


def test_jobs_of_other_drains_and_of_people_are_left_alone(site: Site) -> None:
    theirs = site.running("--gres=npu:1", name="hotplugctl-0badcafe")
    site.cordon(1)
    site.uncordon()
    assert set(site.ours()) == {theirs}


def test_without_a_free_core_the_cordon_says_what_slurm_waits_for_and_leaves_nothing(site: Site) -> None:
    site.running(f"--ntasks={slurm.CORES}")
    with pytest.raises(HotplugError) as raised:
        site.cordon(1, deadline=1.5)
    assert raised.value.exit is Exit.FAILED
    assert "waits: Resources" in raised.value.why or "waits: Priority" in raised.value.why
    assert raised.value.hint == "hotplugctl drain 0000:3b:00.0 --scope node"
    assert site.ours() == {}


def test_a_limit_of_the_partition_does_not_end_the_placeholder(site: Site) -> None:
    site.command("scontrol", "update", "PartitionName=all", "MaxTime=1")
    try:
        site.cordon(0)
        assert site.command("squeue", "-h", "-t", "R", "-o", "%l").strip() == "UNLIMITED"
    finally:
        site.command("scontrol", "update", "PartitionName=all", "MaxTime=INFINITE")


def test_a_partition_that_gives_whole_nodes_is_a_blocker(site: Site) -> None:
    site.command("scontrol", "update", "PartitionName=all", "OverSubscribe=EXCLUSIVE")
    try:
        assert [blocker.lifted_by for blocker in site.look(0).blockers] == ["--scope node"]
        with pytest.raises(HotplugError, match="shares the node among jobs"):
            site.cordon(0)
        assert site.jobs() == {}
    finally:
        site.command("scontrol", "update", "PartitionName=all", "OverSubscribe=NO")


def test_an_unprivileged_operator_is_told_what_slurm_said(site: Site, tmp_path: Path) -> None:
    said = Path(tempfile.mkdtemp(prefix="hotplugctl-said-"))
    said.chmod(0o777)

    def try_it() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        for scope in ("device", "node"):
            try:
                site.plug.cordon(site.card(1), scope, {}, lambda ours: None, 20)
            except HotplugError as error:
                (said / scope).write_text(f"{error.exit.name}|{error.why.rpartition(': ')[2]}|{error.hint}")

    os.waitpid(in_a_child(try_it), 0)
    found = {scope: (said / scope).read_text() for scope in ("device", "node")}
    shutil.rmtree(said)
    assert found == {
        "device": "DENIED|to give that takes operator rights|sudo hotplugctl drain 0000:3b:00.0",
        "node": "DENIED|Invalid user id|sudo hotplugctl drain 0000:3b:00.0",
    }
    assert site.ours() == {}
    assert site.state() == "IDLE"


def test_slurmctld_gone_is_told_at_once_and_the_undo_can_be_repeated(site: Site) -> None:
    site.cordon(1)
    site.end_controller()
    try:
        began = time.monotonic()
        seen = site.look(1)
        assert time.monotonic() - began < 6     # squeue alone would block for 9 s
        assert isinstance(seen.closed, Unknown)
        assert isinstance(seen.work, Unknown)
        assert [(blocker.what, blocker.lifted_by) for blocker in seen.blockers] == [
            ("Slurm does not answer", "--scheduler none"),
        ]
        assert "DOWN" in seen.blockers[0].why
        assert seen.where == "node n1, gres npu:ascend910b, index 1"
        for act in (site.uncordon, lambda: site.cordon(1)):
            with pytest.raises(HotplugError) as raised:
                act()
            assert (raised.value.exit, raised.value.hint) == (Exit.FAILED, "scontrol ping")
        site.start_controller()
        seen = site.look(1)
        assert isinstance(seen.closed, Unknown)
        assert "has not registered" in seen.blockers[0].why
    finally:
        site.end_controller()
        site.restart_controller()
    assert site.look(1).closed is True
    site.uncordon()
    assert site.ours() == {}


def test_a_node_is_drained_and_resumed_and_its_job_runs_on(site: Site) -> None:
    job = site.running("--gres=npu:1")
    site.cordon(0, scope="node")
    seen = site.look(0, scope="node")
    assert (seen.closed, seen.ours, [work.id for work in seen.work]) == (True, True, [job])
    assert site.reason() == f"hotplugctl {site.kept['token']} drains 0000:3b:00.0"
    assert site.kept["nodes"] == {"n1": "MIXED"}
    late = site.submit("--gres=npu:1")
    site.wait(lambda: "DRAIN" in site.jobs()[late][2] or "ReqNode" in site.jobs()[late][2], "the new job waits")
    site.uncordon()
    assert "DRAIN" not in site.state()
    site.wait(lambda: site.jobs()[late][0] == "RUNNING", "the new job runs")
    assert site.jobs()[job][0] == "RUNNING"


def test_a_node_that_an_administrator_drained_stays_drained(site: Site) -> None:
    site.update_node(State="DRAIN", Reason="fan")
    site.cordon(0, scope="node")
    assert site.kept == {}
    for scope in ("node", "device"):
        seen = site.look(0, scope=scope)
        assert (seen.closed, seen.ours) == (True, False)
        assert "not our doing (fan)" in seen.warnings[0]
    site.uncordon()
    assert (site.state(), site.reason()) == ("IDLE+DRAIN", "fan")


def test_a_node_that_an_administrator_claimed_meanwhile_is_not_resumed(site: Site) -> None:
    site.cordon(0, scope="node")
    site.update_node(State="DRAIN", Reason="fan")
    site.uncordon()
    assert (site.state(), site.reason()) == ("IDLE+DRAIN", "fan")


def test_stop_ends_the_work_and_says_why_it_cannot(site: Site) -> None:
    job = site.running("--gres=npu:1")
    work = site.look(0).work[0]
    assert site.plug.stop(work, 5) is None
    site.wait(lambda: job not in site.jobs(), "it has ended")
    assert site.plug.stop(work, 5) is None      # what has ended ends
    assert "/nowhere/slurm.conf" in str(Slurm(Live(), "/nowhere/slurm.conf").stop(work, 5))


def test_a_link_to_the_file_names_the_same_index(site: Site, tmp_path: Path) -> None:
    (tmp_path / "by-path").symlink_to(site.files[3])
    seen = site.plug.placement(Accelerator("0000:3b:00.0", nodes=(str(tmp_path / "by-path"),)), "device", {})
    assert seen.where == "node n1, gres npu:ascend910b, index 3"


def test_a_card_that_slurm_does_not_give_needs_no_closing(site: Site) -> None:
    card = Accelerator("0000:3b:00.0", nodes=("/dev/null",))
    seen = site.plug.placement(card, "device", {})
    assert (seen.closed, seen.where) == (None, "node n1, no GRES of which names /dev/null")
    site.plug.cordon(card, "device", {}, site.keep, 5)
    assert site.kept == {}


def test_a_file_that_is_gone_keeps_no_other_card_from_being_drained(site: Site) -> None:
    site.cordon(3)
    os.rename(site.files[3], f"{site.files[3]}.away")
    try:
        seen = site.look(1)
        began = time.monotonic()
        seen = site.plug.placement(site.card(1), "device", {})
        assert time.monotonic() - began < 8     # slurmd -G alone would wait for 20 s
        assert (seen.closed, seen.where) == (False, "node n1, gres npu:ascend910b, index 1")
        assert "davinci3, which is not there" in seen.warnings[0]
        gone = site.plug.placement(Accelerator("0000:3b:00.0"), "device", site.kept)
        assert (gone.closed, gone.where) == (True, "node n1, gres npu:ascend910b, index 3")
    finally:
        os.rename(f"{site.files[3]}.away", site.files[3])


def test_a_job_named_like_an_answer_is_not_believed(site: Site) -> None:
    name = "x\n   UserId=root(0) G\n   JOB_GRES=npu:1\n     Nodes=n1 CPU_IDs=7 Mem=0 GRES=npu:1(IDX:3)\n   Min"
    job = site.submit("--gres=npu:1", name=name)
    site.wait(lambda: f"{job}|RUNNING" in site.command("squeue", "-h", "-o", "%i|%T"), "it runs")
    seen = site.look(3)
    assert isinstance(seen.closed, Unknown)
    assert f"job {job}" in seen.blockers[0].why


def test_the_fixture_as_a_script_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    def script(*argv: str) -> str:
        done = subprocess.run([sys.executable, "-m", "tests.slurm", *argv], capture_output=True, text=True, timeout=60,
                              cwd=Path(__file__).parent.parent)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "accel0").touch()
    assert script("start", str(tmp_path), str(tmp_path / "accel0")) == f"SLURM_CONF={tmp_path}/slurm.conf\n"
    began = slurm.Cluster(tmp_path)
    assert began.answers()
    assert began.running("--gres=accel:1")
    script("stop", str(tmp_path))
    assert not began.answers()
    assert began.processes() == []


def test_this_machine_has_slurm_when_it_has_its_configuration(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(site.conf))
    found = plug.here(Live())
    assert found is not None
    assert found.placement(site.card(0), "device", {}).closed is False
    monkeypatch.delenv("SLURM_CONF")
    if not any(Path(path).exists() for path in plug.CONFIGURATIONS):
        assert plug.here(Live()) is None
