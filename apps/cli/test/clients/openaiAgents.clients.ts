import { sdkSuite } from './sdkSuite.ts';

sdkSuite([
  {
    recipe: 'openai-agents-js',
    npm: 'agents',
    driver: 'agents',
    vendor: 'openai',
    tools: ['agentTools'],
    streams: ['agentStream'],
    prefixed: ['reasoning: nothing | {"effort":"none"}', 'text: nothing | {"verbosity":"low"}'],
  },
]);
