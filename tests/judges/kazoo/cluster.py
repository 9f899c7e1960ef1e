"""A plugin for pytest that gives kazoo's tests other servers than those that they would start.

They are `$ZKR serve`, or a container of the image in ZOOKEEPER_IMAGE, each of three behind a forwarder, which is what a
test stops and starts."""
import os
import socket
import subprocess
import threading
import time

import kazoo.testing.harness as harness


class Forwarder:
    """Stands for a server of the cluster."""

    host = "127.0.0.1"

    def __init__(self, port):
        self.client_port, self.secure_client_port = port, port + 4
        self.to, self.listener, self.sockets = None, None, []

    @property
    def address(self):
        return f"{self.host}:{self.client_port}"

    @property
    def secure_address(self):
        return f"{self.host}:{self.secure_client_port}"

    @property
    def running(self):
        return self.listener is not None

    def run(self):
        if not self.running:
            self.listener = socket.create_server((self.host, self.client_port))
            threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.to)
            except OSError:
                client.close()
                continue
            self.sockets += [client, server]
            for one, other in [(client, server), (server, client)]:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    def copy(self, one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            shut(end)

    def stop(self):
        if self.running:
            shut(self.listener)
            self.listener.close()
            self.listener = None
            for end in self.sockets:
                shut(end)
            self.sockets = []

    destroy = reset = stop

    def get_logs(self, num_lines=100):
        return []


def shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Served:
    """`zkr serve`."""

    def __init__(self, count):
        command = [os.environ["ZKR"], "serve", "--extended-types", "--listen", "127.0.0.1:0", "--servers", str(count)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        hosts = self.process.stdout.readline().strip().split(",")
        self.addresses = [(host, int(port)) for host, port in (one.rsplit(":", 1) for one in hosts)]

    def end(self):
        self.process.kill()
        self.process.wait()


class Container:
    """A real server, which stands for all three."""

    def __init__(self, count):
        run = ["docker", "run", "-d", "--rm", "-p", "127.0.0.1::2181", "-e", "ZOO_4LW_COMMANDS_WHITELIST=*",
               "-e", "JVMFLAGS=-Dzookeeper.extendedTypesEnabled=true -Dfile.encoding=UTF-8"]
        if label := os.environ.get("ZOOKEEPER_RECIPES_RUN"):
            run.append(f"--label=zookeeper-recipes.run={label}")
        self.name = output(*run, os.environ["ZOOKEEPER_IMAGE"])
        host, port = output("docker", "port", self.name, "2181/tcp").splitlines()[0].rsplit(":", 1)
        self.addresses = [(host, int(port))] * count
        for _ in range(300):
            if self.is_ok():
                return
            time.sleep(0.1)
        raise RuntimeError("the server does not start")

    def is_ok(self):
        try:
            with socket.create_connection(self.addresses[0]) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def end(self):
        output("docker", "rm", "-fv", self.name)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Cluster:
    """In place of `kazoo.testing.common.ZookeeperCluster`."""

    def __init__(self, size=3, port_offset=20000, **_):
        self.servers = [Forwarder(port_offset + 10 * number) for number in range(size)]
        self.backend = None

    def __getitem__(self, number):
        return self.servers[number]

    def __iter__(self):
        return iter(self.servers)

    def start(self):
        if self.backend is None:
            self.backend = (Served if "ZKR" in os.environ else Container)(len(self.servers))
            for server, address in zip(self.servers, self.backend.addresses):
                server.to = address
        for server in self.servers:
            server.run()

    def stop(self):
        for server in self.servers:
            server.stop()

    def terminate(self):
        self.stop()
        if self.backend is not None:
            self.backend.end()
            self.backend = None

    def reset(self):
        self.terminate()
        self.start()

    def get_logs(self):
        return []

    def get_ssl_client_configuration(self):
        return {}


harness.ZookeeperCluster = Cluster
