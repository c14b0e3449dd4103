"""A model's server that streams answers at a set pace, each piece being the time at which it left.

It speaks OpenAI's chat completions. Run: `python -m tests.benchmarks.paced_model PIECES PACE_MS
[LETTER]`; it prints its port. `LETTER` stands before each time, so that it reads as a word.
Units: times in nanoseconds since 1970.
"""

from __future__ import annotations

import asyncio
import sys
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
PIECE = (
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"paced","choices":'
    '[{"index":0,"delta":{"content":"%s%d "},"finish_reason":null}]}\n\n'
)
END = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"paced","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"paced","choices":[],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}\n\ndata: [DONE]\n\n'
)


async def main(pieces: int, pace_s: float, letter: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"post"):  # what a model's server is asked about itself
            writer.write(
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            writer.close()
            return
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(HEAD)
        loop = asyncio.get_running_loop()
        due = loop.time()
        for _ in range(pieces):
            due += pace_s
            await asyncio.sleep(due - loop.time())
            if writer.is_closing():  # who asked is gone
                return
            writer.write((PIECE % (letter, time.time_ns())).encode())
        writer.write(END)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1000, "".join(sys.argv[3:])))
