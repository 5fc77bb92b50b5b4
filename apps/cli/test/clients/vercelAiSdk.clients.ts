import { sdkSuite } from './sdkSuite.ts';

const vercel = { npm: 'vercel', driver: 'vercel', tools: ['textTools'], streams: ['textStream'] } as const;

sdkSuite([
  { ...vercel, recipe: 'ai-sdk-openai', vendor: 'openai' },
  { ...vercel, recipe: 'ai-sdk-anthropic', vendor: 'anthropic' },
  { ...vercel, recipe: 'ai-sdk-google', vendor: 'gemini' },
]);
