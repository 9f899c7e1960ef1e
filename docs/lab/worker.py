"""A contender of the lab with kazoo's Lock: worker.py lock CONNECT PATH TIMEOUT_MS TICK_MS"""
import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException

logging.disable(logging.CRITICAL)


def say(what, text=""):
    sys.stdout.write(f"{what} {time.monotonic_ns() // 1000} {text}\n")
    sys.stdout.flush()


class Worker:
    def __init__(self, connect, path, timeout):
        self.path = path
        self.changed = threading.Condition()
        self.wanted = False
        self.believes = False
        self.session = None
        self.client = KazooClient(hosts=connect, timeout=timeout)
        self.client.add_listener(self.on_state)

    def on_state(self, state):
        say("state", state)
        if state in (KazooState.SUSPENDED, KazooState.LOST):
            self.stop_believing("lost", state)
        elif self.session != self.client.client_id:
            self.session = self.client.client_id
            sys.stdout.write(f"session {self.session[0] & (2**64 - 1):x}\n")
            sys.stdout.flush()

    def stop_believing(self, what, why=""):
        with self.changed:
            if self.believes:
                say(what, why)
            self.believes = False
            self.changed.notify_all()

    def commands(self):
        for line in sys.stdin:
            if line.strip() == "quit":
                break
            with self.changed:
                self.wanted = line.strip() == "acquire"
                self.changed.notify_all()
        self.client.stop()
        os._exit(0)

    def run(self):
        self.client.start()
        threading.Thread(target=self.commands, daemon=True).start()
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.wanted)
            lock = self.client.Lock(self.path, "lab")
            try:
                lock.acquire()
            except Exception as error:  # whatever a program would log before it tries again
                say("error", repr(error))
                time.sleep(0.2)
                continue
            self.hold()
            self.release(lock)

    def hold(self):
        with self.changed:
            self.believes = True
            say("held")
        # The listener was called before there was anything to lose.
        if self.client.state != KazooState.CONNECTED:
            self.stop_believing("lost", self.client.state)
        with self.changed:
            self.changed.wait_for(lambda: not (self.believes and self.wanted))
        self.stop_believing("released")

    def release(self, lock):
        while True:
            try:
                lock.release()
                return
            except KazooException as error:
                say("error", repr(error))
                time.sleep(0.2)


Worker(sys.argv[2], sys.argv[3], int(sys.argv[4]) / 1000).run()
