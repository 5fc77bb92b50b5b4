// npm install openai; OPENAI_BASE_URL is http://127.0.0.1:8080/v1, OPENAI_API_KEY a key of Weighbridge.
import OpenAI from 'openai';

const client = new OpenAI();
const stream = await client.chat.completions.create({
  model: process.env.MODEL ?? 'mock/echo',
  messages: [{ role: 'user', content: 'Hello from the OpenAI SDK' }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
