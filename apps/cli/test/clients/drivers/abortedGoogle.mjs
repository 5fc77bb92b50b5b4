const asked = { model: MODEL, contents: QUESTION };

// Only a signal ends the request: after a loop that was left, the SDK leaves the connection open.
await reportAborts({
  contentSignal: async (read) => {
    const caller = new AbortController();
    const config = { abortSignal: caller.signal };
    await read(await client.models.generateContentStream({ ...asked, config }), () => caller.abort());
  },
});
