const name = process.env.TEST_MODEL;

async function chatTools() {
  const messages = [{ role: 'user', content: QUESTION }];
  const tools = [{ type: 'function', function: WEIGH }];
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

await report({ chatTools, chatStream });
