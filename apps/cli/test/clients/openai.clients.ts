import { expect } from 'vitest';
import { sdkSuite } from './sdkSuite.ts';

const MANY = expect.toSatisfy((count) => count > 10);

sdkSuite([
  {
    recipe: 'openai-js',
    npm: 'sdks',
    driver: 'openai',
    vendor: 'openai',
    tools: ['chatTools', 'responsesTools'],
    streams: ['chatStream', 'responsesStream'],
    others: { models: { models: MANY } },
  },
]);
