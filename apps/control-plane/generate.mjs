// Writes openapi.json from the routes' schemas. Run it by `pnpm generate`.
import { writeFileSync } from 'node:fs';
import { openApiDocument } from './dist/openApiDocument.js';

writeFileSync(new URL('openapi.json', import.meta.url), await openApiDocument());
