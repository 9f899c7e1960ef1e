"""What the lab talks to: `zkr serve`, the workers, and the nodes, by a client of a few requests."""
import socket
import struct
import subprocess
import threading
import time

CREATE, EXISTS, CHILDREN, CLOSE = 1, 3, 8, -11
ANYONE = struct.pack(">ii", 1, 31) + struct.pack(">i", 5) + b"world" + struct.pack(">i", 6) + b"anyone"


def now():
    """CLOCK_MONOTONIC in milliseconds, as in the workers."""
    return time.monotonic() * 1000


def text(value):
    value = value.encode()
    return struct.pack(">i", len(value)) + value


class Observer:
    """One session for one question, so that no fault concerns it later."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=5)
        self.send(struct.pack(">iqiqi", 0, 0, 4000, 0, 16) + bytes(16))
        self.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ask(CLOSE, b"")
        self.socket.close()

    def send(self, body):
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def exactly(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise ConnectionError("closed by the server")
            data += part
        return data

    def receive(self):
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def ask(self, kind, body):
        self.send(struct.pack(">ii", 1, kind) + body)
        answer = self.receive()
        code = struct.unpack(">i", answer[12:16])[0]
        return code, answer[16:]

    def create(self, path):
        code, _ = self.ask(CREATE, text(path) + text("") + ANYONE + struct.pack(">i", 0))
        assert code == 0, code

    def children(self, path):
        code, body = self.ask(CHILDREN, text(path) + b"\0")
        if code == -101:  # a latch or a lock may delete its directory
            return []
        assert code == 0, code
        names, at = [], 4
        for _ in range(struct.unpack(">i", body[:4])[0]):
            length = struct.unpack(">i", body[at:at + 4])[0]
            names.append(body[at + 4:at + 4 + length].decode())
            at += 4 + length
        return names


def children(address, path):
    with Observer(address) as observer:
        return observer.children(path)


def connections(address):
    """How many connections have a session, by the four-letter word `cons`."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as talk:
        talk.sendall(b"cons")
        answer = b""
        while part := talk.recv(65536):
            answer += part
    return answer.decode().count("sid=0x")


class Lines:
    """A process that is told, and tells, by lines."""

    def __init__(self, command, trace, name):
        self.trace, self.name = trace, name
        self.changed = threading.Condition()
        self.lines = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            line = line.rstrip()
            self.trace.append((now(), self.name, line))
            with self.changed:
                self.heard(line)
                self.changed.notify_all()

    def heard(self, line):
        self.lines.append(line)

    def tell(self, line):
        self.trace.append((now(), self.name, "< " + line))
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            self.trace.append((now(), self.name, "has ended"))

    def until(self, condition, seconds):
        """Whether it held within that time."""
        with self.changed:
            return self.changed.wait_for(condition, timeout=seconds)

    def end(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.trace.append((now(), self.name, "killed"))
            self.process.kill()
            self.process.wait()


class Servers(Lines):
    """`zkr serve`; each command is answered by a line."""

    def __init__(self, zkr, dialect, tick, addresses, trace):
        listen = ["--listen", "127.0.0.1:0"] * addresses
        super().__init__([zkr, "serve", *listen, "--faults", "-", "--dialect", dialect, "--tick", f"{tick}ms"],
                         trace, "zkr")
        if not self.until(lambda: len(self.lines) >= addresses, 10):
            raise RuntimeError("zkr serve did not start")
        self.addresses = self.lines[:addresses]

    def command(self, line):
        done = len(self.lines) + 1
        self.tell(line)
        if not self.until(lambda: len(self.lines) >= done, 10):
            raise RuntimeError(f"zkr serve did not carry out: {line}")


class Worker(Lines):
    """A contender, with the intervals in which it believed that it held, and in which it was told so when it asked."""

    def __init__(self, command, trace, name):
        self.session, self.since, self.began = None, None, None
        self.beliefs, self.yes = [], []
        super().__init__(command, trace, name)

    def heard(self, line):
        words = line.split(" ", 2)
        if words[0] == "session":
            self.session = words[1]
        elif words[0] == "held":
            self.since = self.began = int(words[1]) / 1000
        elif words[0] in ("lost", "released") and self.since is not None:
            self.beliefs.append((self.since, int(words[1]) / 1000))
            self.since = None
        elif words[0] == "yes":
            self.yes.append((self.began, int(words[1]) / 1000))

    def believes(self):
        return self.since is not None
