async function chatTools() {
  const messages = [{ role: 'user', content: QUESTION }];
  const metadata = { name: WEIGH.name, description: WEIGH.description, parameters: WEIGH.parameters };
  for (let calls = 0; ; ) {
    const { message } = await llm.chat({ messages, tools: [{ metadata, call: () => ANSWER }] });
    const called = message.options?.toolCall;
    if (!called?.length) return { calls, text: message.content };
    messages.push(message);
    for (const { id } of called) {
      calls++;
      const toolResult = { id, result: ANSWER, isError: false };
      messages.push({ role: 'user', content: ANSWER, options: { toolResult } });
    }
  }
}

async function chatStream() {
  const pieces = [];
  const stream = await llm.chat({ messages: [{ role: 'user', content: QUESTION }], stream: true });
  for await (const { delta } of stream) if (delta) pieces.push(delta);
  return { pieces: pieces.length, text: pieces.join('') };
}

await report({ chatTools, chatStream });
