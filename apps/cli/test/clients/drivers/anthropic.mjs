const tools = [{ name: WEIGH.name, description: WEIGH.description, input_schema: WEIGH.parameters }];
const asked = { model: MODEL, max_tokens: 1024, messages: [{ role: 'user', content: QUESTION }] };

async function messagesTools() {
  const messages = [...asked.messages];
  for (let calls = 0; ; ) {
    const { content } = await client.messages.create({ ...asked, messages, tools });
    const used = content.filter(({ type }) => type === 'tool_use');
    if (used.length === 0) return { calls, text: content.map(({ text }) => text).join('') };
    calls += used.length;
    messages.push({ role: 'assistant', content });
    messages.push({
      role: 'user',
      content: used.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: ANSWER })),
    });
  }
}

async function messagesStream() {
  const pieces = [];
  const stream = client.messages.stream(asked).on('text', (piece) => pieces.push(piece));
  await stream.finalMessage();
  return { pieces: pieces.length, text: pieces.join('') };
}

async function countTokens() {
  const { input_tokens } = await client.messages.countTokens({ model: MODEL, messages: asked.messages });
  return { tokens: input_tokens };
}

async function models() {
  const ids = [];
  for await (const { id } of client.models.list({ limit: 1000 })) ids.push(id);
  return { models: ids.length };
}

await report({ messagesTools, messagesStream, countTokens, models });
