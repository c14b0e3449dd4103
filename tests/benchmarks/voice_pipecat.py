"""Pipecat between the two ends: its Twilio serializer and its Realtime service, as its
examples join them.

Runs in an environment of its own: `.venv-voice-peers/bin/python tests/benchmarks/voice_pipecat.py
MODEL_URL`.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys

import uvicorn
from fastapi import FastAPI, WebSocket
from loguru import logger
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.services.openai.realtime.events import SessionProperties
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport

app = FastAPI()


async def stream(phone: WebSocket) -> None:
    await phone.accept()
    await phone.receive_text()
    start = json.loads(await phone.receive_text())
    quiet = TwilioFrameSerializer.InputParams(auto_hang_up=False)
    serializer = TwilioFrameSerializer(stream_sid=start["streamSid"], params=quiet)
    params = FastAPIWebsocketParams(
        audio_in_enabled=True, audio_out_enabled=True, serializer=serializer
    )
    transport = FastAPIWebsocketTransport(websocket=phone, params=params)
    properties = SessionProperties(instructions="Answer.")
    model = OpenAIRealtimeLLMService(
        api_key="the key of a benchmark", base_url=sys.argv[1], session_properties=properties
    )
    pipeline = Pipeline([transport.input(), model, transport.output()])
    rates = PipelineParams(audio_in_sample_rate=8000, audio_out_sample_rate=8000)
    task = PipelineTask(pipeline, params=rates)

    @transport.event_handler("on_client_disconnected")
    async def gone(_transport: object, _client: object) -> None:
        await task.cancel()

    await PipelineRunner(handle_sigint=False).run(task)


async def main() -> None:
    logger.remove()
    logging.disable(logging.CRITICAL)
    app.add_api_websocket_route("/", stream)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"ws://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
        config = uvicorn.Config(app, log_level="critical", lifespan="off")
        await uvicorn.Server(config).serve([listening])


if __name__ == "__main__":
    asyncio.run(main())
