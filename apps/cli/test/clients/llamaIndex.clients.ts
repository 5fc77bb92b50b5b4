import { sdkSuite } from './sdkSuite.ts';

sdkSuite([
  {
    recipe: 'llamaindex-js',
    npm: 'llamaindex',
    driver: 'llamaindex',
    vendor: 'openai',
    tools: ['chatTools'],
    streams: ['chatStream'],
  },
]);
