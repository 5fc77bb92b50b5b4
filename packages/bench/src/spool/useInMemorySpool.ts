import { register } from 'node:module';

// A proxy imports this before its own code: `node --import useInMemorySpool.js main.js`. A query (`?waits`) is passed on to
// the module that replaces the spool.
register(`./inMemorySpoolHooks.js${new URL(import.meta.url).search}`, import.meta.url);
