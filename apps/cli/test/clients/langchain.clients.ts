import { sdkSuite } from './sdkSuite.ts';

const langchain = {
  npm: 'langchain',
  driver: 'langchain',
  tools: ['invokeTools'],
  streams: ['modelStream'],
} as const;

sdkSuite([
  { ...langchain, recipe: 'langchain-openai-js', vendor: 'openai' },
  {
    ...langchain,
    recipe: 'langchain-anthropic-js',
    vendor: 'anthropic',
    prefixed: ['max_tokens: 4096 | 16384'],
  },
]);
