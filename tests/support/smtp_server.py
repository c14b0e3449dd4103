"""A real SMTP server on loopback, as far as RFC 5321 asks of a receiver, with AUTH PLAIN."""

from __future__ import annotations

import base64
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Received:
    """What was received. `refusals`: messages that are put off before one is accepted."""

    port: int = 0
    refusals: int = 0
    users: list[str] = field(default_factory=list[str])
    recipients: list[str] = field(default_factory=list[str])
    messages: list[str] = field(default_factory=list[str])


@contextmanager
def smtp_server(refusals: int = 0) -> Generator[Received]:
    """Serves during the block."""
    received = Received(refusals=refusals)

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def handle(self) -> None:
            self.say("220 loopback ESMTP")
            while line := self.rfile.readline().decode().rstrip("\r\n"):
                verb, _, rest = line.partition(" ")
                match verb.upper():
                    case "EHLO" | "HELO":
                        self.say("250-loopback")
                        self.say("250 AUTH PLAIN")
                    case "AUTH":
                        said = base64.b64decode(rest.partition(" ")[2]).split(b"\0")
                        received.users.append(said[1].decode())
                        self.say("235 2.7.0 accepted")
                    case "MAIL" | "RSET" | "NOOP":
                        self.say("250 ok")
                    case "RCPT":
                        received.recipients.append(rest.partition("<")[2].rstrip(">"))
                        self.say("250 ok")
                    case "DATA":
                        self.data()
                    case "QUIT":
                        self.say("221 bye")
                        return
                    case _:
                        self.say("502 not implemented")

        def data(self) -> None:
            self.say("354 go on")
            lines = list[str]()
            while (line := self.rfile.readline().decode()) not in (".\r\n", ""):
                lines.append(line.removeprefix(".") if line.startswith("..") else line)
            if received.refusals:
                received.refusals -= 1
                self.say("451 try again later")
                return
            received.messages.append("".join(lines))
            self.say("250 queued")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        received.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
