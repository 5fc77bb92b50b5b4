import { register } from 'node:module';

// To be imported by a data plane before its own code: `node --import withoutSpool.js main.js`. What stands behind a `?`
// goes on to the module that takes the spool's place.
register(`./noSpoolHooks.js${new URL(import.meta.url).search}`, import.meta.url);
