"""Writes bodies.json: the bodies that vLLM's own client sends, as its server receives them.

Run with the Python of an installed vLLM 0.32.0: python bodies.py > bodies.json
The functions are loaded from their file, without the rest of vLLM; a server on loopback records what comes. Each entry
has the Format and Request of servebench that stand for the same request, in the form of their JSON.
"""
import asyncio
import importlib.util
import json
import os
import sys
import sysconfig

import aiohttp
from aiohttp import web

spec = importlib.util.spec_from_file_location(
    "erf", os.path.join(sysconfig.get_path("purelib"), "vllm/benchmarks/lib/endpoint_request_func.py"))
erf = importlib.util.module_from_spec(spec)
sys.modules["erf"] = erf
spec.loader.exec_module(erf)

APIS = {
    "completions": ("openai", "/v1/completions"), "chat": ("openai-chat", "/v1/chat/completions"),
    "responses": ("openai-responses", "/v1/responses"), "embeddings": ("openai-embeddings", "/v1/embeddings"),
    "embeddings-chat": ("openai-embeddings-chat", "/v1/embeddings"), "pooling": ("vllm-pooling", "/pooling"),
    "embeddings-clip": ("openai-embeddings-clip", "/v1/embeddings"), "rerank": ("vllm-rerank", "/v1/rerank"),
    "infinity-embeddings": ("infinity-embeddings", "/embeddings"),
    "infinity-embeddings-clip": ("infinity-embeddings-clip", "/embeddings"),
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/4AAQ"}}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "grüße"}]}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]
SAMPLING = {"temperature": 0.0, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "frequency_penalty": 0.2, "presence_penalty": -0.3, "repetition_penalty": 1.1}
TEXT = "Once \"upon\"\n\ta <time> & grüße 🦜\u2028\x7f"

# name, API, the prompt, what the format has beyond the defaults, what the request has
CASES = []
def case(name, api, prompt, **more):
    CASES.append((name, api, prompt, more))

for api in APIS:
    texts = ["a query", TEXT, "c"]
    if api == "rerank":
        case("query and documents", api, texts)
        continue
    case("text", api, TEXT)
    case("empty text", api, "") if "infinity" not in api else None
    case("ignore_eos", api, "hi", ignore_eos=True)
    case("extra", api, "hi", extra={"model": "other", "nested": {"a": [1, None]}, "é": True, "ignore_eos": False})
    if api in ("completions", "chat", "responses"):
        case("sampling", api, "hi", sampling=SAMPLING)
        case("sampling and extra", api, "hi", sampling=SAMPLING, extra={"temperature": 1.5, "x": 1}, ignore_eos=True)
    if api in ("completions", "embeddings", "pooling"):
        case("token ids", api, [9707, 11, 0])
    if api in ("embeddings", "pooling", "infinity-embeddings"):
        case("texts", api, texts)
        case("one text in a list", api, texts[:1])
    if api in ("chat", "embeddings-chat", "embeddings-clip"):
        case("parts", api, "what is this?", parts=[IMAGE, IMAGE])
        case("parts without text", api, "", parts=[IMAGE])
    if api == "infinity-embeddings":
        case("image", api, "", parts=IMAGE)
    if api == "infinity-embeddings-clip":
        case("image", api, "dropped", parts=IMAGE)
    if api in ("chat", "embeddings-chat", "responses"):
        case("messages", api, MESSAGES)
case("logprobs", "completions", "hi", logprobs=3)
case("tools", "chat", "hi", tools=TOOLS, messages=MESSAGES, sampling={"temperature": 0.5})
case("tools and extra", "chat", "hi", tools=TOOLS, extra={"tool_choice": "required", "x": 2})


def ours(name, api, prompt, more):
    f = {"api": api, "model": "m/tiny", "stream": True}
    f |= {k: more[k] for k in ("ignore_eos", "logprobs", "sampling", "extra") if k in more}
    r = {"OutputTokens": 8}
    if isinstance(prompt, str):
        r["Prompt"] = prompt
    elif isinstance(prompt[0], int):
        r["Tokens"] = prompt
    elif isinstance(prompt[0], dict):
        r["Messages"] = prompt
    else:
        r["Texts"] = prompt
    if "parts" in more:
        r["Parts"] = more["parts"] if isinstance(more["parts"], list) else [more["parts"]]
    if "messages" in more:
        r["Messages"] = more["messages"]
    if "tools" in more:
        r["Tools"] = more["tools"]
    return {"Name": f"{api}, {name}", "Format": f, "Request": r}


async def main():
    bodies = []

    async def record(request):
        bodies.append(await request.text())
        return web.json_response({"usage": {}})

    app = web.Application()
    app.router.add_post("/{path:.*}", record)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = "http://127.0.0.1:%d" % site._server.sockets[0].getsockname()[1]
    out = []
    async with aiohttp.ClientSession() as session:
        for name, api, prompt, more in CASES:
            backend, path = APIS[api]
            # As serve.py puts them together: a request's own keys last.
            extra = {**more.get("sampling", {}), **more.get("extra", {})}
            if "tools" in more:
                extra |= {"tools": more["tools"], "tool_choice": "auto"}
            await erf.ASYNC_REQUEST_FUNCS[backend](erf.RequestFuncInput(
                prompt=prompt, api_url=base + path, prompt_len=3, output_len=8, model="m/root", model_name="m/tiny",
                logprobs=more.get("logprobs"), extra_body=extra, multi_modal_content=more.get("parts"),
                ignore_eos=more.get("ignore_eos", False), chat_messages=more.get("messages")), session)
            out.append({**ours(name, api, prompt, more), "Body": bodies[-1]})
    assert len(bodies) == len(CASES)
    await runner.cleanup()
    print(json.dumps(out, indent=1))


asyncio.run(main())
