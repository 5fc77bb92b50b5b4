import { expect } from 'vitest';
import { sdkSuite } from './sdkSuite.ts';

sdkSuite([
  {
    recipe: 'openai-js',
    npm: 'sdks',
    driver: 'openai',
    vendor: 'openai',
    tools: ['chatTools', 'responsesTools'],
    streams: ['chatStream', 'responsesStream'],
    others: { models: { models: expect.toSatisfy((count) => count > 10) } },
  },
  {
    recipe: 'azure-openai-js',
    npm: 'sdks',
    driver: 'groq',
    vendor: 'openai',
    tools: ['chatTools'],
    streams: ['chatStream'],
    vendorPath: (path) => path.replace(/^\/openai\/deployments\/[^/]+\/([^?]+).*/, '/v1/$1'),
  },
]);
