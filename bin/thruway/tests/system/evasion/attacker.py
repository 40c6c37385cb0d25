"""Tries to get a word past whatever stands between this host and the server, by the cases in files.

    attacker.py PLAY INTERFACE SERVER_MAC JUDGE CASES...

PLAY is what stands in the middle, `request` or `response` for HTTP (ordinary sockets), `packets` for
packets made here. JUDGE is the path of the judge's socket. A file has cases: `case NAME`, then a step on each line: a verb, a Python
expression for bytes, and words. What the server got is asked of the judge (judge.py), by the port or
name of each case. Each case is one line of output: its name, and what arrived, in Python's notation.
"""

import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time

from forms import FORMS
from readings import readings

SERVER, SERVER6 = "10.0.0.2", "fd00::2"
# Addresses that the kernel of this host does not have: it keeps out of these connections.
CLIENT, CLIENT6 = "10.0.0.77", "fd00::77"
PORT = 7000
JUDGE = sys.argv[4]
WAIT = 4.0
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32


def cases(files):
    """Names, each with its steps."""
    for file in files:
        name, steps = None, []
        for line in open(file, encoding="utf-8"):
            line = line.strip()
            if line.startswith("case "):
                if name:
                    yield name, steps
                name, steps = line[5:], []
            elif line and not line.startswith("#"):
                steps.append(line)
        if name:
            yield name, steps


def evaluate(text):
    """A step: its verb, its bytes, its options (`name`, `name=value`)."""
    verb, _, rest = text.partition(" ")
    words, value = {}, b""
    if "(" in rest or '"' in rest:
        head, _, tail = rest.partition(" :: ")
        value, rest = eval(head, {"__builtins__": {}}, FORMS), tail
        value = value.encode("latin-1") if isinstance(value, str) else value
    for word in rest.split():
        key, _, what = word.partition("=")
        words[key] = what
    return verb, value, words


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Wire:
    """A packet socket, and who waits for what comes."""

    def __init__(self, interface, mac):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((interface, 0))
        own = self.socket.getsockname()[4]
        self.ether = bytes.fromhex(mac.replace(":", "")) + own
        self.waiting = {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            frame = self.socket.recv(65536)
            kind = frame[12:14]
            if kind == b"\x08\x00" and frame[23] == 6 and frame[26:30] == socket.inet_aton(SERVER):
                tcp = frame[14 + (frame[14] & 15) * 4 :]
            elif kind == b"\x86\xdd" and frame[20] == 6 and frame[54 - 32 : 54 - 16] == V6[1]:
                tcp = frame[54:]
            else:
                continue
            talk = self.waiting.get(struct.unpack("!H", tcp[2:4])[0])
            if talk:
                talk.hears(tcp)

    def send(self, kind, packet):
        self.socket.send(self.ether + struct.pack("!H", kind) + packet)


V6 = [socket.inet_pton(socket.AF_INET6, address) for address in (CLIENT6, SERVER6)]


class Talk:
    """A connection of this host's own making."""

    def __init__(self, wire, port):
        self.wire, self.port = wire, port
        self.isn, self.peer, self.acked = random.getrandbits(31), None, 0
        self.heard, self.end, self.over = threading.Condition(), 0, False
        self.ts, self.v6, self.ident, self.fin = None, False, random.getrandbits(16), True
        self.tsecr = 0
        wire.waiting[port] = self

    def hears(self, tcp):
        seq, ack = struct.unpack("!II", tcp[4:12])
        with self.heard:
            if tcp[13] & SYN and self.peer is None:
                self.peer = (seq + 1) & 0xFFFFFFFF
                options = tcp[20 : (tcp[12] >> 4) * 4]
                at = options.find(b"\x08\x0a")
                if at >= 0:
                    self.tsecr = struct.unpack("!I", options[at + 2 : at + 6])[0]
            elif tcp[13] & FIN and self.peer is not None and not self.over:
                self.peer, self.over = (seq + 1) & 0xFFFFFFFF, True
            if tcp[13] & RST:
                self.over = True
            self.acked = (ack - self.isn - 1) & 0xFFFFFFFF
            self.heard.notify_all()

    def until(self, what, limit=WAIT):
        with self.heard:
            return self.heard.wait_for(what, limit)

    def segment(self, offset, data, words, flags=PSH | ACK):
        flags = sum({"F": FIN, "S": SYN, "R": RST, "P": PSH, "A": ACK, "U": URG}[f] for f in words["flags"]) if "flags" in words else flags
        seq = (self.isn + 1 + offset + int(words.get("seq", "0"), 0)) & 0xFFFFFFFF
        ack = ((self.peer or 0) + int(words.get("ack", "0"), 0)) & 0xFFFFFFFF
        urgent = int(words.get("urg", "0"))
        flags |= URG if urgent else 0
        options = bytes.fromhex(words.get("opt", ""))
        if self.ts is not None:
            self.ts += 1
            now = (self.ts + int(words.get("ts", "0"), 0)) & 0xFFFFFFFF
            options += struct.pack("!BBBBII", 1, 1, 8, 10, now, self.tsecr)
        options += b"\1" * (-len(options) % 4)
        length = int(words.get("doff", 5 + len(options) // 4))
        window = int(words.get("win", 65000))
        head = struct.pack("!HHIIBBHHH", self.port, PORT, seq, ack, length << 4, flags, window, 0, urgent)
        tcp = head + options + data
        if self.v6:
            pseudo = V6[0] + V6[1] + struct.pack("!II", len(tcp), 6)
        else:
            addresses = socket.inet_aton(CLIENT) + socket.inet_aton(SERVER)
            pseudo = addresses + struct.pack("!HH", 6, len(tcp))
        total = checksum(pseudo + tcp) ^ (0x5555 if "badsum" in words else 0)
        return tcp[:16] + struct.pack("!H", total) + tcp[18:]

    def ip4(self, payload, words, field=0x4000, ident=None):
        options = bytes.fromhex(words.get("ipopt", ""))
        self.ident = (self.ident + 1) & 0xFFFF
        ident = self.ident if ident is None else ident
        first = 0x45 + len(options) // 4
        ttl, kind = int(words.get("ttl", "64")), int(words.get("proto", "6"))
        head = struct.pack("!BBHHHBBH", first, 0, 20 + len(options) + len(payload), ident, field, ttl, kind, 0)
        head += socket.inet_aton(CLIENT) + socket.inet_aton(SERVER) + options
        total = checksum(head) ^ (0x1111 if "badip" in words else 0)
        self.wire.send(0x0800, head[:10] + struct.pack("!H", total) + head[12:] + payload)

    def ip6(self, payload, words, first=6):
        for extension in reversed(words.get("ext", "").split(",")):
            name, _, count = extension.partition("*")
            for _ in range(int(count or 1) if name else 0):
                if name == "atomic":
                    payload = struct.pack("!BBHI", first, 0, 0, random.getrandbits(32)) + payload
                    first = 44
                elif name == "hop":
                    payload, first = bytes([first, 0, 1, 4, 0, 0, 0, 0]) + payload, 0
                elif name == "dst":
                    payload, first = bytes([first, 0, 1, 4, 0, 0, 0, 0]) + payload, 60
        ttl = int(words.get("ttl", "64"))
        head = struct.pack("!IHBB", 6 << 28, len(payload), first, ttl) + V6[0] + V6[1]
        self.wire.send(0x86DD, head + payload)

    def emit(self, tcp, words):
        self.ip6(tcp, words) if self.v6 else self.ip4(tcp, words)

    def fragments(self, tcp, words):
        """`pieces`: ranges of the packet, in the order of sending; `!` after one: other bytes in it."""
        ident, end = random.getrandbits(16), len(tcp)
        for piece in words["pieces"].split(","):
            is_wrong = piece.endswith("!")
            start, stop = (int(n) if n else end for n in piece.rstrip("!").split("-"))
            part = tcp[start:stop]
            if is_wrong:
                part = bytes(x ^ 0x20 for x in part)
            more = stop < end
            if self.v6:
                nexts = int(words.get("next", "6"))
                head = struct.pack("!BBHI", nexts, 0, start | more, ident)
                self.ip6(head + part, words, 44)
            else:
                self.ip4(part, words, (0x2000 if more else 0) | start >> 3, ident)
            time.sleep(float(words.get("gap", "0")))

    def open(self, data, words):
        self.v6 = "v6" in words
        if "isn" in words:
            self.isn = (int(words["isn"], 0) - 1) & 0xFFFFFFFF
        options = dict(words, flags="S", opt=words.get("opt", "020405b4"))
        if "ts" in words:
            self.ts = 1000000
        options.pop("ts", None)
        for _ in range(20):
            self.emit(self.segment(-1, data, options), options)
            if self.until(lambda: self.peer is not None, 0.3):
                break
        self.emit(self.segment(0, b"", {}, ACK), {})

    def step(self, verb, data, words):
        offset = int(words.get("at", self.end))
        if verb == "open":
            return self.open(data, words)
        if verb == "pause":
            return time.sleep(float(words["for"]))
        if verb == "acked":
            return self.until(lambda: self.acked >= self.end or self.over, 2)
        if verb == "nofin":
            self.fin = False
            return None
        if verb in ("seg", "frag"):
            tcp = self.segment(offset, data, words)
            if "keep" not in words:
                self.end = max(self.end, offset + len(data))
            if verb == "frag":
                return self.fragments(tcp, words)
            return self.emit(tcp, words)
        raise SystemExit(f"no such step: {verb}")

    def play(self, steps):
        for text in steps:
            self.step(*evaluate(text))
        # Until the server has all that it is going to take: a fragment or a byte may be sent again.
        limit = time.monotonic() + WAIT
        while self.fin and not self.over and time.monotonic() < limit:
            self.emit(self.segment(self.end, b"", {}, FIN | ACK), {})
            self.until(lambda: self.over, 0.4)


def play_packets(wire, port, steps):
    Talk(wire, port).play(steps)
    return ask(str(port))


def play_request(port, steps):
    """A client of the kernel's that sends bytes, with pauses; every answer is taken."""
    with socket.socket() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.bind(("10.0.0.1", port))
        client.settimeout(2)
        try:
            client.connect((SERVER, PORT))
            for text in steps:
                verb, data, words = evaluate(text)
                if verb == "pause":
                    time.sleep(float(words["for"]))
                    continue
                for start in range(0, len(data), int(words.get("by", len(data) or 1))):
                    client.sendall(data[start : start + int(words.get("by", len(data)))])
                    time.sleep(float(words.get("gap", "0")))
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass
    return ask(str(port))


def play_response(name, steps):
    """Fetches the case by curl, as it is and as its coding says, and by a socket; what each got."""
    asks = [evaluate(text)[1] for text in steps if text.startswith("ask ")]
    got = fetch((asks or [f"GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n".encode()])[0])
    if asks:
        return got
    options = [word for text in steps if text.startswith("curl ") for word in text.split()[1:]]
    for how in ([], ["--compressed"], ["--raw"]):
        words = ["curl", "-s", "--max-time", "4", *how, *options, f"http://{SERVER}:8080/{name}"]
        got += subprocess.run(words, capture_output=True, check=False).stdout + b"\n"
    return got


def fetch(request):
    """All that the kernel of this host hands over, in all readings."""
    got = b""
    with socket.socket() as client:
        client.settimeout(4)
        try:
            client.connect((SERVER, 8080))
            client.sendall(request)
            while data := client.recv(65536):
                got += data
        except OSError:
            pass
    return readings(got) + b"\n"


def ask(key):
    with socket.socket(socket.AF_UNIX) as judge:
        judge.connect(JUDGE)
        judge.sendall(key.encode() + b"\n")
        return bytes.fromhex(json.loads(judge.makefile().readline()))


def excerpt(got, most=2000):
    """The beginning, and what stands around the word."""
    at = got.find(FORMS["WORD"].encode())
    return got if len(got) <= most else got[:most] + b"..." + got[max(at - 50, 0) : at + 50]


def main():
    play, interface, mac, _, *files = sys.argv[1:]
    wire = Wire(interface, mac) if play == "packets" else None
    results, lock = {}, threading.Semaphore(24)

    def one(port, name, steps):
        with lock:
            if play == "packets":
                results[name] = play_packets(wire, port, steps)
            elif play == "request":
                results[name] = play_request(port, steps)
            else:
                results[name] = play_response(name, steps)

    all_cases = list(cases(files))
    numbered = enumerate(all_cases, 20000)
    threads = [threading.Thread(target=one, args=(p, *case)) for p, case in numbered]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, _ in all_cases:
        print(name, repr(excerpt(results.get(name, b"no result"))), sep="\t")


main()
