// npm install @anthropic-ai/sdk; ANTHROPIC_BASE_URL is http://127.0.0.1:8080, ANTHROPIC_API_KEY a key of Weighbridge.
import Anthropic from '@anthropic-ai/sdk';

const message = await new Anthropic().messages.create({
  model: process.env.MODEL ?? 'mock/echo',
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Hello from the Anthropic SDK' }],
});
console.log(message.content.map((block) => block.text).join(''));
