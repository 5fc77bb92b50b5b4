const messages = [{ role: 'user', content: QUESTION }];

/** Six streams, each read to its end, as the SDK does it. */
async function finished() {
  let read = 0;
  for (let at = 0; at < 6; at++) {
    let text = '';
    const stream = await client.messages.create({
      model: MODEL,
      max_tokens: 64 + at,
      messages,
      stream: true,
    });
    for await (const event of stream) text += event.delta?.text ?? '';
    if (text === QUESTION) read++;
  }
  return { read };
}

await report({ finished });
