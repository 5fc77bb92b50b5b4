import * as ai from 'ai';
import { z } from 'zod';

const weigh = (onCall) =>
  ai.tool({
    description: WEIGH.description,
    inputSchema: z.object({ truck: z.number() }),
    execute: async () => {
      onCall();
      return ANSWER;
    },
  });

async function textTools() {
  let calls = 0;
  const { text } = await ai.generateText({
    model,
    // What it makes of these depends on the model.
    instructions: 'Be brief.',
    temperature: 0,
    prompt: QUESTION,
    tools: { weigh: weigh(() => calls++) },
    stopWhen: (ai.isStepCount ?? ai.stepCountIs)(5),
  });
  return { calls, text };
}

async function textStream() {
  const pieces = [];
  for await (const piece of ai.streamText({ model, prompt: QUESTION }).textStream) pieces.push(piece);
  return { pieces: pieces.length, text: pieces.join('') };
}

await report({ textTools, textStream });
