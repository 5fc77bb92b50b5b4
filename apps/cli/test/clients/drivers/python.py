"""After the settings that `weighbridge connect` printed, which make `client`, `model`, `llm`, `agent` or `lm`."""

import asyncio
import json
import os

QUESTION = "How heavy is the truck?"
ANSWER = "40 tonnes"
NAME = os.environ["TEST_MODEL"]
WEIGH = {
    "name": "weigh",
    "description": "Weighs a truck.",
    "parameters": {"type": "object", "properties": {"truck": {"type": "integer"}}, "required": ["truck"]},
}
CHAT_TOOLS = [{"type": "function", "function": WEIGH}]
calls = 0


def weigh(truck: int) -> str:
    """Weighs a truck."""
    global calls
    calls += 1
    return ANSWER


def chat_tools(create):
    """The loop that programs write around `create(messages)`, which returns a message of a chat completion."""
    messages, called = [{"role": "user", "content": QUESTION}], 0
    while True:
        message = create(messages)
        if not message.tool_calls:
            return {"calls": called, "text": message.content}
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            called += 1
            messages.append({"role": "tool", "tool_call_id": call.id, "content": ANSWER})


def streamed(pieces):
    got = [piece for piece in pieces if piece]
    return {"pieces": len(got), "text": "".join(got)}


def deltas(chunks):
    return streamed(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)


ASKED = [{"role": "user", "content": QUESTION}]


def openai_python():
    def responses_tools():
        items, called = list(ASKED), 0
        while True:
            tools = [{"type": "function", **WEIGH}]
            response = client.responses.create(model=NAME, input=items, tools=tools, store=False)
            used = [item for item in response.output if item.type == "function_call"]
            if not used:
                return {"calls": called, "text": response.output_text}
            for item in used:
                called += 1
                items.append({"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.arguments})
                items.append({"type": "function_call_output", "call_id": item.call_id, "output": ANSWER})

    def responses_stream():
        events = client.responses.create(model=NAME, input=QUESTION, stream=True)
        return streamed(event.delta for event in events if event.type == "response.output_text.delta")

    yield "chatTools", lambda: chat_tools(
        lambda messages: client.chat.completions.create(model=NAME, messages=messages, tools=CHAT_TOOLS).choices[0].message
    )
    yield "chatStream", lambda: deltas(client.chat.completions.create(model=NAME, messages=ASKED, stream=True))
    yield "responsesTools", responses_tools
    yield "responsesStream", responses_stream
    yield "models", lambda: {"models": len(list(client.models.list()))}


def groq_python():
    yield "chatTools", lambda: chat_tools(
        lambda messages: client.chat.completions.create(model=NAME, messages=messages, tools=CHAT_TOOLS).choices[0].message
    )
    yield "chatStream", lambda: deltas(client.chat.completions.create(model=NAME, messages=ASKED, stream=True))


def mistral_python():
    def tools():
        messages, called = list(ASKED), 0
        while True:
            message = client.chat.complete(model=NAME, messages=messages, tools=CHAT_TOOLS).choices[0].message
            if not message.tool_calls:
                return {"calls": called, "text": message.content}
            messages.append(message)
            for call in message.tool_calls:
                called += 1
                messages.append({"role": "tool", "tool_call_id": call.id, "name": "weigh", "content": ANSWER})

    yield "chatTools", tools
    yield "chatStream", lambda: deltas(event.data for event in client.chat.stream(model=NAME, messages=ASKED))
    yield "models", lambda: {"models": len(client.models.list().data)}


def anthropic_python():
    asked = {"model": NAME, "max_tokens": 1024}

    def tools():
        tool = {"name": "weigh", "description": WEIGH["description"], "input_schema": WEIGH["parameters"]}
        messages, called = list(ASKED), 0
        while True:
            content = client.messages.create(**asked, messages=messages, tools=[tool]).content
            used = [block for block in content if block.type == "tool_use"]
            if not used:
                return {"calls": called, "text": content[0].text}
            called += len(used)
            messages.append({"role": "assistant", "content": content})
            results = [{"type": "tool_result", "tool_use_id": block.id, "content": ANSWER} for block in used]
            messages.append({"role": "user", "content": results})

    def stream():
        with client.messages.stream(**asked, messages=ASKED) as events:
            return streamed(events.text_stream)

    yield "messagesTools", tools
    yield "messagesStream", stream
    yield "countTokens", lambda: {"tokens": client.messages.count_tokens(model=NAME, messages=ASKED).input_tokens}
    yield "models", lambda: {"models": len(list(client.models.list(limit=1000)))}


def litellm():
    import litellm as library

    yield "chatTools", lambda: chat_tools(
        lambda messages: library.completion(model=NAME, messages=messages, tools=CHAT_TOOLS).choices[0].message
    )
    yield "chatStream", lambda: deltas(library.completion(model=NAME, messages=ASKED, stream=True))


def langchain():
    from langchain_core.tools import tool

    weigher = tool(weigh)

    def tools():
        bound, messages = model.bind_tools([weigher]), [("human", QUESTION)]
        while True:
            answer = bound.invoke(messages)
            if not answer.tool_calls:
                return {"calls": calls, "text": answer.text}
            messages.append(answer)
            messages.extend(weigher.invoke(call) for call in answer.tool_calls)

    yield "modelTools", tools
    yield "modelStream", lambda: streamed(chunk.text for chunk in model.stream(QUESTION))


def llama_index():
    from llama_index.core.tools import FunctionTool

    def tools():
        from llama_index.core.agent.workflow import FunctionAgent

        async def run():
            return await FunctionAgent(tools=[FunctionTool.from_defaults(weigh)], llm=llm, streaming=False).run(QUESTION)

        return {"calls": (text := str(asyncio.run(run()))) and calls, "text": text}

    yield "agentTools", tools
    yield "modelStream", lambda: streamed(chunk.delta for chunk in llm.stream_complete(QUESTION))


def pydantic_ai():
    agent.tool_plain(weigh)

    def tools():
        return {"text": agent.run_sync(QUESTION).output, "calls": calls}

    def stream():
        from pydantic_ai import Agent

        async def run():
            async with Agent(agent.model).run_stream(QUESTION) as result:
                return [piece async for piece in result.stream_text(delta=True, debounce_by=None)]

        return streamed(asyncio.run(run()))

    yield "agentTools", tools
    yield "agentStream", stream


def openai_agents():
    def tools():
        result = Runner.run_sync(Agent(name="Assistant", tools=[function_tool(weigh)]), QUESTION)
        return {"calls": calls, "text": result.final_output}

    def stream():
        async def run():
            result = Runner.run_streamed(Agent(name="Assistant"), QUESTION)
            events = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
            return [event.delta for event in events if event.type == "response.output_text.delta"]

        return streamed(asyncio.run(run()))

    yield "agentTools", tools
    yield "agentStream", stream


def instructor():
    from pydantic import BaseModel

    class Truck(BaseModel):
        weight: int

    def structured():
        truck = client.chat.completions.create(response_model=Truck, messages=ASKED)
        return {"isNumber": isinstance(truck.weight, int)}

    def stream():
        parts = list(client.chat.completions.create_partial(response_model=Truck, messages=ASKED))
        return {"isNumber": isinstance(parts[-1].weight, int)}

    yield "structured", structured
    yield "partial", stream


def dspy():
    yield "plain", lambda: {"text": lm(QUESTION)[0]}


def smolagents():
    class Weigh(Tool):
        name = "weigh"
        description = "Weighs a truck."
        inputs = {"truck": {"type": "integer", "description": "Its number."}}
        output_type = "string"

        def forward(self, truck: int) -> str:
            return weigh(truck)

    def tools():
        agent = ToolCallingAgent(tools=[Weigh()], model=model, max_steps=2, verbosity_level=0)
        return {"text": str(agent.run(QUESTION)), "calls": calls}

    def stream():
        from smolagents import ChatMessage, MessageRole

        message = ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": QUESTION}])
        return streamed(delta.content for delta in model.generate_stream([message]))

    yield "agentTools", tools
    yield "modelStream", stream


def report(cases):
    for name, run in cases:
        try:
            found = run()
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:500], "status": getattr(error, "status_code", None)}
        print("CASE " + json.dumps({"name": name, **found}), flush=True)


report(globals()[os.environ["TEST_DRIVER"]]())
