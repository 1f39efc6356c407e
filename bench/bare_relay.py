"""What `bench geo` would do if there were nothing to do but move the bytes.

The same topology, every part a process: R proxies, a driver and an agent per region. Drivers send
frames, each the bytes of a batch of 1,000 keyed events, as long as no more than a window of them is
unacknowledged; a proxy forwards what its driver sends to its agent and to the other proxies, and
what other proxies send to its agent; agents count. Bytes are read in large blocks and passed on
unparsed: no checksum, no index, no history, no loss.

Back-pressure stops only drivers: a proxy leaves its driver unread while any of its outputs has a
backlog, and other proxies only while its own agent has one. Agents depend on nobody and always
read, so every backlog drains; a proxy that left the others unread because of *their* backlogs would
wait for one that waits for it.
"""

import select
import socket
import sys
import time

from bench.rivals.processes import Part, Team, hear, play, tell

MODULE = "bench.bare_relay"
EVENTS_PER_FRAME = 1_000
FRAMES_PER_SEND = 4
WINDOW_FRAMES = 8
"""Small, so that what is in flight has a chance to stay in the processor's caches."""
BLOCK_BYTES = 128 << 10
BACKLOG_BYTES = 256 << 10
"""An output with more than this is full."""
WARMUP_SECONDS = 0.3
PATIENCE_SECONDS = 30.0


def frames() -> list[bytes]:
    """The encoded batches a driver sends in turn."""
    from bench.streams import KeyedStream  # only drivers need what that imports

    source = KeyedStream(keys=100_000, rows=EVENTS_PER_FRAME, variety=FRAMES_PER_SEND)
    return [
        b"".join(source.batch(1 + number * EVENTS_PER_FRAME).encode())
        for number in range(FRAMES_PER_SEND)
    ]


def run(regions: int, seconds: float) -> float:
    """Events per second that reach every agent."""
    with Team() as team:
        proxies = [team.start(MODULE, "proxy", number, regions) for number in range(regions)]
        ports = [proxy.hear(PATIENCE_SECONDS) for proxy in proxies]
        for proxy in proxies:
            proxy.tell(ports)
        drivers = [team.start(MODULE, "driver", port) for port in ports]
        agents = [team.start(MODULE, "agent", port) for port in ports]
        for part in (*proxies, *drivers, *agents):
            assert part.hear(PATIENCE_SECONDS) == "ready"
        start = time.monotonic() + WARMUP_SECONDS
        _tell_all(agents, [start, start + seconds])
        _tell_all(drivers, "go")
        counts = [agent.hear(PATIENCE_SECONDS + seconds) for agent in agents]
    frame_bytes = len(frames()[0])
    return min(counts) / frame_bytes * EVENTS_PER_FRAME / seconds


def _tell_all(parts: list[Part], value: object) -> None:
    for part in parts:
        part.tell(value)


def _connect(port: int, role: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(role)
    return connection


def drive(port: int) -> None:
    chunk = b"".join(frames())
    window = WINDOW_FRAMES * len(chunk) // FRAMES_PER_SEND
    sent = acknowledged = 0
    answers = b""
    with _connect(port, b"D") as connection:
        tell("ready")
        hear()
        try:
            while True:
                while sent + len(chunk) <= acknowledged + window:
                    connection.sendall(chunk)
                    sent += len(chunk)
                piece = connection.recv(4096)
                if not piece:
                    return
                answers += piece
                whole = len(answers) - len(answers) % 8
                acknowledged = int.from_bytes(answers[whole - 8 : whole], "little") or acknowledged
                answers = answers[whole:]
        except ConnectionError:
            return  # the measurement is over


def count(port: int) -> None:
    view = memoryview(bytearray(BLOCK_BYTES))
    with _connect(port, b"A") as connection:
        tell("ready")
        start, end = hear()
        counted = 0
        while (now := time.monotonic()) < end:
            size = connection.recv_into(view)
            if not size:
                sys.exit("the proxy has gone")
            if now >= start:
                counted += size
        tell(counted)
        while connection.recv_into(view):
            pass  # who stops reading too early stops others who still count


class Output:
    """A connection that bytes go to; what it does not take at once waits here."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.backlog = bytearray()

    def send(self, data: memoryview) -> None:
        sent = 0
        if not self.backlog:
            try:
                sent = self.connection.send(data)
            except BlockingIOError:
                sent = 0
        if sent < len(data):
            self.backlog += data[sent:]

    def flush(self) -> None:
        try:
            sent = self.connection.send(self.backlog)
        except BlockingIOError:
            return
        del self.backlog[:sent]

    @property
    def full(self) -> bool:
        return len(self.backlog) > BACKLOG_BYTES


class Relay:
    """One proxy's connections, all of them there."""

    def __init__(
        self, driver: socket.socket, agent: socket.socket, peers: list[socket.socket]
    ) -> None:
        self.driver = driver
        self.agent = Output(agent)
        self.peers = [Output(peer) for peer in peers]
        self.outputs = {o.connection.fileno(): o for o in (self.agent, *self.peers)}
        self.view = memoryview(bytearray(BLOCK_BYTES))
        self.received = 0
        self.interest: dict[int, int] = {}
        self.poll = select.epoll()
        for connection in (driver, agent, *peers):
            connection.setblocking(False)
            self.poll.register(connection.fileno(), 0)

    def step(self, timeout_s: float = -1) -> bool:
        """Do what can be done now; False once the other side of any connection has gone."""
        self._look_for_what_is_useful()
        for number, happened in self.poll.poll(timeout_s):
            if happened & (select.EPOLLHUP | select.EPOLLERR):
                return False
            if happened & select.EPOLLOUT:
                self.outputs[number].flush()
            if happened & select.EPOLLIN and not self._read(number):
                return False
        return True

    def _look_for_what_is_useful(self) -> None:
        any_full = any(output.full for output in self.outputs.values())
        wanted = {self.driver.fileno(): 0 if any_full else select.EPOLLIN}
        for number, output in self.outputs.items():
            wanted[number] = select.EPOLLOUT if output.backlog else 0
            if output is not self.agent and not self.agent.full:
                wanted[number] |= select.EPOLLIN
        for number, events in wanted.items():
            if self.interest.get(number) != events:
                self.poll.modify(number, events)
        self.interest = wanted

    def _read(self, number: int) -> bool:
        from_driver = number == self.driver.fileno()
        source = self.driver if from_driver else self.outputs[number].connection
        try:
            size = source.recv_into(self.view)
        except BlockingIOError:
            return True
        data = self.view[:size]
        self.agent.send(data)
        if from_driver:
            for peer in self.peers:
                peer.send(data)
            self.received += size
            self.driver.send(self.received.to_bytes(8, "little"))
        return size > 0


def forward(number: int, regions: int) -> None:
    """Proxies with a higher number connect to those with a lower one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(listener.getsockname()[1])
        peers = [_connect(port, b"P") for port in hear()[:number]]
        by_role: dict[bytes, list[socket.socket]] = {b"D": [], b"A": [], b"P": peers}
        for _ in range(2 + regions - 1 - number):
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            by_role[connection.recv(1)].append(connection)
    tell("ready")
    try:
        relay = Relay(by_role[b"D"][0], by_role[b"A"][0], peers)
        while relay.step():
            pass
    except ConnectionError:
        return  # the measurement is over


if __name__ == "__main__":
    play({"proxy": forward, "driver": drive, "agent": count})
