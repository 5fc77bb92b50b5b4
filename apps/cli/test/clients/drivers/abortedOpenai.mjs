// Hidden reasoning would be charged as reserved.
const effort = process.env.TEST_EFFORT ?? 'none';
const messages = [{ role: 'user', content: QUESTION }];

/** By the stream's own controller, by a signal of the caller, and by leaving the loop. */
const chat = (more) =>
  client.chat.completions.create({ model: MODEL, messages, stream: true, reasoning_effort: effort }, more);
const responses = () =>
  client.responses.create({ model: MODEL, input: QUESTION, stream: true, reasoning: { effort } });

await reportAborts({
  chatController: async (read) => {
    const stream = await chat();
    await read(stream, () => stream.controller.abort());
  },
  chatSignal: async (read) => {
    const caller = new AbortController();
    await read(await chat({ signal: caller.signal }), () => caller.abort());
  },
  chatBreak: async (read) => await read(await chat()),
  responsesController: async (read) => {
    const stream = await responses();
    await read(stream, () => stream.controller.abort());
  },
});
