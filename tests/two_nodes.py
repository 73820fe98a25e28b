"""Two machines in network namespaces, with a link between them that can be slow or cut.

Each machine has its own addresses, /tmp, /dev/shm and home. A process carries Ethernet frames from
one to the other, as late as it is told. Needs root, and Linux with unshare, nsenter and ip.
"""

import ctypes
import fcntl
import heapq
import os
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = "/tmp/home"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
LARGEST_FRAME = 65_535


def why_not() -> str | None:
    """Return why there can be no such machines here, if there cannot."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    missing += [] if Path("/dev/net/tun").exists() else ["/dev/net/tun"]
    return f"needs {', '.join(missing)}" if missing else None


class Machine:
    """One machine. address: that the other one reaches it by."""

    def __init__(self, address: str) -> None:
        self.address = address
        command = ["unshare", "--net", "--mount", "sleep", "infinity"]
        self._holder = subprocess.Popen(command)
        deadline = time.monotonic() + 10
        own = os.readlink("/proc/self/ns/mnt")
        while os.readlink(f"/proc/{self._holder.pid}/ns/mnt") == own:
            assert time.monotonic() < deadline, "no namespace"
            time.sleep(0.01)
        folders = "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm"
        self.run("sh", "-c", f"{folders} && mkdir {HOME} && ip link set lo up")

    @property
    def pid(self) -> int:
        """The process that holds the namespaces."""
        return self._holder.pid

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command on this machine, which sees the token of a cluster in HOME."""
        enter = ["nsenter", f"--target={self.pid}", "--net", "--mount", "--wd=" + str(ROOT)]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": HOME, "PATH": path, "RAY_AUTH_MODE": "token", "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [*enter, *command],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str, timeout: float = 300) -> str:
        """Run a command on this machine. Return what it prints. Raise if it fails."""
        process = self.start(*command)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == 0, f"{' '.join(command)}: {output}"
        return output

    def close(self) -> None:
        """Remove the machine, with all that runs on it."""
        namespace = os.readlink(f"/proc/{self.pid}/ns/net")
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and int(process.name) != self.pid:
                try:
                    if os.readlink(process / "ns/net") == namespace:
                        os.kill(int(process.name), 9)
                except OSError:
                    continue
        self._holder.kill()
        self._holder.wait()


class Link:
    """Carries frames between two machines. delay: seconds on the way. is_cut: frames are lost."""

    def __init__(self, ends: tuple[int, int]) -> None:
        self.delay = 0.0
        self.is_cut = False
        self._ends = ends
        self._closing = False
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        waiting: list[tuple[float, int, int, bytes]] = []
        number = 0
        while not self._closing:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, end, frame = heapq.heappop(waiting)
                os.write(end, frame)
            patience = min(0.1, waiting[0][0] - now) if waiting else 0.1
            for end in select.select(self._ends, [], [], patience)[0]:
                frame = os.read(end, LARGEST_FRAME)
                if self.is_cut:
                    continue
                other = self._ends[1 - self._ends.index(end)]
                number += 1
                heapq.heappush(waiting, (time.monotonic() + self.delay, number, other, frame))

    def close(self) -> None:
        """Cut the link for good."""
        self._closing = True
        self._thread.join(10)
        for end in self._ends:
            os.close(end)


def _network_card(machine: Machine) -> int:
    """Return the end of a cable that is plugged into a machine, as a file descriptor."""
    opened: list[int] = []

    def open_there() -> None:
        # Only this thread enters the machine's network.
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{machine.pid}/ns/net") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        card = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(card, TUNSETIFF, struct.pack("16sH", b"tap0", IFF_TAP | IFF_NO_PI))
        opened.append(card)

    thread = threading.Thread(target=open_there)
    thread.start()
    thread.join(10)
    machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "tap0")
    machine.run("ip", "link", "set", "tap0", "up")
    return opened[0]


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine, Link]]:
    """Yield two machines and the link between them."""
    with ExitStack() as stack:
        machines = []
        for address in ("10.0.0.1", "10.0.0.2"):
            machines.append(Machine(address))
            stack.callback(machines[-1].close)
        first, second = machines
        link = Link((_network_card(first), _network_card(second)))
        stack.callback(link.close)
        yield first, second, link
