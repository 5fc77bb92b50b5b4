import { expect } from 'vitest';
import { sdkSuite } from './sdkSuite.ts';

sdkSuite([
  {
    recipe: 'mistral-js',
    npm: 'sdks',
    driver: 'mistral',
    vendor: 'mistral',
    tools: ['chatTools'],
    streams: ['chatStream'],
    others: { models: { models: expect.toSatisfy((count) => count > 10) } },
  },
]);
