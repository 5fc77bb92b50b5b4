import { register } from 'node:module';

// To be imported by a data plane before its own code: `node --import withoutSpool.js main.js`.
register('./noSpoolHooks.js', import.meta.url);
