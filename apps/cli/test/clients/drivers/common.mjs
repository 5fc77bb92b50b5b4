// Before every driver: what the cases share. The settings that `weighbridge connect` printed come before it.
const MODEL = process.env.TEST_MODEL;
const QUESTION = 'How heavy is the truck?';
const ANSWER = '40 tonnes';
const WEIGH = {
  name: 'weigh',
  description: 'Weighs a truck.',
  parameters: {
    type: 'object',
    properties: { truck: { type: 'integer' } },
    required: ['truck'],
    additionalProperties: false,
  },
};

/** Runs the cases in turn, and prints what each found. */
async function report(cases) {
  for (const [name, run] of Object.entries(cases)) {
    const wanted = process.env.TEST_CASES?.split(',');
    if (wanted && !wanted.includes(name)) continue;
    let found;
    try {
      found = await run();
    } catch (error) {
      found = { error: `${error?.name}: ${error?.message}`.slice(0, 500), status: error?.status };
    }
    console.log(`CASE ${JSON.stringify({ name, ...found })}`);
  }
}

/** Of SDKs with OpenAI's chat completions: calls a tool until there is an answer. */
async function completionsTools() {
  const messages = [{ role: 'user', content: QUESTION }];
  const tools = [{ type: 'function', function: WEIGH }];
  for (let calls = 0; ; ) {
    const { choices } = await client.chat.completions.create({ model: MODEL, messages, tools });
    const [{ message }] = choices;
    if (!message.tool_calls?.length) return { calls, text: message.content };
    messages.push(message);
    for (const { id } of message.tool_calls) {
      calls++;
      messages.push({ role: 'tool', tool_call_id: id, content: ANSWER });
    }
  }
}

async function completionsStream() {
  const pieces = [];
  const messages = [{ role: 'user', content: QUESTION }];
  for await (const chunk of await client.chat.completions.create({ model: MODEL, messages, stream: true })) {
    const piece = chunk.choices[0]?.delta.content;
    if (piece) pieces.push(piece);
  }
  return { pieces: pieces.length, text: pieces.join('') };
}
