const { additionalProperties: _, ...parametersJsonSchema } = WEIGH.parameters;
const declaration = { name: WEIGH.name, description: WEIGH.description, parametersJsonSchema };
const config = { tools: [{ functionDeclarations: [declaration] }] };

const answerTo = ({ id, name }) => ({ functionResponse: { id, name, response: { output: ANSWER } } });

async function contentTools() {
  const contents = [{ role: 'user', parts: [{ text: QUESTION }] }];
  for (let calls = 0; ; ) {
    const answer = await client.models.generateContent({ model: MODEL, contents, config });
    if (!answer.functionCalls?.length) return { calls, text: answer.text };
    calls += answer.functionCalls.length;
    contents.push(answer.candidates[0].content, { role: 'user', parts: answer.functionCalls.map(answerTo) });
  }
}

async function chatTools() {
  const chat = client.chats.create({ model: MODEL, config });
  let answer = await chat.sendMessage({ message: QUESTION });
  let calls = 0;
  for (; answer.functionCalls?.length; calls++) {
    answer = await chat.sendMessage({ message: answer.functionCalls.map(answerTo) });
  }
  return { calls, text: answer.text };
}

async function contentStream() {
  const pieces = [];
  for await (const { text } of await client.models.generateContentStream({
    model: MODEL,
    contents: QUESTION,
  })) {
    if (text) pieces.push(text);
  }
  return { pieces: pieces.length, text: pieces.join('') };
}

await report({ chatTools, contentStream, contentTools });
