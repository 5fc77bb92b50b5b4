async function responsesTools() {
  const input = [{ role: 'user', content: QUESTION }];
  for (let calls = 0; ; ) {
    const response = await client.responses.create({
      model: MODEL,
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
  for await (const event of await client.responses.create({ model: MODEL, input: QUESTION, stream: true })) {
    if (event.type === 'response.output_text.delta') pieces.push(event.delta);
  }
  return { pieces: pieces.length, text: pieces.join('') };
}

async function models() {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  return { models: ids.length };
}

await report({
  chatTools: completionsTools,
  chatStream: completionsStream,
  responsesTools,
  responsesStream,
  models,
});
