import { sdkSuite } from './sdkSuite.ts';

const vercel = { npm: 'vercel', driver: 'vercel', tools: ['textTools'], streams: ['textStream'] } as const;

sdkSuite([
  {
    ...vercel,
    recipe: 'ai-sdk-openai',
    vendor: 'openai',
    prefixed: ['input/0/role: "system" | "developer"', 'temperature: 0 | nothing'],
  },
  { ...vercel, recipe: 'ai-sdk-anthropic', vendor: 'anthropic' },
  {
    ...vercel,
    recipe: 'ai-sdk-google',
    vendor: 'gemini',
    refusesPrefix: '/v1beta/gemini/gemini-2.5-pro:generateContent is not served here',
  },
]);
