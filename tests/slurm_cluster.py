"""A real Slurm of one controller and several nodes on this machine, for as long as a test needs it.

Slurm's own programs run as the current user, on free ports, with all state in one folder. There is
no munge (auth/none) and no accounting database.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
# Debian has the daemons where only root looks.
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

CONF = """\
ClusterName=tessera
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldParameters=enable_configless
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=20
KillWait=1
MinJobAge=300
InactiveLimit=0
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=60 PriorityTier=1 State=UP
PartitionName=urgent Nodes={names} MaxTime=60 PriorityTier=2 PreemptMode=OFF State=UP
"""


def missing() -> list[str]:
    """The programs of Slurm that this machine lacks."""
    return [name for name in NEEDED if shutil.which(name, path=PATH) is None]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that no one listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


class SlurmCluster:
    """Starts the cluster in a folder; close() ends every process that it started."""

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        self.folder = folder
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        controller, *ports = free_ports(nodes + 1)
        (folder / "state").mkdir(parents=True)
        lines = [f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 "
                 f"Port={port} CPUs=1 RealMemory=500 State=UNKNOWN"
                 for name, port in zip(self.nodes, ports, strict=True)]  # fmt: skip
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True)
        self.conf = folder / "slurm.conf"
        self.conf.write_text(CONF.format(
            host=socket.gethostname(), controller=controller, user=user.stdout.strip(),
            folder=folder, nodes="\n".join(lines),
            names=",".join(self.nodes)))  # fmt: skip
        self.start_controller()
        for name in self.nodes:
            self.daemons[name] = self.start("slurmd", "-D", "-N", name)
        self.wait("the nodes are idle", lambda: self.node_states() == ["idle"] * nodes)

    def environment(self) -> dict[str, str]:
        """That of Slurm's commands."""
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.conf)}

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """A daemon in the foreground, with everything below it in a session of its own."""
        return subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                cwd=self.folder, start_new_session=True)

    def start_controller(self) -> None:
        """Takes up the state of an earlier one."""
        self.daemons["slurmctld"] = self.start("slurmctld", "-D")
        self.wait("the controller answers", lambda: self.answers("scontrol", "ping"))

    def stop(self, name: str) -> None:
        """Ends one daemon."""
        daemon = self.daemons.pop(name)
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def close(self) -> None:
        """Ends every job, then every daemon."""
        if "slurmctld" in self.daemons:
            with contextlib.suppress(AssertionError):
                self.call("scancel", "--state=PENDING,RUNNING,SUSPENDED", "--signal=KILL", "--full",
                          "--me")  # fmt: skip
                self.call("scancel", "--me")
                self.wait("the queue is empty", lambda: not self.call("squeue", "--noheader"))
        for name in list(self.daemons):
            self.stop(name)
        self.end_steps()

    def end_steps(self) -> None:
        """Ends the processes of jobs that outlived their daemon: those with this cluster's state."""
        mark = f"SLURM_CONF={self.conf}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)

    def answers(self, *command: str) -> bool:
        """True when a command of Slurm succeeds."""
        done = subprocess.run(command, env=self.environment(), capture_output=True, check=False)
        return done.returncode == 0 and b"DOWN" not in done.stdout

    def call(self, *command: str) -> str:
        """The output of a command of Slurm, which has to succeed."""
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def start_requeued(self, task: str) -> None:
        """Waits until a task of an array was requeued, and starts it: Slurm would wait two minutes."""
        job, index = task.split("_")
        wanted = f"{job} {index} PENDING BeginTime"
        self.wait(f"{task} was requeued", lambda: wanted in self.call(
            "squeue", "--noheader", "--array", "--format=%F %K %T %r").splitlines())  # fmt: skip
        self.call("scontrol", "update", f"jobid={task}", "starttime=now")

    def node_states(self) -> list[str]:
        """Of all nodes, in their order."""
        lines = self.call("sinfo", "--noheader", "--Node", "--partition=all",
                          "--format=%N %t").splitlines()
        return [line.split()[1] for line in sorted(lines)]

    def wait(self, what: str, condition) -> None:
        """Looks ten times a second; gives up after half a minute."""
        end = time.monotonic() + 30
        while not condition():
            if time.monotonic() > end:
                logs = "".join(f"\n{log.name}:\n{log.read_text()[-1500:]}"
                               for log in self.folder.glob("*.log"))
                raise AssertionError(f"waited in vain until {what}{logs}")
            time.sleep(0.1)
