import { sdkSuite } from './sdkSuite.ts';

sdkSuite([
  {
    recipe: 'google-genai-js',
    npm: 'google',
    driver: 'googleGenai',
    vendor: 'gemini',
    tools: ['contentTools', 'chatTools'],
    streams: ['contentStream'],
  },
]);
