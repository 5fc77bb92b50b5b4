import { sdkSuite } from './sdkSuite.ts';

sdkSuite([
  {
    recipe: 'groq-js',
    npm: 'sdks',
    driver: 'groq',
    vendor: 'groq',
    tools: ['chatTools'],
    streams: ['chatStream'],
    vendorPath: (path) => path.replace(/^\/openai/, ''),
  },
]);
