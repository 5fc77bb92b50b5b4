// npm install ai @ai-sdk/openai; OPENAI_BASE_URL is http://127.0.0.1:8080/v1, OPENAI_API_KEY a key of Weighbridge.
import { createOpenAI } from '@ai-sdk/openai';
import { streamText } from 'ai';

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
const { textStream } = streamText({
  model: openai.chat(process.env.MODEL ?? 'mock/echo'),
  prompt: 'Hello from the Vercel AI SDK',
});
for await (const text of textStream) process.stdout.write(text);
