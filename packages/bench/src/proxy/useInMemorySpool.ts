import { register } from 'node:module';

// A proxy imports this before its own code: `node --import useInMemorySpool.js main.js`.
register('./inMemorySpoolHooks.js', import.meta.url);
