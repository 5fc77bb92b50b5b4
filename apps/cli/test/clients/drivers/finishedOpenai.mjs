const messages = [{ role: 'user', content: QUESTION }];

/** Six streams, each read to its end, as the SDK does it: it closes the connection at the last event. */
async function finished() {
  let read = 0;
  for (let at = 0; at < 6; at++) {
    let text = '';
    const stream = await client.chat.completions.create({ model: MODEL, messages, stream: true, seed: at });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    if (text === QUESTION) read++;
  }
  return { read };
}

await report({ finished });
