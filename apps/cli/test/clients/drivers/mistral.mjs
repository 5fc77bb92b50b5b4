async function chatTools() {
  const messages = [{ role: 'user', content: QUESTION }];
  const tools = [{ type: 'function', function: WEIGH }];
  for (let calls = 0; ; ) {
    const { choices } = await client.chat.complete({ model: MODEL, messages, tools });
    const [{ message }] = choices;
    if (!message.toolCalls?.length) return { calls, text: message.content };
    messages.push({ ...message, role: 'assistant' });
    for (const { id } of message.toolCalls) {
      calls++;
      messages.push({ role: 'tool', toolCallId: id, name: WEIGH.name, content: ANSWER });
    }
  }
}

async function chatStream() {
  const pieces = [];
  const messages = [{ role: 'user', content: QUESTION }];
  for await (const { data } of await client.chat.stream({ model: MODEL, messages })) {
    const piece = data.choices[0]?.delta.content;
    if (piece) pieces.push(piece);
  }
  return { pieces: pieces.length, text: pieces.join('') };
}

async function models() {
  return { models: (await client.models.list()).data.length };
}

await report({ chatTools, chatStream, models });
