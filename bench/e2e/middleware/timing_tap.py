"""ASGI middleware for `vllm serve --middleware timing_tap.Tap`: notes, for each
completion, what the server tells of its own timing and when the request and its
answer passed the HTTP layer. A line of JSON a request goes to the file named by
SERVEBENCH_TIMING_LOG. It stands between uvicorn and vLLM's application, so it is
the same for every client and changes no byte."""

import json
import os
import time


class Tap:
    def __init__(self, app):
        self.app = app
        self.log = open(os.environ["SERVEBENCH_TIMING_LOG"], "ab", buffering=0)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].endswith("completions"):
            return await self.app(scope, receive, send)
        entered = time.monotonic_ns()  # the headers are read, the body perhaps not
        first = last = 0

        async def tapped(message):
            nonlocal first, last
            body = message.get("body", b"")
            if not body:
                return await send(message)
            if b'"metrics":{' in body:  # behind the last token
                await send(message)
                told = json.loads(body.removeprefix(b"data: "))
                line = {"id": told["id"], "entered": entered, "first": first, "last": last, "metrics": told["metrics"]}
                self.log.write(json.dumps(line).encode() + b"\n")
                return
            if not body.startswith(b"data: [DONE]"):
                last = time.monotonic_ns()
                first = first or last
            await send(message)

        await self.app(scope, receive, tapped)
