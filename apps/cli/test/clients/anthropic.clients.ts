import { expect } from 'vitest';
import { sdkSuite } from './sdkSuite.ts';

const MANY = expect.toSatisfy((count) => count > 10);

sdkSuite([
  {
    recipe: 'anthropic-js',
    npm: 'sdks',
    driver: 'anthropic',
    vendor: 'anthropic',
    tools: ['messagesTools'],
    streams: ['messagesStream'],
    others: { countTokens: { tokens: expect.toSatisfy((count) => count > 5) }, models: { models: MANY } },
  },
]);
