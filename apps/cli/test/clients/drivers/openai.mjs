const name = process.env.TEST_MODEL;
const tools = [{ type: 'function', function: WEIGH }];

async function chatTools() {
  const messages = [{ role: 'user', content: QUESTION }];
  for (let calls = 0; ; ) {
    const { choices } = await client.chat.completions.create({ model: name, messages, tools });
    const [{ message }] = choices;
    if (!message.tool_calls?.length) return { calls, text: message.content };
    messages.push(message);
    for (const { id } of message.tool_calls) {
      calls++;
      messages.push({ role: 'tool', tool_call_id: id, content: ANSWER });
    }
  }
}

async function chatStream() {
  const pieces = [];
  const messages = [{ role: 'user', content: QUESTION }];
  for await (const chunk of await client.chat.completions.create({ model: name, messages, stream: true })) {
    const piece = chunk.choices[0]?.delta.content;
    if (piece) pieces.push(piece);
  }
  return { pieces: pieces.length, text: pieces.join('') };
}

async function responsesTools() {
  const input = [{ role: 'user', content: QUESTION }];
  for (let calls = 0; ; ) {
    const response = await client.responses.create({
      model: name,
      input,
      tools: [{ type: 'function', ...WEIGH }],
      store: false,
    });
    const called = response.output.filter(({ type }) => type === 'function_call');
    if (called.length === 0) return { calls, text: response.output_text };
    for (const { call_id, name: tool, arguments: text } of called) {
      calls++;
      input.push({ type: 'function_call', call_id, name: tool, arguments: text });
      input.push({ type: 'function_call_output', call_id, output: ANSWER });
    }
  }
}

async function responsesStream() {
  const pieces = [];
  for await (const event of await client.responses.create({ model: name, input: QUESTION, stream: true })) {
    if (event.type === 'response.output_text.delta') pieces.push(event.delta);
  }
  return { pieces: pieces.length, text: pieces.join('') };
}

async function models() {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  return { models: ids.length };
}

await report({ chatTools, chatStream, responsesTools, responsesStream, models });
