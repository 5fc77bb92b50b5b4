import { tool } from '@langchain/core/tools';
import { z } from 'zod';

const weigh = tool(async () => ANSWER, {
  name: WEIGH.name,
  description: WEIGH.description,
  schema: z.object({ truck: z.number() }),
});

async function invokeTools() {
  const bound = model.bindTools([weigh]);
  const messages = [['human', QUESTION]];
  for (let calls = 0; ; ) {
    const answer = await bound.invoke(messages);
    if (!answer.tool_calls?.length) return { calls, text: answer.text };
    messages.push(answer);
    for (const call of answer.tool_calls) {
      calls++;
      messages.push(await weigh.invoke(call));
    }
  }
}

async function modelStream() {
  const pieces = [];
  for await (const { text } of await model.stream(QUESTION)) if (text) pieces.push(text);
  return { pieces: pieces.length, text: pieces.join('') };
}

await report({ invokeTools, modelStream });
