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
# One for all cases: clients keep connections that belong to a loop.
LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)


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


def google_genai():
    from google.genai import types

    declaration = {"name": "weigh", "description": WEIGH["description"], "parameters_json_schema": WEIGH["parameters"]}

    def content_tools():
        config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declaration])])
        contents, called = [types.Content(role="user", parts=[types.Part(text=QUESTION)])], 0
        while True:
            answer = client.models.generate_content(model=NAME, contents=contents, config=config)
            if not answer.function_calls:
                return {"calls": called, "text": answer.text}
            called += len(answer.function_calls)
            results = [types.Part.from_function_response(name=call.name, response={"output": ANSWER}) for call in answer.function_calls]
            contents += [answer.candidates[0].content, types.Content(role="user", parts=results)]

    def automatic_tools():
        """The SDK calls the function itself."""
        before = calls
        answer = client.chats.create(model=NAME, config={"tools": [weigh]}).send_message(QUESTION)
        return {"calls": calls - before, "text": answer.text}

    def stream():
        return streamed(chunk.text for chunk in client.models.generate_content_stream(model=NAME, contents=QUESTION))

    def embed():
        [embedding] = client.models.embed_content(model="gemini-embedding-001", contents=QUESTION).embeddings
        return {"dimensions": len(embedding.values)}

    yield "contentTools", content_tools
    yield "chatTools", automatic_tools
    yield "contentStream", stream
    yield "countTokens", lambda: {"tokens": client.models.count_tokens(model=NAME, contents=QUESTION).total_tokens}
    yield "embedding", embed


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

        return {"calls": (text := str(LOOP.run_until_complete(run()))) and calls, "text": text}

    yield "agentTools", tools
    yield "modelStream", lambda: streamed(chunk.delta for chunk in llm.stream_complete(QUESTION))


def pydantic_ai():
    agent.tool_plain(weigh)

    def tools():
        return {"text": agent.run_sync(QUESTION).output, "calls": calls}

    def stream():
        from pydantic_ai import Agent

        return streamed(Agent(agent.model).run_stream_sync(QUESTION).stream_text(delta=True, debounce_by=None))

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

        return streamed(LOOP.run_until_complete(run()))

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
    import dspy as library

    def fields(**values):
        """As a model is told to write them. The simulator repeats the question."""
        return "".join(f"\n\n[[ ## {name} ## ]]\n{value}" for name, value in values.items())

    def react():
        step = {"next_thought": "Weigh it.", "next_tool_name": "weigh", "next_tool_args": '{"truck": 1}'}
        question = QUESTION + fields(**step, reasoning="It was weighed.", answer=ANSWER)
        found = library.ReAct("question -> answer", tools=[weigh], max_iters=2)(question=question)
        observed = [value for name, value in found.trajectory.items() if name.startswith("observation")]
        return {"calls": calls, "text": found.answer, "observed": observed}

    def native_tools():
        class Weighing(library.Signature):
            question: str = library.InputField()
            tools: list[library.Tool] = library.InputField()
            tool_calls: library.ToolCalls = library.OutputField()

        with library.context(adapter=library.JSONAdapter()):
            found = library.Predict(Weighing)(question=QUESTION, tools=[library.Tool(weigh)])
        return {"called": [[call.name, call.args] for call in found.tool_calls.tool_calls]}

    def stream():
        listener = library.streaming.StreamListener(signature_field_name="answer")
        program = library.streamify(library.Predict("question -> answer"), stream_listeners=[listener])

        async def run():
            chunks = [chunk async for chunk in program(question=fields(answer=QUESTION, completed=""))]
            return [chunk.chunk for chunk in chunks if isinstance(chunk, library.streaming.StreamResponse)]

        return streamed(LOOP.run_until_complete(run()))

    yield "plain", lambda: {"text": lm(QUESTION)[0]}
    yield "reactTools", react
    yield "nativeTools", native_tools
    yield "stream", stream


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


def openai_refusals():
    yield "chat", lambda: client.chat.completions.create(model=NAME, messages=ASKED)
    yield "chatStream", lambda: list(client.chat.completions.create(model=NAME, messages=ASKED, stream=True))
    yield "responses", lambda: client.responses.create(model=NAME, input=QUESTION)


def anthropic_refusals():
    asked = {"model": NAME, "messages": ASKED}
    yield "messages", lambda: client.messages.create(**asked, max_tokens=1024)
    yield "messagesStream", lambda: list(client.messages.create(**asked, max_tokens=1024, stream=True))


def google_refusals():
    asked = {"model": NAME, "contents": QUESTION}
    yield "content", lambda: client.models.generate_content(**asked)
    yield "contentStream", lambda: list(client.models.generate_content_stream(**asked))


def litellm_refusals():
    import litellm as library

    yield "chat", lambda: library.completion(model=NAME, messages=ASKED)
    yield "chatStream", lambda: list(library.completion(model=NAME, messages=ASKED, stream=True))


def report(cases):
    for name, run in cases:
        try:
            found = run()
        except Exception as error:
            kind = f"{type(error).__module__}.{type(error).__name__}"
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            found = {"error": f"{kind}: {error}"[:500], "class": kind, "status": status}
        print("CASE " + json.dumps({"name": name, **found}), flush=True)


report(globals()[os.environ["TEST_DRIVER"]]())
