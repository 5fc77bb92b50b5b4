import { z } from 'zod';

const weigh = tool({
  name: WEIGH.name,
  description: WEIGH.description,
  parameters: z.object({ truck: z.number() }),
  execute: async () => {
    calls++;
    return ANSWER;
  },
});
let calls = 0;

async function agentTools() {
  const agent = new Agent({ name: 'Assistant', instructions: 'Be brief.', tools: [weigh] });
  const { finalOutput } = await run(agent, QUESTION);
  return { calls, text: finalOutput };
}

async function agentStream() {
  const pieces = [];
  const streamed = await run(new Agent({ name: 'Assistant' }), QUESTION, { stream: true });
  for await (const piece of streamed.toTextStream()) pieces.push(piece);
  await streamed.completed;
  return { pieces: pieces.length, text: pieces.join('') };
}

await report({ agentTools, agentStream });
