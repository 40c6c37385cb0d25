"""A rack on this machine: client, middlebox and server are network namespaces with cables between
them, and each has a server of SSH. So an experiment with roles runs here by `npf --cluster`, as it
does on real machines.

    client eth0 ---- eth0 middlebox eth1 ---- eth0 server

npf runs in a fourth namespace, which has a cable to each. Nothing changes in the network of the
machine itself, and all processes end with the program that made the rack.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

# Addresses for SSH are of a network for benchmarks (RFC 2544, appendix C.2.2).
SSH_NETWORK = "198.19.255"
# Interfaces of the experiment, by role: the address that the role's scripts give to each.
NICS = {
    "client": ["10.77.1.2"],
    "middlebox": ["10.77.1.1", "10.78.1.1"],
    "server": ["10.78.1.2"],
}
CABLES = [(("client", 0), ("middlebox", 0)), (("middlebox", 1), ("server", 0))]
# A process that ends with its parent, however that ends.
BOUND = ["setpriv", "--pdeathsig", "KILL"]
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


def lacking():
    """Why no rack can be made here, or nothing."""
    if os.geteuid():
        return "a rack of network namespaces needs root"
    for program, package in (("sshd", "openssh-server"), ("ssh-keygen", "openssh-client"),
                             ("ip", "iproute2")):
        if not shutil.which(program) and not (program == "sshd" and os.path.exists(SSHD)):
            return f"{program} is not there: apt-get install {package}"
    return ""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


class Namespace:
    """A network namespace, with a `/sys` that shows its interfaces; held by a process. Its commands run
    in a directory."""

    def __init__(self, directory):
        self.directory = directory
        hold = "mount -t sysfs none /sys && echo ready && exec sleep infinity"
        # The command that makes the namespaces becomes the one that holds them.
        self.holder = subprocess.Popen(
            [*BOUND, "unshare", "--net", "--mount", "sh", "-c", hold],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise OSError("a network namespace cannot be made")
        self.ip("link set lo up")

    def command(self, *words):
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--mount",
                f"--wdns={self.directory}", *words]

    def ip(self, line):
        return run(*self.command("ip", *line.split()))

    def cable(self, port, far, far_port):
        self.ip(f"link add {port} type veth peer name {far_port} netns {far.holder.pid}")
        self.ip(f"link set {port} up")
        far.ip(f"link set {far_port} up")

    def end(self):
        """Ends every process in it."""
        own = os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.stat(entry / "ns/net").st_ino == own:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                pass  # It has ended.
        self.holder.wait()
        self.holder.stdout.close()


class Rack:
    """See the module. `with Rack(directory)`: npf finds the machines in `directory`."""

    def __init__(self, directory):
        self.directory = Path(directory).resolve()
        self.namespaces, self.servers = {}, []

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
            server.wait()
        for namespace in self.namespaces.values():
            namespace.end()

    def roles(self):
        """What `npf --cluster` takes."""
        return [f"{role}={role}" for role in NICS]

    def command(self, words):
        """A command beside the machines, from where they are reached."""
        return self.namespaces["beside"].command(*words)

    def make(self):
        keys = self.directory / "keys"
        keys.mkdir(parents=True, exist_ok=True)
        for key in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / key)
        for name in ("beside", *NICS):
            self.namespaces[name] = Namespace(self.directory)
        for (role, nic), (far, far_nic) in CABLES:
            self.namespaces[role].cable(f"eth{nic}", self.namespaces[far], f"eth{far_nic}")
        for number, role in enumerate(NICS):
            near, far = (f"{SSH_NETWORK}.{4 * number + end}" for end in (1, 2))
            beside, machine = self.namespaces["beside"], self.namespaces[role]
            beside.cable(role, machine, "ssh")
            beside.ip(f"address add {near}/30 dev {role}")
            machine.ip(f"address add {far}/30 dev ssh")
            self.describe(role, far)
            self.serve(role, far)

    def describe(self, role, address):
        """The file in which npf reads how a machine is reached, and its NICs."""
        home = self.directory / "machines" / role
        home.mkdir(parents=True, exist_ok=True)
        lines = [f"addr={address}", "user=root", f"path={home}/", "nfs=0",
                 f"identityfile={self.directory}/keys/user"]
        for nic, ip in enumerate(NICS[role]):
            mac = run(*self.namespaces[role].command("cat", f"/sys/class/net/eth{nic}/address"))
            lines += [f"{nic}:ifname=eth{nic}", f"{nic}:ip={ip}", f"{nic}:mac={mac.strip()}"]
        file = self.directory / "cluster" / f"{role}.node"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n")

    def serve(self, role, address):
        """Starts a server of SSH, which lets only the rack's own key in."""
        keys, log = self.directory / "keys", self.directory / f"{role}.log"
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        options = {
            "ListenAddress": address, "HostKey": f"{keys}/host", "PidFile": "none",
            "AuthorizedKeysFile": f"{keys}/user.pub", "StrictModes": "no", "UsePAM": "no",
            "PasswordAuthentication": "no", "PermitRootLogin": "prohibit-password",
            "MaxStartups": "100", "UseDNS": "no", "PrintMotd": "no",
            "Subsystem": "sftp internal-sftp",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        with log.open("w") as output:
            command = self.namespaces[role].command(
                *BOUND, SSHD, "-D", "-e", "-f", "/dev/null", *words)
            self.servers.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        end = time.monotonic() + 10
        while "Server listening" not in log.read_text():
            if self.servers[-1].poll() is not None or time.monotonic() > end:
                raise OSError(f"sshd does not start: {log.read_text().strip()}")
            time.sleep(0.02)
