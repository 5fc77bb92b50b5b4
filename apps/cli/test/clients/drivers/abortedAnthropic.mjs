// Hidden reasoning would be charged as reserved.
const asked = {
  thinking: { type: process.env.TEST_THINKING ?? 'disabled' },
  model: MODEL,
  max_tokens: 4096,
  messages: [{ role: 'user', content: QUESTION }],
};

await reportAborts({
  messagesController: async (read) => {
    const stream = await client.messages.create({ ...asked, stream: true });
    await read(stream, () => stream.controller.abort());
  },
  messagesBreak: async (read) => await read(await client.messages.create({ ...asked, stream: true })),
  helperAbort: async (read) => {
    const stream = client.messages.stream(asked);
    stream.done().catch(() => undefined);
    await read(stream, () => stream.abort());
  },
});
